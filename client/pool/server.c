/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/server.h"

#include <string.h>

#include "common/fork-guard.h"

#define CONNECT_LIMIT_MS 1000
#define REPLY_LIMIT_MS   3000 /* by default, servers let a call wait for up to a second */
/* after this time without an answer, another server becomes the first one */
#define HANG_US          20000
#define ROUND_TRIPS      4 /* or this many round trips, if that is longer */
#define LEAST_REFUSAL_MS 20
#define MOST_REFUSAL_MS  2000

PoolServer *pool_server_new(PoolEndpoint *endpoint, TlsClient *tls, gint64 now_us, GError **error)
{
	ClientConnection *connection = client_connection_begin(&endpoint->address, tls, error);

	if (connection == NULL)
		return NULL;

	PoolServer *self = g_new0(PoolServer, 1);

	fork_guard_note(&connection->fd);
	self->endpoint = endpoint;
	self->connection = connection;
	self->since_us = now_us;
	self->request = g_byte_array_new();
	self->useless_since_us = now_us;
	self->limits = BATCH_LIMITS_INIT;
	return self;
}

void pool_server_free(PoolServer *self)
{
	if (self == NULL)
		return;
	/* send nothing to the server, because in a child of fork(), the connection belongs to the
	 * parent */
	fork_guard_close_noted(&self->connection->fd);
	client_connection_free(self->connection);
	g_byte_array_unref(self->request);
	g_clear_pointer(&self->worker, snowflake_client_worker_free);
	g_free(self);
}

gboolean pool_server_is_idle(const PoolServer *self)
{
	return self->connection->state == CLIENT_CONNECTION_IDLE;
}

guint pool_server_drawing(const PoolServer *self)
{
	ClientResult result = self->call.result;

	if (self->connection->state != CLIENT_CONNECTION_CALLING ||
	    (result != CLIENT_RESULT_RUNS && result != CLIENT_RESULT_IDS &&
	     result != CLIENT_RESULT_ID))
		return 0;
	return MAX(self->call.count, 1);
}

static void begin_call(PoolServer *self, const ClientCall *call, gint64 now_us)
{
	self->call = *call;
	self->seqid = self->seqid == G_MAXINT32 ? 0 : self->seqid + 1;
	self->since_us = now_us;
	g_byte_array_set_size(self->request, 0);
	client_call_write(call, self->seqid, self->request);
	client_connection_call(self->connection, self->request, client_call_max_reply_bytes(call));
}

void pool_server_probe(PoolServer *self, gint64 now_us)
{
	const ClientCall call = {.method = "get_worker", .result = CLIENT_RESULT_WORKER};

	self->probed_at_us = now_us;
	begin_call(self, &call, now_us);
}

void pool_server_list(PoolServer *self, gint64 now_us)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};

	begin_call(self, &call, now_us);
}

void pool_server_draw(PoolServer *self, const char *agent, guint count,
		      PoolBatchRequest *batch_request, gint64 now_us)
{
	const ClientCall call = batch_call(
		batch_limits_offer(&self->limits, CLIENT_RESULT_RUNS).result, agent, count);

	self->batch_request = batch_request;
	begin_call(self, &call, now_us);
}

gint64 pool_server_gives_way_us(const PoolServer *self)
{
	gint64 since_us = POOL_NEVER_US;

	if (self->fitness == POOL_SERVER_UNKNOWN)
		since_us = self->since_us;
	else if (pool_server_is_idle(self))
		since_us = self->useless_since_us;
	return since_us != POOL_NEVER_US
		       ? since_us + POOL_SERVER_GIVE_WAY_MS * G_TIME_SPAN_MILLISECOND
		       : POOL_NEVER_US;
}

gint64 pool_server_patience_us(const PoolServer *self, gint64 least_us)
{
	return MAX(least_us, ROUND_TRIPS * self->round_trip_us);
}

gboolean pool_server_seems_to_hang(const PoolServer *self, gint64 now_us)
{
	return !pool_server_is_idle(self) &&
	       now_us - self->since_us > pool_server_patience_us(self, HANG_US);
}

gint pool_server_rank(const PoolServer *self, gint64 now_us)
{
	gboolean is_last_choice =
		self->fitness == POOL_SERVER_DRAINING || self->fitness == POOL_SERVER_WAITING;

	if (self->fitness == POOL_SERVER_UNKNOWN || self->fitness == POOL_SERVER_UNFIT ||
	    now_us < self->refused_until_us)
		return POOL_SERVER_USELESS;
	return is_last_choice + 2 * pool_server_seems_to_hang(self, now_us);
}

static guint limit_ms(const PoolServer *self)
{
	return self->connection->state == CLIENT_CONNECTION_CONNECTING ? CONNECT_LIMIT_MS
								       : REPLY_LIMIT_MS;
}

static gint64 deadline_us(const PoolServer *self)
{
	if (pool_server_is_idle(self))
		return POOL_NEVER_US;
	return self->since_us + limit_ms(self) * G_TIME_SPAN_MILLISECOND;
}

gint64 pool_server_next_us(const PoolServer *self, gint64 now_us)
{
	gint64 hangs_at_us = self->since_us + pool_server_patience_us(self, HANG_US) + 1;
	gint64 next_us = deadline_us(self);

	if (!pool_server_is_idle(self) && hangs_at_us > now_us)
		next_us = MIN(next_us, hangs_at_us);
	if (self->refused_until_us > now_us)
		next_us = MIN(next_us, self->refused_until_us);
	return next_us;
}

static PoolServerFitness fitness_of(const SnowflakeClientWorker *worker)
{
	const char *state = worker->state;

	if (g_str_equal(state, "draining"))
		return POOL_SERVER_DRAINING;
	/* A waiting server is used, because takers must get its refusal as their error, and because
	 * it serves again when its clock has caught up. */
	if (g_str_equal(state, "waiting") && worker->worker_id >= 0)
		return POOL_SERVER_WAITING;
	/* a server that claims a worker ID again serves the rest of its lease */
	return g_str_equal(state, "serving") || g_str_equal(state, "reclaiming")
		       ? POOL_SERVER_SERVES
		       : POOL_SERVER_UNFIT;
}

/* A probe was answered. @worker: (transfer full) (nullable): %NULL if the server does not support
 * get_worker() */
static PoolServerEvent handle_probe(PoolServer *self, gint64 now_us, SnowflakeClientWorker *worker)
{
	gint64 round_trip_us = MAX(now_us - self->probed_at_us, 1);

	pool_endpoint_identify(self->endpoint, worker, self->fitness == POOL_SERVER_UNKNOWN);
	self->answered_at_us = now_us;
	if (self->fitness == POOL_SERVER_UNKNOWN)
		self->useless_since_us = POOL_NEVER_US;
	/* the shortest round trip indicates the distance; longer ones are due to load */
	if (self->round_trip_us == 0 || round_trip_us < self->round_trip_us)
		self->round_trip_us = round_trip_us;
	self->fitness = worker != NULL ? fitness_of(worker) : POOL_SERVER_SERVES;
	if (worker != NULL) {
		self->worker_asked_at_us = self->probed_at_us;
		self->worker_round_trip_us = round_trip_us;
		g_clear_pointer(&self->worker, snowflake_client_worker_free);
		self->worker = worker;
	}
	return POOL_SERVER_PROBED;
}

static PoolServerEvent handle_reply(PoolServer *self, gint64 now_us, PoolEventData *data,
				    GError **error)
{
	ClientReply reply = {
		.runs = data->runs, .ids = data->ids, .max_workers = POOL_SERVER_MAX_LISTED};
	ClientResult result = self->call.result;
	PoolServerEvent event = POOL_SERVER_DRAWN;
	g_autoptr(GError) refusal = NULL;
	gsize length;
	const guint8 *bytes = client_connection_get_reply(self->connection, &length);

	if (self->connection->in->len > 0) {
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
				    "not a reply from a Snowflake server: more than one");
		return POOL_SERVER_FAILED;
	}
	if (client_call_read(&self->call, self->seqid, bytes, length, &reply, &refusal)) {
		if (result == CLIENT_RESULT_WORKER) {
			event = handle_probe(self, now_us, g_steal_pointer(&reply.worker));
		} else if (result == CLIENT_RESULT_WORKERS) {
			data->workers = g_steal_pointer(&reply.workers);
			event = POOL_SERVER_LISTED;
		} else {
			if (result != CLIENT_RESULT_RUNS)
				g_array_set_size(data->runs, 0);
			batch_append_runs(&self->call, &reply, data->runs);
			self->useless_since_us = POOL_NEVER_US;
		}
	} else if (refusal->code == SNOWFLAKE_CLIENT_ERROR_PROTOCOL) {
		event = POOL_SERVER_FAILED;
	} else if (result == CLIENT_RESULT_WORKERS) {
		event = POOL_SERVER_LISTED;
	} else if (result == CLIENT_RESULT_WORKER) {
		event = handle_probe(self, now_us, NULL);
	} else if (batch_limits_step_down(&self->limits, &self->call, &reply, refusal)) {
		event = POOL_SERVER_NOTHING;
	} else {
		self->refused_until_us =
			now_us + CLAMP(reply.retry_after_ms, LEAST_REFUSAL_MS, MOST_REFUSAL_MS) *
					 G_TIME_SPAN_MILLISECOND;
		self->useless_since_us = MIN(self->useless_since_us, now_us);
		event = POOL_SERVER_REFUSED;
	}
	if (event == POOL_SERVER_FAILED || event == POOL_SERVER_REFUSED)
		g_propagate_error(error, g_steal_pointer(&refusal));
	g_clear_pointer(&reply.worker, snowflake_client_worker_free);
	g_clear_pointer(&reply.workers, g_ptr_array_unref);
	return event;
}

PoolServerEvent pool_server_advance(PoolServer *self, gint64 now_us, PoolEventData *data,
				    GError **error)
{
	g_autoptr(GError) failure = NULL;
	PoolServerEvent event = POOL_SERVER_NOTHING;

	data->asked_at_us = self->since_us;
	g_clear_pointer(&data->workers, g_ptr_array_unref);
	switch (client_connection_advance(self->connection, &failure)) {
	case CLIENT_CONNECTION_NOTHING:
		if (now_us < deadline_us(self))
			break;
		g_set_error(&failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
			    "no %s within %u ms",
			    self->connection->state == CLIENT_CONNECTION_CALLING ? "answer"
										 : "connection",
			    limit_ms(self));
		event = POOL_SERVER_FAILED;
		break;
	case CLIENT_CONNECTION_READY:
		self->since_us = now_us;
		break;
	case CLIENT_CONNECTION_REPLIED:
		self->since_us = now_us;
		event = handle_reply(self, now_us, data, &failure);
		break;
	case CLIENT_CONNECTION_FAILED:
		event = POOL_SERVER_FAILED;
		break;
	}
	if (failure != NULL)
		g_propagate_prefixed_error(error, g_steal_pointer(&failure),
					   "%s: ", self->endpoint->text);
	return event;
}
