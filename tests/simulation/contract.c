/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/simulation/contract.h"
#include "tests/unit/unit-test.h"

/* The cases: the guarantees of session.h on which the registration relies. */

#define CASE(path, function)                                                                       \
	static void function(const char *root);                                                    \
	TEST(path, run_##function)                                                                 \
	{                                                                                          \
		contract_run(function);                                                            \
	}                                                                                          \
	static void function(const char *root G_GNUC_UNUSED)

typedef ContractClient Client;

/* Makes a request. Returns: its number */
#define ASK(client, operation, ...)                                                                \
	zookeeper_session_##operation(contract_client_session(client), __VA_ARGS__)

/* Requests a write regardless of the version. Returns: its number */
static guint64 request_set(Client *client, const char *path, const char *data)
{
	const ZookeeperWrite write = {
		.type = ZOOKEEPER_SET, .path = path, .data = data, .version = -1};

	return ASK(client, commit, &write, 1);
}

/* Returns: (transfer full): the next message. It must be of @type. */
static ZookeeperMessage *expect(Client *client, ZookeeperMessageType type)
{
	ZookeeperMessage *message = contract_client_next(client);

	g_assert_cmpint(message->type, ==, type);
	return message;
}

static void expect_changed(Client *client, const char *path, gboolean gone)
{
	g_autoptr(ZookeeperMessage) message = expect(client, ZOOKEEPER_CHANGED);

	g_assert_cmpstr(message->path, ==, path);
	g_assert_cmpint(message->gone, ==, gone);
}

static ZookeeperMessage *expect_reply(Client *client, guint64 request)
{
	ZookeeperMessage *message = expect(client, ZOOKEEPER_REPLY);

	g_assert_cmpuint(message->request, ==, request);
	g_assert_nonnull(message->reason);
	return message;
}

static void expect_outcome(Client *client, guint64 request, ZookeeperOutcome outcome)
{
	g_autoptr(ZookeeperMessage) reply = expect_reply(client, request);

	g_assert_cmpint(reply->outcome, ==, outcome);
}

/* Waits until @client is connected. Returns: the session's ID */
static gint64 expect_connected(Client *client)
{
	for (;;) {
		g_autoptr(ZookeeperMessage) message = contract_client_next(client);

		if (message->type == ZOOKEEPER_CONNECTED)
			return message->session;
		/* one message for each failed attempt */
		g_assert_true(message->type == ZOOKEEPER_DISCONNECTED ||
			      message->type == ZOOKEEPER_OPENED);
	}
}

static Client *open_client(const char *auth)
{
	Client *client = contract_client_new(auth, CONTRACT_LONG_MS);

	expect_connected(client);
	return client;
}

static void make(Client *client, const char *path, const char *data)
{
	expect_outcome(client, ASK(client, create, path, data, FALSE), ZOOKEEPER_OK);
}

static void set(Client *client, const char *path, const char *data)
{
	expect_outcome(client, request_set(client, path, data), ZOOKEEPER_OK);
}

static void remove_znode(Client *client, const char *path)
{
	expect_outcome(client, ASK(client, delete, path), ZOOKEEPER_OK);
}

static void sync_client(Client *client, const char *path)
{
	expect_outcome(client, ASK(client, sync, path), ZOOKEEPER_OK);
}

static ZookeeperMessage *read_znode(Client *client, const char *path, gboolean watch)
{
	return expect_reply(client, ASK(client, get, path, watch));
}

static void expect_data(Client *client, const char *path, const char *data, gint32 version)
{
	g_autoptr(ZookeeperMessage) reply = NULL;

	sync_client(client, path);
	reply = read_znode(client, path, FALSE);
	g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
	g_assert_cmpstr(reply->data, ==, data);
	g_assert_cmpuint(reply->length, ==, strlen(data));
	g_assert_cmpint(reply->stat.version, ==, version);
}

static void expect_absent(Client *client, const char *path)
{
	sync_client(client, path);
	expect_outcome(client, ASK(client, exists, path, FALSE), ZOOKEEPER_NO_NODE);
}

static char *path_below(const char *root, const char *name)
{
	return g_strdup_printf("%s/%s", root, name);
}

/* Sessions and requests */

CASE("/session/opening", check_opening)
{
	g_autoptr(ContractClient) client = contract_client_new(NULL, CONTRACT_LONG_MS);
	g_autoptr(ZookeeperMessage) first = contract_client_next(client);

	g_assert_cmpint(first->type, ==, ZOOKEEPER_OPENED);
	g_assert_nonnull(first->addresses[0]);
	g_assert_null(first->unknown);
	g_assert_cmpint(expect_connected(client), !=, 0);
	g_assert_cmpint(zookeeper_session_timeout_ms(contract_client_session(client)), ==,
			CONTRACT_LONG_MS);
}

CASE("/session/create", check_create)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	g_autofree char *child = path_below(root, "child"), *lost = path_below(root, "no/child");
	g_autoptr(ZookeeperMessage) reply = NULL;
	guint64 request = ASK(client, create, root, "text", FALSE);

	reply = expect_reply(client, request);
	g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
	g_assert_cmpstr(reply->path, ==, root);
	g_assert_cmpint(reply->stat.version, ==, 0);
	g_assert_cmpint(reply->stat.owner_session, ==, 0);
	make(client, child, "");
	expect_outcome(client, ASK(client, create, child, "", FALSE), ZOOKEEPER_NODE_EXISTS);
	expect_outcome(client, ASK(client, create, lost, "", FALSE), ZOOKEEPER_NO_NODE);
	expect_data(client, child, "", 0);
}

CASE("/session/get", check_get)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	g_autoptr(ZookeeperMessage) reply = NULL;

	expect_outcome(client, ASK(client, get, root, FALSE), ZOOKEEPER_NO_NODE);
	make(client, root, "some text");
	expect_data(client, root, "some text", 0);
	set(client, root, "");
	expect_data(client, root, "", 1);
	reply = expect_reply(client, ASK(client, exists, root, FALSE));
	g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
	g_assert_cmpint(reply->stat.version, ==, 1);
}

CASE("/session/set", check_set)
{
	g_autoptr(ContractClient) client = open_client(NULL);

	expect_outcome(client, request_set(client, root, "1"), ZOOKEEPER_NO_NODE);
	make(client, root, "0");
	for (gint32 version = 1; version <= 3; version++) {
		g_autoptr(ZookeeperMessage) reply =
			expect_reply(client, request_set(client, root, "same"));

		g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
		g_assert_cmpint(reply->stat.version, ==, version);
	}
	expect_data(client, root, "same", 3);
}

CASE("/session/delete", check_delete)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	g_autofree char *child = path_below(root, "child");

	expect_outcome(client, ASK(client, delete, root), ZOOKEEPER_NO_NODE);
	make(client, root, "");
	make(client, child, "");
	set(client, child, "whatever its version");
	expect_outcome(client, ASK(client, delete, root), ZOOKEEPER_REFUSED);
	remove_znode(client, child);
	remove_znode(client, root);
	expect_absent(client, root);
}

CASE("/session/children", check_children)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	g_autofree char *a = path_below(root, "a"), *b = path_below(root, "b"),
			*grandchild = path_below(root, "a/c");
	g_autoptr(ZookeeperMessage) reply = NULL, none = NULL;

	expect_outcome(client, ASK(client, children, root, FALSE), ZOOKEEPER_NO_NODE);
	make(client, root, "");
	none = expect_reply(client, ASK(client, children, root, FALSE));
	g_assert_cmpuint(g_strv_length(none->children), ==, 0);
	make(client, a, "");
	make(client, b, "");
	make(client, grandchild, "");
	reply = expect_reply(client, ASK(client, children, root, FALSE));
	g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
	g_assert_cmpuint(g_strv_length(reply->children), ==, 2);
	g_assert_true(g_strv_contains((const char *const *)reply->children, "a"));
	g_assert_true(g_strv_contains((const char *const *)reply->children, "b"));
}

/* Returns: the sequence number of the new znode */
static guint64 expect_sequence(Client *client, const char *root, gint64 owner_session)
{
	g_autofree char *prefix = path_below(root, "claim-");
	g_autoptr(ZookeeperMessage) reply =
		expect_reply(client, ASK(client, create, prefix, "data", TRUE));

	g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
	g_assert_true(g_str_has_prefix(reply->path, prefix));
	g_assert_cmpuint(strspn(reply->path + strlen(prefix), "0123456789"), ==, 10);
	g_assert_cmpuint(strlen(reply->path + strlen(prefix)), ==, 10);
	g_assert_cmpint(reply->stat.owner_session, ==, owner_session);
	return g_ascii_strtoull(reply->path + strlen(prefix), NULL, 10);
}

CASE("/session/sequence", check_sequence)
{
	g_autoptr(ContractClient) one = contract_client_new(NULL, CONTRACT_LONG_MS);
	g_autoptr(ContractClient) other = contract_client_new(NULL, CONTRACT_LONG_MS);
	gint64 session = expect_connected(one), other_session = expect_connected(other);
	g_autofree char *child = path_below(root, "child"), *first = NULL;
	const ZookeeperWrite write = {ZOOKEEPER_CREATE, child, "", 0};

	g_assert_cmpint(session, !=, other_session);
	make(one, root, "");
	g_assert_cmpuint(expect_sequence(one, root, session), ==, 0);
	g_assert_cmpuint(expect_sequence(other, root, other_session), ==, 1);
	/* a sequence number is never reused; other children also increase it */
	first = path_below(root, "claim-0000000001");
	remove_znode(other, first);
	expect_outcome(one, ASK(one, commit, &write, 1), ZOOKEEPER_OK);
	g_assert_cmpuint(expect_sequence(one, root, session), ==, 3);
}

CASE("/session/sequence-of-another-parent", check_sequence_of_another_parent)
{
	g_autoptr(ContractClient) client = contract_client_new(NULL, CONTRACT_LONG_MS);
	gint64 session = expect_connected(client);
	g_autofree char *claim = path_below(root, "claim-0000000000");

	for (guint i = 0; i < 2; i++) {
		make(client, root, "");
		g_assert_cmpuint(expect_sequence(client, root, session), ==, 0);
		remove_znode(client, claim);
		remove_znode(client, root);
	}
}

CASE("/session/ephemeral", check_ephemeral)
{
	g_autoptr(ContractClient) owner = contract_client_new(NULL, CONTRACT_LONG_MS);
	g_autoptr(ContractClient) other = open_client(NULL);
	gint64 session = expect_connected(owner);
	g_autofree char *claim = path_below(root, "claim-0000000000");
	g_autofree char *child = path_below(claim, "child");
	guint64 request;

	make(owner, root, "");
	expect_sequence(owner, root, session);
	expect_outcome(owner, ASK(owner, create, child, "", FALSE), ZOOKEEPER_REFUSED);
	sync_client(other, root);
	request = ASK(other, exists, claim, TRUE);
	{
		g_autoptr(ZookeeperMessage) reply = expect_reply(other, request);

		g_assert_cmpint(reply->stat.owner_session, ==, session);
	}
	contract_client_close(owner);
	expect_changed(other, claim, TRUE);
	expect_absent(other, claim);
}

CASE("/session/order", check_order)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	guint64 requests[32];

	make(client, root, "");
	for (guint i = 0; i < G_N_ELEMENTS(requests); i += 4) {
		requests[i] = ASK(client, get, root, FALSE);
		requests[i + 1] = request_set(client, root, "x");
		requests[i + 2] = ASK(client, sync, root);
		requests[i + 3] = ASK(client, children, root, FALSE);
	}
	for (guint i = 0; i < G_N_ELEMENTS(requests); i++) {
		g_assert_cmpuint(requests[i], ==, requests[0] + i);
		expect_outcome(client, requests[i], ZOOKEEPER_OK);
	}
}

CASE("/session/sync", check_sync)
{
	g_autoptr(ContractClient) writer = open_client(NULL);
	g_autoptr(ContractClient) reader = open_client(NULL);

	make(writer, root, "0");
	for (gint32 version = 1; version <= 5; version++) {
		g_autofree char *data = g_strdup_printf("%d", version);
		guint64 request;

		set(writer, root, data);
		/* a read can follow the sync before its reply */
		request = ASK(reader, sync, root);
		ASK(reader, get, root, FALSE);
		expect_outcome(reader, request, ZOOKEEPER_OK);
		{
			g_autoptr(ZookeeperMessage) reply = expect_reply(reader, request + 1);

			g_assert_cmpstr(reply->data, ==, data);
			g_assert_cmpint(reply->stat.version, ==, version);
		}
	}
}

CASE("/session/times", check_times)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	gint64 before_ms = contract_leader_ms();
	gint64 before_ns = contract_client_boottime_ns(client);
	g_autoptr(ZookeeperMessage) made =
		expect_reply(client, ASK(client, create, root, "", FALSE));
	g_autoptr(ZookeeperMessage) changed = expect_reply(client, request_set(client, root, ""));

	g_assert_cmpint(before_ns, <=, made->sent_ns);
	g_assert_cmpint(made->sent_ns, <=, made->received_ns);
	g_assert_cmpint(made->received_ns, <=, changed->sent_ns);
	g_assert_cmpint(changed->received_ns, <=, contract_client_boottime_ns(client));
	g_assert_cmpint(before_ms, <=, made->stat.created_ms);
	g_assert_cmpint(made->stat.modified_ms, ==, made->stat.created_ms);
	g_assert_cmpint(changed->stat.created_ms, ==, made->stat.created_ms);
	g_assert_cmpint(changed->stat.modified_ms, >=, made->stat.created_ms);
	g_assert_cmpint(changed->stat.modified_ms, <=, contract_leader_ms());
}

/* Transactions */

CASE("/session/commit", check_commit)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	g_autofree char *a = path_below(root, "a"), *b = path_below(root, "b"),
			*c = path_below(root, "b/c");
	const ZookeeperWrite check_create_set[] = {{ZOOKEEPER_CHECK, root, NULL, 0},
						   {ZOOKEEPER_CREATE, a, "made", 0},
						   {ZOOKEEPER_SET, root, "set", 0}};
	const ZookeeperWrite any_version[] = {{ZOOKEEPER_CHECK, root, NULL, -1},
					      {ZOOKEEPER_SET, root, "any", -1},
					      {ZOOKEEPER_SET, a, "any", -1}};
	/* a write sees earlier writes of the same transaction */
	const ZookeeperWrite own[] = {{ZOOKEEPER_CREATE, b, "", 0},
				      {ZOOKEEPER_CREATE, c, "", 0},
				      {ZOOKEEPER_SET, b, "own", 0}};
	const ZookeeperWrite twice[] = {{ZOOKEEPER_SET, a, "1", 1},
					{ZOOKEEPER_SET, a, "2", 2},
					{ZOOKEEPER_CHECK, a, NULL, 3}};
	const struct {
		const ZookeeperWrite *writes;
		gint32 version; /* version of the znode that was set last */
	} CASES[] = {{check_create_set, 1}, {any_version, 1}, {own, 1}, {twice, 3}};

	make(client, root, "");
	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		guint64 request = ASK(client, commit, CASES[i].writes, 3);
		g_autoptr(ZookeeperMessage) reply = expect_reply(client, request);

		g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_OK);
		g_assert_cmpint(reply->stat.version, ==, CASES[i].version);
	}
	expect_data(client, root, "any", 2);
	expect_data(client, a, "2", 3);
	expect_data(client, b, "own", 1);
	expect_data(client, c, "", 0);
}

CASE("/session/commit-failures", check_commit_failures)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	g_autofree char *a = path_below(root, "a"), *no = path_below(root, "no"),
			*below_no = path_below(root, "no/child");
	const struct {
		ZookeeperWrite write;
		ZookeeperOutcome outcome;
	} CASES[] = {
		{{ZOOKEEPER_CHECK, a, NULL, 1}, ZOOKEEPER_BAD_VERSION},
		{{ZOOKEEPER_CHECK, no, NULL, -1}, ZOOKEEPER_NO_NODE},
		{{ZOOKEEPER_SET, a, "x", 1}, ZOOKEEPER_BAD_VERSION},
		{{ZOOKEEPER_SET, no, "x", -1}, ZOOKEEPER_NO_NODE},
		{{ZOOKEEPER_CREATE, a, "x", 0}, ZOOKEEPER_NODE_EXISTS},
		{{ZOOKEEPER_CREATE, below_no, "x", 0}, ZOOKEEPER_NO_NODE},
	};

	make(client, root, "");
	make(client, a, "");
	for (guint i = 0; i < G_N_ELEMENTS(CASES) * ZOOKEEPER_MAX_WRITES; i++) {
		ZookeeperWrite writes[ZOOKEEPER_MAX_WRITES];
		guint place = i % ZOOKEEPER_MAX_WRITES;
		g_autoptr(ZookeeperMessage) reply = NULL;

		for (guint j = 0; j < ZOOKEEPER_MAX_WRITES; j++)
			writes[j] = (ZookeeperWrite){ZOOKEEPER_SET, root, "lost", -1};
		writes[place] = CASES[i / ZOOKEEPER_MAX_WRITES].write;
		reply = expect_reply(client, ASK(client, commit, writes, ZOOKEEPER_MAX_WRITES));
		g_assert_cmpint(reply->outcome, ==, CASES[i / ZOOKEEPER_MAX_WRITES].outcome);
		g_assert_cmpuint(reply->failed, ==, place);
	}
	expect_data(client, root, "", 0);
	expect_data(client, a, "", 0);
	expect_absent(client, no);
}

/* Watches */

CASE("/session/watch-by-get", check_watch_by_get)
{
	g_autoptr(ContractClient) watcher = open_client(NULL);
	g_autoptr(ContractClient) writer = open_client(NULL);
	g_autofree char *child = path_below(root, "child");

	make(watcher, root, "");
	zookeeper_message_free(read_znode(watcher, root, TRUE));
	make(writer, child, "");
	set(writer, child, "no concern");
	remove_znode(writer, child);
	sync_client(watcher, root); /* no event comes before this reply */
	set(writer, root, "1");
	expect_changed(watcher, root, FALSE);
	set(writer, root, "2"); /* a watch fires once */
	expect_data(watcher, root, "2", 2);
	zookeeper_message_free(read_znode(watcher, root, TRUE));
	remove_znode(writer, root);
	expect_changed(watcher, root, TRUE);
	make(writer, root, "");
	sync_client(watcher, root);
	/* a read that finds no znode sets no watch */
	remove_znode(writer, root);
	sync_client(watcher, root);
	expect_outcome(watcher, ASK(watcher, get, root, TRUE), ZOOKEEPER_NO_NODE);
	make(writer, root, "");
	sync_client(watcher, root);
}

CASE("/session/watch-by-exists", check_watch_by_exists)
{
	g_autoptr(ContractClient) watcher = open_client(NULL);
	g_autoptr(ContractClient) writer = open_client(NULL);

	expect_outcome(watcher, ASK(watcher, exists, root, TRUE), ZOOKEEPER_NO_NODE);
	make(writer, root, "");
	expect_changed(watcher, root, FALSE);
	set(writer, root, "");
	sync_client(watcher, root);
	expect_outcome(watcher, ASK(watcher, exists, root, TRUE), ZOOKEEPER_OK);
	set(writer, root, "");
	expect_changed(watcher, root, FALSE);
}

CASE("/session/watch-by-children", check_watch_by_children)
{
	g_autoptr(ContractClient) watcher = open_client(NULL);
	g_autoptr(ContractClient) writer = open_client(NULL);
	g_autofree char *a = path_below(root, "a"), *b = path_below(root, "a/b");

	make(watcher, root, "");
	for (guint i = 0; i < 2; i++) {
		expect_outcome(watcher, ASK(watcher, children, root, TRUE), ZOOKEEPER_OK);
		set(writer, root, "no concern");
		if (i == 1) {
			make(writer, b, "no concern");
			set(writer, a, "no concern");
			remove_znode(writer, b);
		}
		sync_client(watcher, root);
		if (i == 0)
			make(writer, a, "");
		else
			remove_znode(writer, a);
		expect_changed(watcher, root, FALSE);
	}
	expect_outcome(watcher, ASK(watcher, children, root, TRUE), ZOOKEEPER_OK);
	remove_znode(writer, root);
	expect_changed(watcher, root, TRUE);
}

/* An event gives one message, even if several watches match. It comes before the reply to the write
 * that caused it. */
CASE("/session/watches-together", check_watches_together)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	guint64 request;

	make(client, root, "");
	for (guint i = 0; i < 2; i++) {
		zookeeper_message_free(read_znode(client, root, TRUE));
		expect_outcome(client, ASK(client, exists, root, TRUE), ZOOKEEPER_OK);
		if (i == 1)
			expect_outcome(client, ASK(client, children, root, TRUE), ZOOKEEPER_OK);
		request = i == 0 ? request_set(client, root, "") : ASK(client, delete, root);
		expect_changed(client, root, i == 1);
		expect_outcome(client, request, ZOOKEEPER_OK);
		sync_client(client, root);
	}
}

/* A read with a watch misses no change, even one that takes place at the same time. */
CASE("/session/watch-and-change", check_watch_and_change)
{
	g_autoptr(ContractClient) watcher = open_client(NULL);
	g_autoptr(ContractClient) writer = open_client(NULL);

	make(writer, root, "0");
	sync_client(watcher, root);
	for (guint i = 1; i <= 10; i++) {
		g_autofree char *data = g_strdup_printf("%u", i);
		guint64 asked = ASK(watcher, get, root, TRUE);
		guint64 written = request_set(writer, root, data);
		g_autoptr(ZookeeperMessage) reply = expect_reply(watcher, asked);

		expect_outcome(writer, written, ZOOKEEPER_OK);
		if (g_str_equal(reply->data, data)) /* the watch is used up */
			set(writer, root, data);
		expect_changed(watcher, root, FALSE);
		sync_client(watcher, root);
	}
}

/* Connections */

CASE("/session/broken-connection", check_broken_connection)
{
	g_autoptr(ContractClient) client = contract_client_new(NULL, CONTRACT_LONG_MS);
	gint64 session = expect_connected(client);
	g_autofree char *claim = path_below(root, "claim-0000000000");
	guint64 requests[4];

	make(client, root, "");
	expect_sequence(client, root, session);
	for (guint round = 0; round < 3; round++) {
		contract_client_hold_replies(client);
		for (guint i = 0; i < G_N_ELEMENTS(requests); i++)
			requests[i] = ASK(client, get, claim, FALSE);
		contract_client_cut(client);
		zookeeper_message_free(expect(client, ZOOKEEPER_DISCONNECTED));
		for (guint i = 0; i < G_N_ELEMENTS(requests); i++)
			expect_outcome(client, requests[i], ZOOKEEPER_UNSURE);
		contract_client_allow_connections(client);
		g_assert_cmpint(expect_connected(client), ==, session);
		expect_data(client, claim, "data", 0);
	}
}

/* After a reconnect, watches report only the changes that were made in between. The other watches
 * stay. */
CASE("/session/watches-after-cut", check_watches_after_cut)
{
	g_autoptr(ContractClient) watcher = open_client(NULL);
	g_autoptr(ContractClient) writer = open_client(NULL);
	static const char *const NAMES[] = {"changed", "gone", "made", "same", "never"};
	g_auto(GStrv) paths = g_new0(char *, G_N_ELEMENTS(NAMES) + 1);
	guint n_told = 0;

	make(writer, root, "");
	for (guint i = 0; i < G_N_ELEMENTS(NAMES); i++) {
		paths[i] = path_below(root, NAMES[i]);
		if (i != 2 && i != 4)
			make(writer, paths[i], "");
	}
	sync_client(watcher, root);
	for (guint i = 0; i < G_N_ELEMENTS(NAMES); i++)
		expect_outcome(watcher, ASK(watcher, exists, paths[i], TRUE),
			       i != 2 && i != 4 ? ZOOKEEPER_OK : ZOOKEEPER_NO_NODE);
	expect_outcome(watcher, ASK(watcher, children, root, TRUE), ZOOKEEPER_OK);
	contract_client_cut(watcher);
	set(writer, paths[0], "");
	remove_znode(writer, paths[1]);
	make(writer, paths[2], "");
	contract_client_allow_connections(watcher);
	expect_connected(watcher);
	for (guint told = 0; n_told < 4; n_told++) {
		g_autoptr(ZookeeperMessage) message = expect(watcher, ZOOKEEPER_CHANGED);
		guint i = 0;

		while (i < 3 && !g_str_equal(message->path, paths[i]))
			i++;
		if (i == 3)
			g_assert_cmpstr(message->path, ==, root);
		g_assert_cmpint(message->gone, ==, i == 1);
		g_assert_cmpuint(told & 1U << i, ==, 0);
		told |= 1U << i;
	}
	sync_client(watcher, root);
	set(writer, paths[3], "");
	expect_changed(watcher, paths[3], FALSE);
	make(writer, paths[4], "");
	expect_changed(watcher, paths[4], FALSE);
}

/* Waits for the reply and the connection, in any order, with a message for each failed attempt. */
static ZookeeperMessage *expect_reply_and_connection(Client *client, guint64 request)
{
	g_autoptr(ZookeeperMessage) reply = NULL;
	gboolean is_connected = FALSE;

	while (reply == NULL || !is_connected) {
		g_autoptr(ZookeeperMessage) message = contract_client_next(client);

		is_connected |= message->type == ZOOKEEPER_CONNECTED;
		if (message->type == ZOOKEEPER_REPLY)
			reply = g_steal_pointer(&message);
	}
	g_assert_cmpuint(reply->request, ==, request);
	return g_steal_pointer(&reply);
}

/* A request without a connection is executed later or never. A write whose reply is lost may have
 * been executed: only a read shows it. */
CASE("/session/unsure", check_unsure)
{
	g_autoptr(ContractClient) client = open_client(NULL);
	gint32 version = 0;

	make(client, root, "");
	for (guint round = 0; round < 6; round++) {
		gboolean is_disconnected = round % 2 == 0;
		g_autofree char *data = g_strdup_printf("%u", round);
		const ZookeeperWrite write = {ZOOKEEPER_SET, root, data, version};
		g_autoptr(ZookeeperMessage) reply = NULL, read = NULL;
		guint64 request;

		if (is_disconnected) {
			contract_client_cut(client);
			zookeeper_message_free(expect(client, ZOOKEEPER_DISCONNECTED));
		}
		contract_client_hold_replies(client);
		request = ASK(client, commit, &write, 1);
		contract_client_cut(client);
		contract_client_allow_connections(client);
		reply = expect_reply_and_connection(client, request);
		if (!is_disconnected)
			g_assert_cmpint(reply->outcome, ==, ZOOKEEPER_UNSURE);
		/* after this, the version makes the write fail that has not arrived yet */
		read = expect_reply(client, request_set(client, root, data));
		g_assert_cmpint(read->outcome, ==, ZOOKEEPER_OK);
		if (reply->outcome == ZOOKEEPER_OK)
			g_assert_cmpint(read->stat.version, >=, version + 2);
		g_assert_cmpint(read->stat.version, >=, version + 1);
		g_assert_cmpint(read->stat.version, <=, version + 2);
		version = read->stat.version;
		expect_data(client, root, data, version);
	}
}

/* The session of a disconnected client expires. The client is notified when it connects again. */
CASE("/session/expiry", check_expiry)
{
	g_autoptr(ContractClient) other = open_client(NULL);
	g_autoptr(ContractClient) client = NULL;
	g_autofree char *prefix = path_below(root, "claim-"), *claim = NULL;
	g_autoptr(ZookeeperMessage) message = NULL;

	make(other, root, "");
	while (claim == NULL) { /* again, if the session expires too early */
		guint64 request = 0;

		g_clear_pointer(&client, contract_client_free);
		client = contract_client_new(NULL, CONTRACT_SHORT_MS);
		expect_connected(client);
		request = ASK(client, create, prefix, "", TRUE);
		do {
			g_clear_pointer(&message, zookeeper_message_free);
			message = contract_client_next(client);
		} while (message->type != ZOOKEEPER_REPLY);
		g_assert_cmpuint(message->request, ==, request);
		claim = g_steal_pointer(&message->path);
	}
	sync_client(other, root);
	g_clear_pointer(&message, zookeeper_message_free);
	message = expect_reply(other, ASK(other, exists, claim, TRUE));
	contract_client_cut(client);
	if (message->outcome == ZOOKEEPER_OK)
		expect_changed(other, claim, TRUE);
	expect_absent(other, claim);
	contract_client_allow_connections(client);
	do {
		g_clear_pointer(&message, zookeeper_message_free);
		message = contract_client_next(client);
		g_assert_true(message->type == ZOOKEEPER_DISCONNECTED ||
			      message->type == ZOOKEEPER_EXPIRED);
	} while (message->type != ZOOKEEPER_EXPIRED);
	expect_outcome(client, ASK(client, get, root, FALSE), ZOOKEEPER_UNSURE);
	sync_client(other, root);
	g_assert_null(zookeeper_session_take(contract_client_session(client)));
}

/* ACLs */

static ZookeeperMessage *read_acl(Client *client, const char *path)
{
	return expect_reply(client, ASK(client, get_acl, path));
}

CASE("/session/acl", check_acl)
{
	g_autoptr(ContractClient) stranger = open_client(NULL);
	g_autoptr(ContractClient) owner = open_client("user:password");
	g_autofree char *child = path_below(root, "child");
	g_autoptr(ZookeeperMessage) open = NULL, closed = NULL;

	make(stranger, root, "");
	make(owner, child, "");
	sync_client(owner, root);
	open = read_acl(owner, root);
	g_assert_true(open->open);
	closed = read_acl(owner, child);
	g_assert_false(closed->open);
}

CASE("/session/stranger", check_stranger)
{
	g_autoptr(ContractClient) owner = open_client("user:password");
	g_autoptr(ContractClient) nobody = open_client(NULL);
	g_autoptr(ContractClient) other = open_client("user:other");
	Client *strangers[] = {nobody, other};
	g_autofree char *child = path_below(root, "child"), *new = path_below(root, "new");

	make(owner, root, "");
	make(owner, child, "");
	for (guint i = 0; i < G_N_ELEMENTS(strangers); i++) {
		Client *stranger = strangers[i];
		const ZookeeperWrite writes[] = {{ZOOKEEPER_CHECK, child, NULL, -1},
						 {ZOOKEEPER_SET, child, "", -1},
						 {ZOOKEEPER_CREATE, new, "", 0},
						 {ZOOKEEPER_CREATE, child, "", 0}};

		sync_client(stranger, root);
		expect_outcome(stranger, ASK(stranger, exists, child, FALSE), ZOOKEEPER_OK);
		expect_outcome(stranger, ASK(stranger, get, child, FALSE), ZOOKEEPER_NO_AUTH);
		expect_outcome(stranger, ASK(stranger, children, root, FALSE), ZOOKEEPER_NO_AUTH);
		expect_outcome(stranger, request_set(stranger, child, ""), ZOOKEEPER_NO_AUTH);
		expect_outcome(stranger, ASK(stranger, delete, child), ZOOKEEPER_NO_AUTH);
		expect_outcome(stranger, ASK(stranger, get_acl, child), ZOOKEEPER_NO_AUTH);
		for (guint j = 0; j < G_N_ELEMENTS(writes); j++)
			expect_outcome(stranger, ASK(stranger, commit, &writes[j], 1),
				       ZOOKEEPER_NO_AUTH);
	}
	expect_data(owner, child, "", 0);
}
