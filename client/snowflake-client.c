/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-client.h"

#include <string.h>

#include "client/batch.h"
#include "client/call.h"
#include "client/client-tls.h"
#include "client/connection.h"
#include "common/address.h"
#include "common/useragent.h"

struct _SnowflakeClient {
	GPtrArray *servers;           /* Address, one at least */
	guint current;                /* the connected server, or the one that is tried first */
	ClientConnection *connection; /* NULL: not now */
	BatchLimits limits;           /* limits of the connected server */
	TlsClient *tls;               /* NULL: not needed yet */
	gint32 seqid;                 /* sequence ID of the next call; 0 or above */
	guint timeout_ms;
	gint64 deadline_us; /* deadline of the current call, by g_get_monotonic_time() */
	gint64 retry_after_ms;
};

SnowflakeClient *snowflake_client_new(const char *const *servers, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(SnowflakeClient) self = g_new0(SnowflakeClient, 1);

	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	self->limits = BATCH_LIMITS_INIT;
	/* so that an answer to another client's call is not taken for one of this client's */
	self->seqid = (gint32)(g_random_int() & G_MAXINT32);
	self->timeout_ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS;
	if (servers == NULL || servers[0] == NULL)
		servers = default_servers;
	for (gsize i = 0; servers[i] != NULL; i++) {
		g_autoptr(GError) fault = NULL;
		Address *address = address_parse_server(servers[i], &fault);

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
	tls_client_unref(self->tls);
	g_ptr_array_unref(self->servers);
	g_free(self);
}

static gboolean refuse_argument(GError **error, const char *what)
{
	g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
			    what);
	return FALSE;
}

void client_tls_share(SnowflakeClient *self, TlsClient *tls)
{
	TlsClient *before = self->tls;

	self->tls = tls_client_ref(tls);
	tls_client_unref(before);
}

gboolean snowflake_client_set_tls(SnowflakeClient *self, const SnowflakeClientTls *tls,
				  GError **error)
{
	g_autoptr(GError) fault = NULL;
	g_autoptr(TlsClient) next = NULL;
	TlsNames names;

	g_return_val_if_fail(self != NULL && tls != NULL, FALSE);
	names = client_tls_names(tls);
	next = tls_client_new(&names, &fault);
	if (next == NULL)
		return refuse_argument(error, fault->message);
	client_tls_share(self, next);
	return TRUE;
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

/* Failover */

static void disconnect(SnowflakeClient *self)
{
	g_clear_pointer(&self->connection, client_connection_free);
	self->limits = BATCH_LIMITS_INIT;
}

/* The next call begins with the server after this one in the list. */
static void leave_server(SnowflakeClient *self)
{
	disconnect(self);
	self->current = (self->current + 1) % self->servers->len;
}

/* Uses a separate random generator, because forked processes share the state of g_random_...(). */
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

static gboolean exchange_call(SnowflakeClient *self, const ClientCall *call, ClientLimit limit,
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

/* Makes the call at the current server. An old connection that breaks can have done so at any time
 * since the last call. That says nothing about the server, so it is connected to again. */
static gboolean call_server(SnowflakeClient *self, const ClientCall *call, ClientLimit limit,
			    ClientReply *reply, GError **error)
{
	const Address *address = current_server(self);
	const TlsNames nothing = {0};
	g_autoptr(GError) failure = NULL;

	if (self->connection != NULL && !client_connection_is_stale(self->connection)) {
		if (exchange_call(self, call, limit, reply, &failure))
			return TRUE;
		if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				     SNOWFLAKE_CLIENT_ERROR_UNREACHABLE)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
		g_clear_error(&failure);
	}
	disconnect(self);
	/* the system trust store takes some milliseconds to read, so only if it is needed */
	if (address->is_tls && self->tls == NULL)
		self->tls = tls_client_new(&nothing, &failure);
	if (failure != NULL) {
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, failure->message);
		return FALSE;
	}
	self->connection =
		client_connection_new(address, address->is_tls ? self->tls : NULL, limit, error);
	return self->connection != NULL && exchange_call(self, call, limit, reply, error);
}

/* After a failed call: leaves the server if another one may serve. Returns: whether one may */
static gboolean fail_over(SnowflakeClient *self, const GError *error)
{
	switch ((SnowflakeClientError)error->code) {
	case SNOWFLAKE_CLIENT_ERROR_CLOCK:
	case SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE:
		if (self->servers->len > 1)
			leave_server(self);
		return TRUE;
	case SNOWFLAKE_CLIENT_ERROR_UNREACHABLE:
	case SNOWFLAKE_CLIENT_ERROR_TIMEOUT:
	case SNOWFLAKE_CLIENT_ERROR_PROTOCOL:
		leave_server(self);
		return TRUE;
	case SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT:
	case SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED:
	default:
		return FALSE;
	}
}

/* Makes the call at each server once, from the current one on, while there is time, until one
 * serves it, or refuses it as the others would. Each call can be repeated: it changes nothing but
 * the next ID. On failure the error is the last one's, and its message has what each of them said.
 * @reply: (inout): as for client_call_read() */
static gboolean perform_call(SnowflakeClient *self, const ClientCall *call, ClientReply *reply,
			     GError **error)
{
	g_autoptr(GString) messages = g_string_new(NULL);
	g_autoptr(GError) failure = NULL;
	guint left = self->servers->len;
	gboolean done, moved;

	do {
		const char *server = current_server(self)->text;
		gint64 now_us = g_get_monotonic_time();
		gint64 half_us = MAX(self->deadline_us - now_us, 0) / 2;
		/* half of the remaining time for each server, and all of it for the last one, whose
		 * error then names the limit that was set */
		ClientLimit limit = {
			.start_us = self->deadline_us - self->timeout_ms * G_TIME_SPAN_MILLISECOND,
			.ms = self->timeout_ms,
		};

		if (left > 1)
			limit = (ClientLimit){now_us,
					      (guint)((half_us + G_TIME_SPAN_MILLISECOND - 1) /
						      G_TIME_SPAN_MILLISECOND)};
		g_clear_error(&failure);
		reply->retry_after_ms = 0;
		reply->count_refused = FALSE;
		done = call_server(self, call, limit, reply, &failure);
		moved = !done && fail_over(self, failure);
		if (!done)
			g_string_append_printf(messages, "%s%s: %s", messages->len > 0 ? "; " : "",
					       server, failure->message);
	} while (moved && --left > 0 && g_get_monotonic_time() < self->deadline_us);
	self->retry_after_ms = reply->retry_after_ms;
	if (done)
		return TRUE;
	g_set_error_literal(error, failure->domain, failure->code, messages->str);
	return FALSE;
}

/* Calls */

/* Begins each call: its time runs from here. */
static gboolean begin_call(SnowflakeClient *self, GError **error)
{
	if (self == NULL)
		return refuse_argument(error, "no client");
	self->deadline_us = g_get_monotonic_time() + self->timeout_ms * G_TIME_SPAN_MILLISECOND;
	self->retry_after_ms = 0;
	return TRUE;
}

static gboolean check_out_pointer(const void *out, GError **error)
{
	return out != NULL || refuse_argument(error, "no pointer for the result");
}

static gboolean get_number(SnowflakeClient *self, const char *method, gint64 *out_number,
			   GError **error)
{
	const ClientCall call = {.method = method, .result = CLIENT_RESULT_NUMBER};
	ClientReply reply = {0};

	if (!begin_call(self, error) || !check_out_pointer(out_number, error) ||
	    !perform_call(self, &call, &reply, error))
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

	if (begin_call(self, error) && perform_call(self, &call, &reply, error))
		return reply.worker;
	snowflake_client_worker_free(reply.worker);
	return NULL;
}

GPtrArray *snowflake_client_get_workers(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};
	ClientReply reply = {0};

	if (begin_call(self, error) && perform_call(self, &call, &reply, error))
		return reply.workers;
	g_clear_pointer(&reply.workers, g_ptr_array_unref);
	return NULL;
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
	const SnowflakeClientCounter *left = *(SnowflakeClientCounter *const *)a;
	const SnowflakeClientCounter *right = *(SnowflakeClientCounter *const *)b;

	return strcmp(left->name, right->name);
}

GPtrArray *snowflake_client_get_counters(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_counters", .result = CLIENT_RESULT_COUNTERS};
	ClientReply reply = {0};

	if (begin_call(self, error) && perform_call(self, &call, &reply, error)) {
		g_ptr_array_sort(reply.counters, compare_names);
		return reply.counters;
	}
	g_clear_pointer(&reply.counters, g_ptr_array_unref);
	return NULL;
}

/* The server checks what is in the agent. This only keeps the request from being too long for the
 * server to read, and so to answer. */
static gboolean check_agent(const char *agent, GError **error)
{
	if (agent == NULL)
		return refuse_argument(error, "no useragent");

	gsize length = strlen(agent);

	if (length <= USERAGENT_MAX_BYTES)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
		    "a useragent of %zu bytes, the limit is %d", length, USERAGENT_MAX_BYTES);
	return FALSE;
}

gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent, gint64 *out_id,
				 GError **error)
{
	const ClientCall call = batch_call(CLIENT_RESULT_ID, agent, 1);
	ClientReply reply = {0};

	if (!begin_call(self, error) || !check_out_pointer(out_id, error) ||
	    !check_agent(agent, error) || !perform_call(self, &call, &reply, error))
		return FALSE;
	*out_id = reply.number;
	return TRUE;
}

/* Batches */

static gboolean begin_batches(SnowflakeClient *self, const char *agent, guint count,
			      const void *out, GError **error)
{
	if (!begin_call(self, error) || !check_out_pointer(out, error) ||
	    !check_agent(agent, error))
		return FALSE;
	return count > 0 || refuse_argument(error, "the count is 0; it must be at least 1");
}

static void prefix_progress(GError **error, guint done, guint count)
{
	if (done > 0)
		g_prefix_error(error, "after %u of %u IDs: ", done, count);
}

/* Requests up to @count IDs by the best call that the server has.
 * @wanted: RUNS or IDS
 * @out_call: (out): the call that was answered
 * @reply: (inout): with room for the IDs of any of these calls */
static gboolean request_batch(SnowflakeClient *self, ClientResult wanted, const char *agent,
			      guint count, ClientCall *out_call, ClientReply *reply, GError **error)
{
	for (;;) {
		g_autoptr(GError) failure = NULL;
		BatchOffer offer = batch_limits_offer(&self->limits, wanted);

		*out_call = batch_call(offer.result, agent, MIN(count, offer.max_count));
		if (perform_call(self, out_call, reply, &failure))
			return TRUE;
		if (!batch_limits_step_down(&self->limits, out_call, reply, failure)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
	}
}

/* Checks that an ID of a server without batches is above the @last that it gave, as it would be in
 * a batch. If it is not, leaves the server. */
static gboolean check_order(SnowflakeClient *self, gint64 last, gint64 id, GError **error)
{
	if (id > last)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
		    "%s: not a reply of a Snowflake server: ID %" G_GINT64_FORMAT
		    " after ID %" G_GINT64_FORMAT,
		    current_server(self)->text, id, last);
	leave_server(self);
	return FALSE;
}

gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent, guint count,
				  gint64 *out_ids, GError **error)
{
	if (!begin_batches(self, agent, count, out_ids, error))
		return FALSE;

	g_autofree gint64 *ids = g_new(gint64, count);

	for (guint done = 0, got; done < count; done += got) {
		guint server = self->current;
		ClientReply reply = {.ids = ids + done};
		ClientCall call;

		if (!request_batch(self, CLIENT_RESULT_IDS, agent, count - done, &call, &reply,
				   error)) {
			prefix_progress(error, done, count);
			return FALSE;
		}
		got = MAX(call.count, 1);
		if (call.result != CLIENT_RESULT_ID)
			continue;
		ids[done] = reply.number;
		if (done > 0 && self->current == server &&
		    !check_order(self, ids[done - 1], ids[done], error))
			return FALSE;
	}
	memcpy(out_ids, ids, count * sizeof(*ids));
	return TRUE;
}

GArray *snowflake_client_get_id_runs(SnowflakeClient *self, const char *agent, guint count,
				     GError **error)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	g_autoptr(GArray) batch = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	gint64 ids[CLIENT_CALL_MAX_COUNT];
	gint64 last_id = 0;

	if (!begin_batches(self, agent, count, runs, error))
		return NULL;
	for (guint done = 0, got; done < count; done += got) {
		ClientReply reply = {.runs = batch, .ids = ids};
		guint server = self->current;
		const SnowflakeClientIdRun *last;
		ClientCall call;

		if (!request_batch(self, CLIENT_RESULT_RUNS, agent, count - done, &call, &reply,
				   error) ||
		    (call.result == CLIENT_RESULT_ID && self->current == server && done > 0 &&
		     !check_order(self, last_id, reply.number, error))) {
			prefix_progress(error, done, count);
			return NULL;
		}
		got = MAX(call.count, 1);
		if (call.result == CLIENT_RESULT_RUNS)
			g_array_append_vals(runs, batch->data, batch->len);
		else
			batch_append_runs(&call, &reply, runs);
		last = &g_array_index(runs, SnowflakeClientIdRun, runs->len - 1);
		last_id = last->first + (last->count - 1);
	}
	return g_steal_pointer(&runs);
}

/* Makes a call that returns 16 bytes for each ID, and that some servers do not support. */
static gboolean get_uuids(SnowflakeClient *self, const char *method, const char *agent, guint count,
			  guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error)
{
	if (!begin_batches(self, agent, count, out_uuids, error))
		return FALSE;

	g_autofree guint8(*uuids)[SNOWFLAKE_CLIENT_UUID_BYTES] = g_malloc_n(count, sizeof(*uuids));

	for (guint done = 0; done < count;) {
		g_autoptr(GError) failure = NULL;
		ClientReply reply = {.uuids = uuids + done};
		ClientCall call = {.method = method, .result = CLIENT_RESULT_UUIDS, .agent = agent};

		call.count = MIN(count - done,
				 batch_limits_offer(&self->limits, CLIENT_RESULT_UUIDS).max_count);
		if (perform_call(self, &call, &reply, &failure)) {
			done += call.count;
		} else if (!batch_limits_step_down(&self->limits, &call, &reply, failure)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			prefix_progress(error, done, count);
			return FALSE;
		}
	}
	memcpy(out_uuids, uuids, count * sizeof(*uuids));
	return TRUE;
}

gboolean snowflake_client_get_ulids(SnowflakeClient *self, const char *agent, guint count,
				    guint8 (*out_ulids)[SNOWFLAKE_CLIENT_UUID_BYTES],
				    GError **error)
{
	return get_uuids(self, "get_ulids", agent, count, out_ulids, error);
}

gboolean snowflake_client_get_uuids(SnowflakeClient *self, const char *agent, guint count,
				    guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES],
				    GError **error)
{
	return get_uuids(self, "get_uuids", agent, count, out_uuids, error);
}
