/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/store.h"

#include "tests/unit/unit-test.h"
#include "worker/zookeeper/session.h"

/*
 * Tests how a store uses its session, which is replaced here. tests/simulation/contract-store.c
 * tests its contract, and simulation-zookeeper.c its connections.
 */

static GQueue requests; /* (element-type guint64): not answered yet, in order */
static GQueue messages; /* (element-type ZookeeperMessage) */
static guint64 last_request;

static guint64 make_request(void)
{
	g_queue_push_tail(&requests, g_memdup2(&(guint64){++last_request}, sizeof(guint64)));
	return last_request;
}

guint64 zookeeper_session_get(ZookeeperSession *self G_GNUC_UNUSED, const char *path G_GNUC_UNUSED,
			      gboolean watch G_GNUC_UNUSED)
{
	return make_request();
}

guint64 zookeeper_session_children(ZookeeperSession *self G_GNUC_UNUSED,
				   const char *path G_GNUC_UNUSED, gboolean watch G_GNUC_UNUSED)
{
	return make_request();
}

guint64 zookeeper_session_sync(ZookeeperSession *self G_GNUC_UNUSED, const char *path G_GNUC_UNUSED)
{
	return make_request();
}

ZookeeperMessage *zookeeper_session_take(ZookeeperSession *self G_GNUC_UNUSED)
{
	return g_queue_pop_head(&messages);
}

ZookeeperSession *zookeeper_session_new(const ZookeeperSessionConfig *config G_GNUC_UNUSED)
{
	return g_malloc0(1);
}

void zookeeper_session_close(ZookeeperSession *self, gint64 timeout_ms G_GNUC_UNUSED)
{
	g_free(self);
}

void zookeeper_session_free(ZookeeperSession *self)
{
	g_free(self);
}

gint64 zookeeper_session_timeout_ms(ZookeeperSession *self G_GNUC_UNUSED)
{
	return 1000;
}

void zookeeper_message_free(ZookeeperMessage *message)
{
	g_strfreev(message->children);
	g_strfreev(message->addresses);
	g_free(message->data);
	g_free(message);
}

/* These functions are linked, but not called. */
#define NOT_CALLED(name, ...)                                                                      \
	guint64 zookeeper_session_##name(ZookeeperSession *self G_GNUC_UNUSED, __VA_ARGS__)        \
	{                                                                                          \
		g_assert_not_reached();                                                            \
	}
NOT_CALLED(exists, const char *path G_GNUC_UNUSED, gboolean watch G_GNUC_UNUSED)
NOT_CALLED(create, const char *path G_GNUC_UNUSED, const char *data G_GNUC_UNUSED,
	   gboolean is_ephemeral G_GNUC_UNUSED)
NOT_CALLED(delete, const char *path G_GNUC_UNUSED)
NOT_CALLED(get_acl, const char *path G_GNUC_UNUSED)
NOT_CALLED(copy_acl, const char *path G_GNUC_UNUSED)
NOT_CALLED(commit, const ZookeeperWrite *writes G_GNUC_UNUSED, guint n_writes G_GNUC_UNUSED)

static void wake(gpointer user_data G_GNUC_UNUSED)
{
}

/* Returns: (nullable): what the store reports after the session has @message: (transfer full). */
static StoreMessage *after(Store *store, ZookeeperMessage *message)
{
	g_queue_push_tail(&messages, message);
	return store->ops->take(store);
}

static ZookeeperMessage *message_new(ZookeeperMessageType type)
{
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	message->type = type;
	message->reason = "reason";
	return message;
}

/* Returns: (nullable): after the oldest request has the reply @outcome, with @n_children. */
static StoreMessage *answer(Store *store, ZookeeperOutcome outcome, guint n_children)
{
	g_autofree guint64 *request = g_queue_pop_head(&requests);
	ZookeeperMessage *message = message_new(ZOOKEEPER_REPLY);

	message->request = *request;
	message->outcome = outcome;
	message->data = g_strdup("");
	message->children = g_new0(char *, n_children + 1);
	for (guint i = 0; i < n_children; i++)
		message->children[i] = g_strdup_printf("%u", i);
	return after(store, message);
}

static void reconnect(Store *store)
{
	g_autoptr(StoreMessage) up = after(store, message_new(ZOOKEEPER_CONNECTED));

	g_assert_cmpint(up->event, ==, STORE_UP);
}

static Store *store_new(void)
{
	const ZookeeperHosts hosts = {.servers = (char *)"a:1", .root = (char *)"/s"};
	Store *store = zookeeper_store_new(
		&(ZookeeperStoreConfig){.hosts = &hosts, .session_timeout_ms = 1000});

	store->wake = wake;
	g_queue_clear_full(&requests, g_free);
	g_assert_null(store->ops->take(store)); /* opens a session */
	g_assert_null(after(store, message_new(ZOOKEEPER_OPENED)));
	reconnect(store);
	return store;
}

/* A request that is made after a large list has begun waits for a part of the list only. */
TEST("/zookeeper-store/reads-under-way", test_reads_under_way)
{
	Store *store = store_new();
	guint64 request = store->ops->list(store, "/s", FALSE, FALSE);
	StoreMessage *list = answer(store, ZOOKEEPER_OK, 1000);
	guint n_reads = 0, most = 0;

	while (list == NULL) {
		most = MAX(most, requests.length);
		n_reads++;
		list = answer(store, ZOOKEEPER_OK, 0);
	}
	g_assert_cmpuint(most, ==, 256);
	g_assert_cmpuint(n_reads, ==, 1000);
	g_assert_cmpuint(list->request, ==, request);
	g_assert_cmpuint(list->records->len, ==, 1000);
	store_message_free(list);
	store->ops->close(store, 0);
}

TEST("/zookeeper-store/dropped-list", test_dropped_list)
{
	Store *store = store_new();
	guint64 request = store->ops->list(store, "/s", FALSE, FALSE);

	g_assert_null(answer(store, ZOOKEEPER_OK, 1000));
	store->ops->drop(store, request);
	for (guint i = 0; i < 256; i++)
		g_assert_null(answer(store, ZOOKEEPER_OK, 0));
	g_assert_cmpuint(requests.length, ==, 0);
	store->ops->close(store, 0);
}

/* One reply determines the outcome of a list; a child that is gone or unreadable does not. */
TEST("/zookeeper-store/outcomes", test_outcomes)
{
	static const struct {
		gboolean fresh;
		ZookeeperOutcome
			/* replies to the sync, if the list must be fresh, to the list, and to its
			 * children */
			replies[4];
		StoreOutcome outcome;
		guint n_records;
	} CASES[] = {
		{FALSE, {ZOOKEEPER_OK, ZOOKEEPER_OK, ZOOKEEPER_OK}, STORE_OK, 2},
		{TRUE, {ZOOKEEPER_OK, ZOOKEEPER_OK, ZOOKEEPER_OK, ZOOKEEPER_OK}, STORE_OK, 2},
		{TRUE,
		 {ZOOKEEPER_UNSURE, ZOOKEEPER_OK, ZOOKEEPER_OK, ZOOKEEPER_OK},
		 STORE_UNSURE,
		 2},
		{FALSE, {ZOOKEEPER_OK, ZOOKEEPER_NO_NODE, ZOOKEEPER_NO_AUTH}, STORE_OK, 1},
		{FALSE, {ZOOKEEPER_OK, ZOOKEEPER_UNSURE, ZOOKEEPER_OK}, STORE_UNSURE, 1},
		{FALSE, {ZOOKEEPER_OK, ZOOKEEPER_REFUSED, ZOOKEEPER_UNSURE}, STORE_REFUSED, 0},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Store *store = store_new();
		StoreMessage *list = NULL;

		store->ops->list(store, "/s", CASES[i].fresh, FALSE);
		for (guint j = 0; list == NULL; j++)
			list = answer(store, CASES[i].replies[j], 2);
		g_assert_cmpint(list->outcome, ==, CASES[i].outcome);
		g_assert_cmpuint(list->records->len, ==, CASES[i].n_records);
		g_assert_cmpuint(requests.length, ==, 0);
		store_message_free(list);
		store->ops->close(store, 0);
	}
}

/* A reply to a request of an earlier connection does not count. */
TEST("/zookeeper-store/earlier-connection", test_earlier_connection)
{
	Store *store = store_new();
	guint64 request;
	StoreMessage *read;

	store->ops->read(store, "/s/a", TRUE);
	reconnect(store);
	request = store->ops->read(store, "/s/a", FALSE);
	g_assert_null(answer(store, ZOOKEEPER_OK, 0));
	g_assert_null(answer(store, ZOOKEEPER_OK, 0));
	read = answer(store, ZOOKEEPER_NO_NODE, 0);
	g_assert_cmpuint(read->request, ==, request);
	g_assert_cmpint(read->outcome, ==, STORE_ABSENT);
	store_message_free(read);
	store->ops->close(store, 0);
}
