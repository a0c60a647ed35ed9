/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-client.h"

#include <string.h>

#include "client/batch.h"
#include "client/call.h"
#include "client/client-tls.h"
#include "client/server-list.h"
#include "common/address.h"
#include "common/useragent.h"

struct _SnowflakeClient {
	ServerList *servers;
	ServerListTerms terms; /* time limits of the current or next call */
	gint64 retry_after_ms;
};

SnowflakeClient *snowflake_client_new(const char *const *servers, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(GError) fault = NULL;
	SnowflakeClient *self;
	GPtrArray *addresses;

	if (servers == NULL || servers[0] == NULL)
		servers = default_servers;
	addresses = address_parse_servers(servers, &fault);
	if (addresses == NULL) {
		client_call_refuse_argument(error, fault->message);
		return NULL;
	}
	self = g_new0(SnowflakeClient, 1);
	self->servers = server_list_new(addresses);
	self->terms.limit.ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS;
	self->terms.retries = TRUE;
	return self;
}

void snowflake_client_free(SnowflakeClient *self)
{
	if (self == NULL)
		return;
	server_list_free(self->servers);
	g_free(self);
}

void client_tls_share(SnowflakeClient *self, TlsClient *tls)
{
	server_list_share_tls(self->servers, tls);
}

gboolean snowflake_client_set_tls(SnowflakeClient *self, const SnowflakeClientTls *tls,
				  GError **error)
{
	g_autoptr(GError) fault = NULL;
	g_autoptr(TlsClient) next = NULL;

	g_return_val_if_fail(self != NULL && tls != NULL, FALSE);
	next = client_tls_new(tls, &fault);
	if (next == NULL)
		return client_call_refuse_argument(error, fault->message);
	client_tls_share(self, next);
	return TRUE;
}

void snowflake_client_set_timeout_ms(SnowflakeClient *self, guint timeout_ms)
{
	g_return_if_fail(self != NULL && timeout_ms > 0);
	self->terms.limit.ms = timeout_ms;
}

void snowflake_client_set_attempt_timeout_ms(SnowflakeClient *self, guint attempt_timeout_ms)
{
	g_return_if_fail(self != NULL);
	self->terms.patience_us = attempt_timeout_ms * G_TIME_SPAN_MILLISECOND;
}

void snowflake_client_set_retry(SnowflakeClient *self, gboolean retry)
{
	g_return_if_fail(self != NULL);
	self->terms.retries = retry;
}

void snowflake_client_shuffle_servers(SnowflakeClient *self)
{
	g_return_if_fail(self != NULL);
	server_list_shuffle(self->servers);
}

const char *snowflake_client_get_server(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, NULL);
	return server_list_get_current(self->servers)->text;
}

gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, 0);
	return self->retry_after_ms;
}

/* Calls */

/* Prepares a call, and starts its time limit. */
static gboolean begin_call(SnowflakeClient *self, gboolean has_out, GError **error)
{
	if (self == NULL)
		return client_call_refuse_argument(error, "no client");
	if (!has_out)
		return client_call_refuse_argument(error, "the pointer for the result is NULL");
	self->terms.limit.start_us = g_get_monotonic_time();
	self->retry_after_ms = 0;
	return TRUE;
}

/* @reply: (inout): as for client_call_read() */
static gboolean perform_call(SnowflakeClient *self, const ClientCall *call, ClientReply *reply,
			     GError **error)
{
	gboolean done = server_list_call(self->servers, call, &self->terms, reply, error);

	self->retry_after_ms = reply->retry_after_ms;
	return done;
}

static gboolean get_number(SnowflakeClient *self, const char *method, gint64 *out_number,
			   GError **error)
{
	const ClientCall call = {.method = method, .result = CLIENT_RESULT_NUMBER};
	ClientReply reply = {0};

	if (!begin_call(self, out_number != NULL, error) ||
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

	if (begin_call(self, TRUE, error) && perform_call(self, &call, &reply, error))
		return reply.worker;
	snowflake_client_worker_free(reply.worker);
	return NULL;
}

GPtrArray *snowflake_client_get_workers(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};
	ClientReply reply = {0};

	if (begin_call(self, TRUE, error) && perform_call(self, &call, &reply, error))
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

	if (begin_call(self, TRUE, error) && perform_call(self, &call, &reply, error)) {
		g_ptr_array_sort(reply.counters, compare_names);
		return reply.counters;
	}
	g_clear_pointer(&reply.counters, g_ptr_array_unref);
	return NULL;
}

/* Checks only the length: the server checks the characters, but could not read a request that is
 * too long, and so could not answer it. */
static gboolean check_agent(const char *agent, GError **error)
{
	if (agent == NULL)
		return client_call_refuse_argument(error, "no useragent");

	gsize length = strlen(agent);

	if (length <= USERAGENT_MAX_BYTES)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
		    "the useragent has %zu bytes; the limit is %d", length, USERAGENT_MAX_BYTES);
	return FALSE;
}

gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent, gint64 *out_id,
				 GError **error)
{
	const ClientCall call = batch_call(CLIENT_RESULT_ID, agent, 1);
	ClientReply reply = {0};

	if (!begin_call(self, out_id != NULL, error) || !check_agent(agent, error) ||
	    !perform_call(self, &call, &reply, error))
		return FALSE;
	*out_id = reply.number;
	return TRUE;
}

/* Batches */

static gboolean begin_batches(SnowflakeClient *self, const char *agent, guint count,
			      const void *out, GError **error)
{
	if (!begin_call(self, out != NULL, error) || !check_agent(agent, error))
		return FALSE;
	return count > 0 ||
	       client_call_refuse_argument(error, "the count is 0; it must be at least 1");
}

static void prefix_progress(GError **error, guint done, guint count)
{
	if (done > 0)
		g_prefix_error(error, "after %u of %u IDs: ", done, count);
}

/* Requests up to @count IDs with the best call that the server supports.
 * @wanted: RUNS or IDS
 * @out_call: (out): the call that was answered. @reply: (inout): has room for the IDs of any of
 * these calls */
static gboolean request_batch(SnowflakeClient *self, ClientResult wanted, const char *agent,
			      guint count, ClientCall *out_call, ClientReply *reply, GError **error)
{
	for (;;) {
		g_autoptr(GError) failure = NULL;
		BatchOffer offer =
			batch_limits_offer(server_list_get_limits(self->servers), wanted);

		*out_call = batch_call(offer.result, agent, MIN(count, offer.max_count));
		if (perform_call(self, out_call, reply, &failure))
			return TRUE;
		if (!batch_limits_step_down(server_list_get_limits(self->servers), out_call, reply,
					    failure)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
	}
}

/* Checks that an ID from a server that does not support batches is above @last, its previous ID, as
 * it would be in a batch. If not, the client stops using the server. */
static gboolean check_order(SnowflakeClient *self, gint64 last, gint64 id, GError **error)
{
	if (id > last)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
		    "%s: not a reply from a Snowflake server: ID %" G_GINT64_FORMAT
		    " after ID %" G_GINT64_FORMAT,
		    server_list_get_current(self->servers)->text, id, last);
	server_list_avoid_current(self->servers);
	return FALSE;
}

gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent, guint count,
				  gint64 *out_ids, GError **error)
{
	if (!begin_batches(self, agent, count, out_ids, error))
		return FALSE;

	g_autofree gint64 *ids = g_new(gint64, count);

	for (guint done = 0, got; done < count; done += got) {
		const Address *server = server_list_get_current(self->servers);
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
		if (done > 0 && server_list_get_current(self->servers) == server &&
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
		const Address *server = server_list_get_current(self->servers);
		const SnowflakeClientIdRun *last;
		ClientCall call;

		if (!request_batch(self, CLIENT_RESULT_RUNS, agent, count - done, &call, &reply,
				   error) ||
		    (call.result == CLIENT_RESULT_ID &&
		     server_list_get_current(self->servers) == server && done > 0 &&
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

/* Makes a call that returns 16 bytes for each ID. Not all servers support it. */
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

		call.count =
			MIN(count - done, batch_limits_offer(server_list_get_limits(self->servers),
							     CLIENT_RESULT_UUIDS)
						  .max_count);
		if (perform_call(self, &call, &reply, &failure)) {
			done += call.count;
		} else if (!batch_limits_step_down(server_list_get_limits(self->servers), &call,
						   &reply, failure)) {
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
