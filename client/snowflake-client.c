/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-client.h"

#include <string.h>

#include "client/call.h"
#include "client/connection.h"
#include "common/address.h"

#define MAX_AGENT_BYTES 256

struct _SnowflakeClient {
	GPtrArray *servers; /* Address, one at least */
	guint current;      /* the server that the connection is to, or that is tried first */
	ClientConnection *connection; /* NULL: not now */
	gboolean lacks_get_ids;       /* the server at the other end of the connection */
	guint max_count;              /* for one get_ids; lowered when that server refuses it */
	gint32 seqid;                 /* of the next call; 0 or above */
	guint timeout_ms;
	gint64 deadline_us; /* of the call under way, by g_get_monotonic_time() */
	gint64 retry_after_ms;
};

G_DEFINE_QUARK(snowflake_client_error_quark, snowflake_client_error)

void snowflake_client_worker_free(SnowflakeClientWorker *worker)
{
	if (worker == NULL)
		return;
	g_free(worker->address);
	g_free(worker->nonce);
	g_free(worker->state);
	g_free(worker->kind);
	g_free(worker);
}

SnowflakeClient *snowflake_client_new(const char *const *servers, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(SnowflakeClient) self = g_new0(SnowflakeClient, 1);

	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	self->max_count = CLIENT_CALL_MAX_COUNT;
	/* so that an answer to another client's call is not taken for one of this client's */
	self->seqid = (gint32)(g_random_int() & G_MAXINT32);
	self->timeout_ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS;
	if (servers == NULL || servers[0] == NULL)
		servers = default_servers;
	for (gsize i = 0; servers[i] != NULL; i++) {
		g_autoptr(GError) fault = NULL;
		Address *address = address_parse_peer(servers[i], &fault);

		if (address == NULL) {
			g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
					    SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
					    fault->message);
			return NULL;
		}
		g_ptr_array_add(self->servers, address);
	}
	return g_steal_pointer(&self);
}

void snowflake_client_free(SnowflakeClient *self)
{
	if (self == NULL)
		return;
	client_connection_free(self->connection);
	g_ptr_array_unref(self->servers);
	g_free(self);
}

void snowflake_client_set_timeout_ms(SnowflakeClient *self, guint timeout_ms)
{
	g_return_if_fail(self != NULL && timeout_ms > 0);
	self->timeout_ms = timeout_ms;
}

static const Address *current_server(const SnowflakeClient *self)
{
	return self->servers->pdata[self->current];
}

const char *snowflake_client_get_server(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, NULL);
	return current_server(self)->text;
}

gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, 0);
	return self->retry_after_ms;
}

static void disconnect(SnowflakeClient *self)
{
	g_clear_pointer(&self->connection, client_connection_free);
	self->lacks_get_ids = FALSE;
	self->max_count = CLIENT_CALL_MAX_COUNT;
}

/* Leaves the server: the next call begins with the one behind it in the list. */
static void leave(SnowflakeClient *self)
{
	disconnect(self);
	self->current = (self->current + 1) % self->servers->len;
}

/* Not g_random_...(), whose state a process shares with those that it forks. */
void snowflake_client_shuffle_servers(SnowflakeClient *self)
{
	g_return_if_fail(self != NULL);

	g_autoptr(GRand) random = g_rand_new();
	gpointer *servers = self->servers->pdata;

	disconnect(self);
	self->current = 0;
	for (guint left = self->servers->len; left > 1; left--) {
		gint32 drawn = g_rand_int_range(random, 0, (gint32)left);
		gpointer server = servers[drawn];

		servers[drawn] = servers[left - 1];
		servers[left - 1] = server;
	}
}

static gboolean exchange(SnowflakeClient *self, const ClientCall *call, ClientLimit limit,
			 ClientReply *reply, GError **error)
{
	g_autoptr(GByteArray) request = g_byte_array_new();
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	gint32 seqid = self->seqid;

	self->seqid = seqid == G_MAXINT32 ? 0 : seqid + 1;
	client_call_write(call, seqid, request);
	return client_connection_exchange(self->connection, request,
					  client_call_max_reply_bytes(call), limit, bytes, error) &&
	       client_call_read(call, seqid, bytes->data, bytes->len, reply, error);
}

/* Makes the call at the current server. A connection that stood and breaks may have done so at any
 * time since the call before: that says nothing of the server, which is connected to again. */
static gboolean attempt(SnowflakeClient *self, const ClientCall *call, ClientLimit limit,
			ClientReply *reply, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (self->connection != NULL && !client_connection_is_stale(self->connection)) {
		if (exchange(self, call, limit, reply, &failure))
			return TRUE;
		if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				     SNOWFLAKE_CLIENT_ERROR_UNREACHABLE)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
	}
	disconnect(self);
	self->connection = client_connection_new(current_server(self), limit, error);
	return self->connection != NULL && exchange(self, call, limit, reply, error);
}

/* Of the time that is left, half at each server, and all of it at the last one. */
static ClientLimit limit_of_attempt(const SnowflakeClient *self, gboolean is_last)
{
	gint64 now_us = g_get_monotonic_time();
	gint64 half_us = MAX(self->deadline_us - now_us, 0) / 2;

	if (is_last) /* what it is told of in the end is the limit that was set */
		return (ClientLimit){
			.start_us = self->deadline_us - self->timeout_ms * G_TIME_SPAN_MILLISECOND,
			.ms = self->timeout_ms,
		};
	return (ClientLimit){
		.start_us = now_us,
		.ms = (guint)((half_us + G_TIME_SPAN_MILLISECOND - 1) / G_TIME_SPAN_MILLISECOND),
	};
}

/* After a call that failed: leaves the server where another may do better. */
static gboolean move_on(SnowflakeClient *self, const GError *error)
{
	switch ((SnowflakeClientError)error->code) {
	case SNOWFLAKE_CLIENT_ERROR_CLOCK:
	case SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE:
		if (self->servers->len > 1)
			leave(self);
		return TRUE;
	case SNOWFLAKE_CLIENT_ERROR_UNREACHABLE:
	case SNOWFLAKE_CLIENT_ERROR_TIMEOUT:
	case SNOWFLAKE_CLIENT_ERROR_PROTOCOL:
		leave(self);
		return TRUE;
	case SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT:
	case SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED:
	default:
		return FALSE;
	}
}

static void append_message(GString *messages, const char *server, const GError *error)
{
	g_string_append_printf(messages, "%s%s: %s", messages->len > 0 ? "; " : "", server,
			       error->message);
}

/* At each server once, from the current one on, while there is time. Any call may be repeated: it
 * changes nothing but the ID that comes next. */
static gboolean perform(SnowflakeClient *self, const ClientCall *call, ClientReply *reply,
			GError **error)
{
	g_autoptr(GString) messages = g_string_new(NULL);
	g_autoptr(GError) failure = NULL;
	guint left = self->servers->len;
	gboolean done, moved;

	do {
		const char *server = current_server(self)->text;

		g_clear_error(&failure);
		reply->retry_after_ms = 0;
		reply->count_refused = FALSE;
		done = attempt(self, call, limit_of_attempt(self, left == 1), reply, &failure);
		moved = !done && move_on(self, failure);
		if (!done)
			append_message(messages, server, failure);
	} while (moved && --left > 0 && g_get_monotonic_time() < self->deadline_us);
	self->retry_after_ms = reply->retry_after_ms;
	if (done)
		return TRUE;
	g_set_error_literal(error, failure->domain, failure->code, messages->str);
	return FALSE;
}

static gboolean refuse_argument(GError **error, const char *what)
{
	g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
			    what);
	return FALSE;
}

/* What every call begins with: its time runs from here. */
static gboolean begin(SnowflakeClient *self, GError **error)
{
	if (self == NULL)
		return refuse_argument(error, "no client");
	self->deadline_us = g_get_monotonic_time() + self->timeout_ms * G_TIME_SPAN_MILLISECOND;
	self->retry_after_ms = 0;
	return TRUE;
}

static gboolean check_place(const void *out, GError **error)
{
	return out != NULL || refuse_argument(error, "no place for the answer");
}

static gboolean get_number(SnowflakeClient *self, const char *method, gint64 *out_number,
			   GError **error)
{
	const ClientCall call = {.method = method, .result = CLIENT_RESULT_NUMBER};
	ClientReply reply = {0};

	if (!begin(self, error) || !check_place(out_number, error) ||
	    !perform(self, &call, &reply, error))
		return FALSE;
	*out_number = reply.number;
	return TRUE;
}

gboolean snowflake_client_get_timestamp(SnowflakeClient *self, gint64 *out_timestamp_ms,
					GError **error)
{
	return get_number(self, "get_timestamp", out_timestamp_ms, error);
}

gboolean snowflake_client_get_worker_id(SnowflakeClient *self, gint64 *out_worker_id,
					GError **error)
{
	return get_number(self, "get_worker_id", out_worker_id, error);
}

gboolean snowflake_client_get_datacenter_id(SnowflakeClient *self, gint64 *out_datacenter_id,
					    GError **error)
{
	return get_number(self, "get_datacenter_id", out_datacenter_id, error);
}

SnowflakeClientWorker *snowflake_client_get_worker(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_worker", .result = CLIENT_RESULT_WORKER};
	ClientReply reply = {0};

	if (begin(self, error) && perform(self, &call, &reply, error))
		return reply.worker;
	snowflake_client_worker_free(reply.worker);
	return NULL;
}

GPtrArray *snowflake_client_get_workers(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};
	ClientReply reply = {0};

	if (begin(self, error) && perform(self, &call, &reply, error))
		return reply.workers;
	g_clear_pointer(&reply.workers, g_ptr_array_unref);
	return NULL;
}

/* What the agent may have in it is for the server to say. This only keeps a request from being too
 * long to be read, and so to be answered. */
static gboolean check_agent(const char *agent, GError **error)
{
	if (agent == NULL)
		return refuse_argument(error, "no useragent");

	gsize length = strlen(agent);

	if (length <= MAX_AGENT_BYTES)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
		    "a useragent of %zu bytes, the limit is %d", length, MAX_AGENT_BYTES);
	return FALSE;
}

static gboolean get_one(SnowflakeClient *self, const char *agent, gint64 *out_id, GError **error)
{
	const ClientCall call = {.method = "get_id", .result = CLIENT_RESULT_ID, .agent = agent};
	ClientReply reply = {0};

	if (!perform(self, &call, &reply, error))
		return FALSE;
	*out_id = reply.number;
	return TRUE;
}

gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent, gint64 *out_id,
				 GError **error)
{
	return begin(self, error) && check_place(out_id, error) && check_agent(agent, error) &&
	       get_one(self, agent, out_id, error);
}

/* Asks for @count IDs, or for fewer if the server says that it is too many for one call. */
static gboolean get_batch(SnowflakeClient *self, const char *agent, guint count, gint64 *out_ids,
			  guint *out_count, GError **error)
{
	for (;;) {
		const ClientCall call = {
			.method = "get_ids",
			.result = CLIENT_RESULT_IDS,
			.agent = agent,
			.count = MIN(count, self->max_count),
		};
		ClientReply reply = {.ids = out_ids};
		g_autoptr(GError) failure = NULL;

		if (perform(self, &call, &reply, &failure)) {
			*out_count = call.count;
			return TRUE;
		}
		if (!reply.count_refused || call.count == 1) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
		self->max_count = call.count / 2;
	}
}

/* One step towards @count IDs: a batch, or a single ID where the server has no batches. */
static gboolean get_some(SnowflakeClient *self, const char *agent, guint count, gint64 *out_ids,
			 guint *out_count, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (!self->lacks_get_ids) {
		if (get_batch(self, agent, count, out_ids, out_count, &failure))
			return TRUE;
		if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				     SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
		self->lacks_get_ids = TRUE;
	}
	if (!get_one(self, agent, out_ids, error))
		return FALSE;
	*out_count = 1;
	return TRUE;
}

/* Whether @id is above the @last that a server without batches gave, as in a batch it would be. If
 * not, leaves the server. */
static gboolean check_order(SnowflakeClient *self, gint64 last, gint64 id, GError **error)
{
	if (id > last)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
		    "%s: not an answer of a Snowflake server: ID %" G_GINT64_FORMAT
		    " after ID %" G_GINT64_FORMAT,
		    current_server(self)->text, id, last);
	leave(self);
	return FALSE;
}

gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent, guint count,
				  gint64 *out_ids, GError **error)
{
	if (!begin(self, error) || !check_place(out_ids, error) || !check_agent(agent, error))
		return FALSE;
	if (count == 0)
		return refuse_argument(error, "a count of 0, the least is 1");

	g_autofree gint64 *ids = g_new(gint64, count);

	for (guint done = 0, got; done < count; done += got) {
		guint server = self->current;

		if (!get_some(self, agent, count - done, ids + done, &got, error)) {
			if (done > 0)
				g_prefix_error(error, "after %u of %u IDs: ", done, count);
			return FALSE;
		}
		if (done > 0 && self->lacks_get_ids && self->current == server &&
		    !check_order(self, ids[done - 1], ids[done], error))
			return FALSE;
	}
	memcpy(out_ids, ids, count * sizeof(*ids));
	return TRUE;
}
