/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-client.h"

#include <string.h>

#include "client/failover.h"
#include "common/useragent.h"

SnowflakeClient *snowflake_client_new(const char *const *servers, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(SnowflakeClient) self = g_new0(SnowflakeClient, 1);

	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	self->max_count = G_MAXUINT;
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

gboolean snowflake_client_set_tls(SnowflakeClient *self, const SnowflakeClientTls *tls,
				  GError **error)
{
	g_autoptr(GError) fault = NULL;
	g_autoptr(TlsClient) next = NULL;
	TlsNames names;

	g_return_val_if_fail(self != NULL && tls != NULL, FALSE);
	names = client_failover_tls_names(tls);
	next = tls_client_new(&names, &fault);
	if (next == NULL)
		return refuse_argument(error, fault->message);
	client_failover_set_tls(self, next);
	return TRUE;
}

void snowflake_client_set_timeout_ms(SnowflakeClient *self, guint timeout_ms)
{
	g_return_if_fail(self != NULL && timeout_ms > 0);
	self->timeout_ms = timeout_ms;
}

const char *snowflake_client_get_server(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, NULL);
	return client_failover_server(self)->text;
}

gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, 0);
	return self->retry_after_ms;
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
	    !client_failover_perform(self, &call, &reply, error))
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

	if (begin(self, error) && client_failover_perform(self, &call, &reply, error))
		return reply.worker;
	snowflake_client_worker_free(reply.worker);
	return NULL;
}

GPtrArray *snowflake_client_get_workers(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};
	ClientReply reply = {0};

	if (begin(self, error) && client_failover_perform(self, &call, &reply, error))
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

	if (begin(self, error) && client_failover_perform(self, &call, &reply, error)) {
		g_ptr_array_sort(reply.counters, compare_names);
		return reply.counters;
	}
	g_clear_pointer(&reply.counters, g_ptr_array_unref);
	return NULL;
}

/* What the agent may have in it is for the server to say. This only keeps a request from being too
 * long to be read, and so to be answered. */
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

static gboolean get_one(SnowflakeClient *self, const char *agent, gint64 *out_id, GError **error)
{
	const ClientCall call = {.method = "get_id", .result = CLIENT_RESULT_ID, .agent = agent};
	ClientReply reply = {0};

	if (!client_failover_perform(self, &call, &reply, error))
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

/* Makes the call, or asks for fewer if the server says that it is too many for one call.
 * @reply: where what comes goes */
static gboolean get_batch(SnowflakeClient *self, ClientCall call, ClientReply reply,
			  guint *out_count, GError **error)
{
	for (;;) {
		g_autoptr(GError) failure = NULL;

		call.count = MIN(call.count, self->max_count);
		if (client_failover_perform(self, &call, &reply, &failure)) {
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

/* Whether @failure, of a call that the server was asked for once, says that it lacks it; if not, it
 * is the caller's. */
static gboolean is_lacking(GError *failure, GError **error)
{
	if (g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
		g_error_free(failure);
		return TRUE;
	}
	g_propagate_error(error, failure);
	return FALSE;
}

/* One step towards @count IDs: a batch, or a single ID where the server has no batches. */
static gboolean get_some(SnowflakeClient *self, const char *agent, guint count, gint64 *out_ids,
			 guint *out_count, GError **error)
{
	if (!self->lacks_get_ids) {
		const ClientCall call = {
			.method = "get_ids",
			.result = CLIENT_RESULT_IDS,
			.agent = agent,
			.count = MIN(count, CLIENT_CALL_MAX_COUNT),
		};
		GError *failure = NULL;

		if (get_batch(self, call, (ClientReply){.ids = out_ids}, out_count, &failure))
			return TRUE;
		if (!is_lacking(failure, error))
			return FALSE;
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
		    client_failover_server(self)->text, id, last);
	client_failover_leave(self);
	return FALSE;
}

static gboolean begin_batches(SnowflakeClient *self, const char *agent, guint count,
			      const void *out, GError **error)
{
	if (!begin(self, error) || !check_place(out, error) || !check_agent(agent, error))
		return FALSE;
	return count > 0 || refuse_argument(error, "a count of 0, the least is 1");
}

static void prefix_progress(GError **error, guint done, guint count)
{
	if (done > 0)
		g_prefix_error(error, "after %u of %u IDs: ", done, count);
}

gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent, guint count,
				  gint64 *out_ids, GError **error)
{
	if (!begin_batches(self, agent, count, out_ids, error))
		return FALSE;

	g_autofree gint64 *ids = g_new(gint64, count);

	for (guint done = 0, got; done < count; done += got) {
		guint server = self->current;

		if (!get_some(self, agent, count - done, ids + done, &got, error)) {
			prefix_progress(error, done, count);
			return FALSE;
		}
		if (done > 0 && self->lacks_get_ids && self->current == server &&
		    !check_order(self, ids[done - 1], ids[done], error))
			return FALSE;
	}
	memcpy(out_ids, ids, count * sizeof(*ids));
	return TRUE;
}

static SnowflakeClientIdRun *last_run(const GArray *runs)
{
	return runs->len > 0 ? &g_array_index(runs, SnowflakeClientIdRun, runs->len - 1) : NULL;
}

/* For IDs that came one by one. */
static void append_id(GArray *runs, gint64 id)
{
	SnowflakeClientIdRun *last = last_run(runs);
	const SnowflakeClientIdRun run = {id, 1};

	if (last != NULL && id == last->first + last->count)
		last->count++;
	else
		g_array_append_val(runs, run);
}

/* Whether @id, which a server gave without a batch, comes after the runs' last. */
static gboolean check_run_order(SnowflakeClient *self, const GArray *runs, gint64 id,
				GError **error)
{
	const SnowflakeClientIdRun *last = last_run(runs);

	return last == NULL || check_order(self, last->first + (last->count - 1), id, error);
}

/* Of a server that has no get_id_runs. */
static gboolean append_some_ids(SnowflakeClient *self, const char *agent, guint count, GArray *runs,
				guint *out_count, GError **error)
{
	gint64 ids[CLIENT_CALL_MAX_COUNT];
	guint server = self->current;
	guint got;

	if (!get_some(self, agent, MIN(count, CLIENT_CALL_MAX_COUNT), ids, &got, error))
		return FALSE;
	if (self->lacks_get_ids && self->current == server &&
	    !check_run_order(self, runs, ids[0], error))
		return FALSE;
	for (guint i = 0; i < got; i++)
		append_id(runs, ids[i]);
	*out_count = got;
	return TRUE;
}

/* One step towards runs of @count IDs. */
static gboolean append_some_runs(SnowflakeClient *self, const char *agent, guint count,
				 GArray *runs, guint *out_count, GError **error)
{
	if (!self->lacks_get_id_runs) {
		const ClientCall call = {
			.method = "get_id_runs",
			.result = CLIENT_RESULT_RUNS,
			.agent = agent,
			.count = MIN(count, CLIENT_CALL_MAX_RUN_IDS),
		};
		g_autoptr(GArray) got = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
		GError *failure = NULL;

		if (get_batch(self, call, (ClientReply){.runs = got}, out_count, &failure)) {
			g_array_append_vals(runs, got->data, got->len);
			return TRUE;
		}
		if (!is_lacking(failure, error))
			return FALSE;
		self->lacks_get_id_runs = TRUE;
	}
	return append_some_ids(self, agent, count, runs, out_count, error);
}

GArray *snowflake_client_get_id_runs(SnowflakeClient *self, const char *agent, guint count,
				     GError **error)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));

	if (!begin_batches(self, agent, count, runs, error))
		return NULL;
	for (guint done = 0, got; done < count; done += got) {
		if (!append_some_runs(self, agent, count - done, runs, &got, error)) {
			prefix_progress(error, done, count);
			return NULL;
		}
	}
	return g_steal_pointer(&runs);
}

static gboolean get_uuids(SnowflakeClient *self, const char *method, const char *agent, guint count,
			  guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error)
{
	if (!begin_batches(self, agent, count, out_uuids, error))
		return FALSE;

	g_autofree guint8(*uuids)[SNOWFLAKE_CLIENT_UUID_BYTES] = g_malloc_n(count, sizeof(*uuids));

	for (guint done = 0, got; done < count; done += got) {
		const ClientCall call = {
			.method = method,
			.result = CLIENT_RESULT_UUIDS,
			.agent = agent,
			.count = MIN(count - done, CLIENT_CALL_MAX_COUNT),
		};

		if (!get_batch(self, call, (ClientReply){.uuids = uuids + done}, &got, error)) {
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
