/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/postgresql/store.h"

#include "common/log.h"
#include "worker/postgresql/schema.h"
#include "worker/postgresql/session.h"

/* The minimum session timeout. A session is renewed three times in this time, so a server makes at
 * most one small write a second. */
#define MIN_TIMEOUT_MS 3000

/* The loss of a connection is logged only if it lasts this long. */
#define LOSS_LOGGED_US G_USEC_PER_SEC

typedef struct {
	Store store;
	char *conninfo, *servers, *schema, *access_remedy;
	gint64 session_timeout_ms;
	PostgresqlSession *session; /* NULL before the first take() */
	gboolean is_up;             /* the last message says so */
	guint n_connections;        /* number of STORE_UP taken */
	gint64 lost_at_us;          /* time of the loss of the connection; 0 if there was none */
	gboolean logged_up;         /* the last log event was "connected" */
	guint64 last_request;
	GHashTable *open; /* (element-type gint64): numbers of requests whose answers are wanted */
	GQueue unsure;    /* (element-type StoreMessage): answers without a connection */
} PostgresqlStore;

static StoreMessage *message_new(StoreEvent event)
{
	StoreMessage *message = g_new0(StoreMessage, 1);

	message->event = event;
	return message;
}

/* Requests */

static void answer_unsure(PostgresqlStore *self, guint64 number)
{
	StoreMessage *answer = message_new(STORE_ANSWER);

	answer->request = number;
	answer->outcome = STORE_UNSURE;
	answer->reason = "no connection";
	answer->records = g_ptr_array_new_with_free_func((GDestroyNotify)store_record_free);
	g_queue_push_tail(&self->unsure, answer);
	self->store.wake(self->store.wake_data);
}

static PostgresqlRequest *request_new(PostgresqlStore *self, const char *key, guint purpose)
{
	PostgresqlRequest *request = g_new0(PostgresqlRequest, 1);

	request->purpose = purpose;
	request->connection = self->n_connections;
	request->key = g_strdup(key);
	return request;
}

/* Sends a request that is answered. @request: (transfer full). Returns: its number */
static guint64 send_request(PostgresqlStore *self, PostgresqlRequest *request)
{
	guint64 number = request->number = ++self->last_request;

	g_hash_table_add(self->open, g_memdup2(&number, sizeof(number)));
	if (self->is_up) {
		postgresql_session_send(self->session, request);
	} else {
		postgresql_request_free(request);
		answer_unsure(self, number);
	}
	return number;
}

static guint64 store_read(Store *store, const char *key, gboolean fresh G_GNUC_UNUSED)
{
	PostgresqlStore *self = (PostgresqlStore *)store;

	return send_request(self, request_new(self, key, POSTGRESQL_READ));
}

static guint64 store_list(Store *store, const char *prefix, gboolean fresh G_GNUC_UNUSED,
			  gboolean watch)
{
	PostgresqlStore *self = (PostgresqlStore *)store;
	PostgresqlRequest *request = request_new(self, prefix, POSTGRESQL_LIST);

	request->watch = watch;
	return send_request(self, request);
}

static guint64 store_commit(Store *store, const StoreWrite *writes, guint n_writes)
{
	PostgresqlStore *self = (PostgresqlStore *)store;
	PostgresqlRequest *request = request_new(self, NULL, POSTGRESQL_COMMIT);

	g_assert(n_writes >= 1 && n_writes <= STORE_MAX_WRITES);
	request->n_writes = n_writes;
	for (guint i = 0; i < n_writes; i++) {
		request->writes[i] = writes[i];
		request->writes[i].key = g_strdup(writes[i].key);
		request->writes[i].data = g_strdup(writes[i].data);
	}
	return send_request(self, request);
}

static void store_drop(Store *store, guint64 request)
{
	g_hash_table_remove(((PostgresqlStore *)store)->open, &request);
}

static void store_erase(Store *store, const char *key)
{
	PostgresqlStore *self = (PostgresqlStore *)store;

	if (self->is_up)
		postgresql_session_send(self->session, request_new(self, key, POSTGRESQL_ERASE));
}

static void store_watch(Store *store, const char *key)
{
	PostgresqlStore *self = (PostgresqlStore *)store;

	if (self->is_up)
		postgresql_session_send(self->session, request_new(self, key, POSTGRESQL_WATCH));
}

/* The grants decide who can write the tables, so there is nothing to check. */
static guint64 store_check_access(Store *store G_GNUC_UNUSED, guint datacenter_id G_GNUC_UNUSED)
{
	return 0;
}

static guint64 store_copy_access(Store *store G_GNUC_UNUSED, const char *key G_GNUC_UNUSED)
{
	return 0;
}

static char *store_describe_remedy(Store *store, const char *key G_GNUC_UNUSED)
{
	return g_strdup(((PostgresqlStore *)store)->access_remedy);
}

/* Messages */

static void note_up(PostgresqlStore *self, const StoreMessage *message)
{
	if (!self->logged_up)
		log_event(LOG_ZOOKEEPER_CONNECTED, log_text("session", message->session),
			  log_text("history", message->history),
			  log_number("timeout_ms", self->session_timeout_ms));
	self->logged_up = TRUE;
	self->is_up = TRUE;
	self->n_connections++;
	g_hash_table_remove_all(self->open);
}

static void note_down(PostgresqlStore *self)
{
	if (self->is_up)
		self->lost_at_us = g_get_monotonic_time();
	self->is_up = FALSE;
}

/* Handles a message for the store. Returns %FALSE if the caller does not want it. */
static gboolean note_message(PostgresqlStore *self, const StoreMessage *message)
{
	switch (message->event) {
	case STORE_UP:
		note_up(self, message);
		break;
	case STORE_DOWN:
		note_down(self);
		break;
	case STORE_SESSION_EXPIRED:
		log_event(LOG_SESSION_EXPIRED, log_text("session", message->session));
		g_hash_table_remove_all(self->open);
		break;
	case STORE_ANSWER:
		return g_hash_table_remove(self->open, &message->request);
	case STORE_STILL_DOWN:
	case STORE_SESSION_REPLACED:
	case STORE_AUTH_FAILED:
	case STORE_CHANGED:
	case STORE_GONE:
		break;
	}
	return TRUE;
}

static gint64 log_loss_at_us(const PostgresqlStore *self)
{
	return self->is_up || !self->logged_up ? G_MAXINT64 : self->lost_at_us + LOSS_LOGGED_US;
}

static StoreMessage *store_take(Store *store)
{
	PostgresqlStore *self = (PostgresqlStore *)store;
	StoreMessage *message;

	if (self->session == NULL)
		self->session = postgresql_session_new(&(PostgresqlSessionConfig){
			.conninfo = self->conninfo,
			.schema = self->schema,
			.timeout_ms = self->session_timeout_ms,
			.wake = store->wake,
			.user_data = store->wake_data,
		});
	do {
		message = g_queue_pop_head(&self->unsure);
		if (message == NULL)
			message = postgresql_session_take(self->session, &store->heard_at_us);
		if (message == NULL || note_message(self, message))
			break;
		g_clear_pointer(&message, store_message_free);
	} while (message == NULL);
	if (message == NULL && g_get_monotonic_time() >= log_loss_at_us(self)) {
		self->logged_up = FALSE;
		log_event(LOG_ZOOKEEPER_LOST, log_text("servers", self->servers));
		message = message_new(STORE_STILL_DOWN);
	}
	return message;
}

static gint64 store_due_at_us(const Store *store)
{
	return log_loss_at_us((const PostgresqlStore *)store);
}

static gint64 store_session_timeout_ms(const Store *store)
{
	return ((const PostgresqlStore *)store)->session_timeout_ms;
}

static gboolean store_find_why_down(Store *store, char **out_why)
{
	PostgresqlStore *self = (PostgresqlStore *)store;

	*out_why = self->session != NULL ? postgresql_session_why_down(self->session) : NULL;
	return TRUE;
}

static void store_forget_why_down(Store *store G_GNUC_UNUSED)
{
}

static void store_close(Store *store, gint64 timeout_ms)
{
	PostgresqlStore *self = (PostgresqlStore *)store;

	if (self->session != NULL)
		postgresql_session_close(self->session, timeout_ms);
	g_queue_clear_full(&self->unsure, (GDestroyNotify)store_message_free);
	g_hash_table_unref(self->open);
	g_free(self->access_remedy);
	g_free(self->servers);
	g_free(self->schema);
	g_free(self->conninfo);
	g_free(self);
}

Store *postgresql_store_new(const PostgresqlStoreConfig *config)
{
	static const StoreOps OPS = {
		.read = store_read,
		.list = store_list,
		.commit = store_commit,
		.drop = store_drop,
		.erase = store_erase,
		.watch = store_watch,
		.check_access = store_check_access,
		.copy_access = store_copy_access,
		.describe_remedy = store_describe_remedy,
		.take = store_take,
		.due_at_us = store_due_at_us,
		.session_timeout_ms = store_session_timeout_ms,
		.find_why_down = store_find_why_down,
		.forget_why_down = store_forget_why_down,
		.close = store_close,
	};
	PostgresqlStore *self = g_new0(PostgresqlStore, 1);
	g_autofree char *grants = postgresql_schema_grants(config->schema, "ROLE");

	self->conninfo = g_strdup(config->target->conninfo);
	self->servers = g_strdup(config->target->shown);
	self->schema = g_strdup(config->schema);
	self->session_timeout_ms = MAX(config->session_timeout_ms, MIN_TIMEOUT_MS);
	self->access_remedy = g_strdup_printf("as its owner, run: %s",
					      g_strdelimit(g_strchomp(grants), "\n", ' '));
	self->store = (Store){
		.ops = &OPS,
		.name = "PostgreSQL",
		.option = "--postgresql",
		.root_option = "another schema (--postgresql-schema NAME)",
		.access_remedy = self->access_remedy,
	};
	self->open = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	g_queue_init(&self->unsure);
	return &self->store;
}
