/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/peer.h"

#include <string.h>

#include "client/pool/clock.h"

#define CONNECT_LIMIT_MS 1000
#define REPLY_LIMIT_MS   3000  /* servers let calls wait for a second, unless set otherwise */
#define HANG_US          20000 /* without an answer, before another is the first */
#define ROUND_TRIPS      4     /* at least as long as so many */
#define LEAST_REFUSAL_MS 20
#define MOST_REFUSAL_MS  2000

void pool_news_init(PoolNews *self)
{
	*self = (PoolNews){
		.runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun)),
		.ids = g_new(gint64, CLIENT_CALL_MAX_COUNT),
	};
}

void pool_news_clear(PoolNews *self)
{
	g_array_unref(self->runs);
	g_free(self->ids);
	g_clear_pointer(&self->workers, g_ptr_array_unref);
}

/* From now on it is asked for IDs by the call that has this result. */
static void set_draws(PoolPeer *self, ClientResult draws)
{
	guint limit = draws == CLIENT_RESULT_RUNS ? CLIENT_CALL_MAX_RUN_IDS : CLIENT_CALL_MAX_COUNT;

	self->draws = draws;
	self->max_count = draws == CLIENT_RESULT_ID ? 1 : limit;
	self->too_many = self->max_count + 1;
}

PoolPeer *pool_peer_new(PoolServer *server, TlsClient *tls, gint64 now_us, GError **error)
{
	PoolLink *link = pool_link_new(&server->address, tls, now_us, error);

	if (link == NULL)
		return NULL;

	PoolPeer *self = g_new0(PoolPeer, 1);

	self->server = server;
	self->link = link;
	self->useless_us = now_us;
	set_draws(self, CLIENT_RESULT_RUNS);
	return self;
}

void pool_peer_free(PoolPeer *self)
{
	if (self == NULL)
		return;
	pool_link_free(self->link);
	g_clear_pointer(&self->worker, snowflake_client_worker_free);
	g_free(self);
}

gboolean pool_peer_is_idle(const PoolPeer *self)
{
	return self->link->state == POOL_LINK_IDLE;
}

static gboolean is_draw(ClientResult result)
{
	return result == CLIENT_RESULT_RUNS || result == CLIENT_RESULT_IDS ||
	       result == CLIENT_RESULT_ID;
}

guint pool_peer_drawing(const PoolPeer *self)
{
	const ClientCall *call = &self->link->call;

	if (self->link->state != POOL_LINK_ASKING || !is_draw(call->result))
		return 0;
	return MAX(call->count, 1);
}

gboolean pool_peer_is_listing(const PoolPeer *self)
{
	return self->link->state == POOL_LINK_ASKING &&
	       self->link->call.result == CLIENT_RESULT_WORKERS;
}

void pool_peer_probe(PoolPeer *self, gint64 now_us)
{
	const ClientCall call = {.method = "get_worker", .result = CLIENT_RESULT_WORKER};

	self->probed_us = now_us;
	pool_link_ask(self->link, &call, now_us);
}

void pool_peer_list(PoolPeer *self, gint64 now_us)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};

	pool_link_ask(self->link, &call, now_us);
}

void pool_peer_draw(PoolPeer *self, const char *agent, guint count, PoolOrder *order, gint64 now_us)
{
	ClientCall call = {.method = "get_id", .result = self->draws, .agent = agent};

	if (self->draws != CLIENT_RESULT_ID) {
		call.method = self->draws == CLIENT_RESULT_RUNS ? "get_id_runs" : "get_ids";
		call.count = count;
	}
	self->order = order;
	pool_link_ask(self->link, &call, now_us);
}

void pool_peer_forget_order(PoolPeer *self)
{
	self->order = NULL;
}

gint64 pool_peer_gives_way_us(const PoolPeer *self)
{
	gint64 since_us = POOL_NEVER_US;

	if (self->fitness == POOL_PEER_UNKNOWN)
		since_us = self->link->since_us;
	else if (pool_peer_is_idle(self))
		since_us = self->useless_us;
	return since_us != POOL_NEVER_US
		       ? since_us + POOL_PEER_GIVE_WAY_MS * G_TIME_SPAN_MILLISECOND
		       : POOL_NEVER_US;
}

gint64 pool_peer_patience_us(const PoolPeer *self, gint64 least_us)
{
	return MAX(least_us, ROUND_TRIPS * self->round_trip_us);
}

gboolean pool_peer_seems_to_hang(const PoolPeer *self, gint64 now_us)
{
	return !pool_peer_is_idle(self) &&
	       now_us - self->link->since_us > pool_peer_patience_us(self, HANG_US);
}

static gboolean is_last_choice(const PoolPeer *self)
{
	return self->fitness == POOL_PEER_DRAINING || self->fitness == POOL_PEER_WAITING;
}

gint pool_peer_rank(const PoolPeer *self, gint64 now_us)
{
	if (self->fitness == POOL_PEER_UNKNOWN || self->fitness == POOL_PEER_UNFIT ||
	    now_us < self->refused_until_us)
		return POOL_PEER_USELESS;
	return is_last_choice(self) + 2 * pool_peer_seems_to_hang(self, now_us);
}

static guint limit_ms(const PoolPeer *self)
{
	return self->link->state == POOL_LINK_CONNECTING ? CONNECT_LIMIT_MS : REPLY_LIMIT_MS;
}

gint64 pool_peer_deadline_us(const PoolPeer *self)
{
	if (pool_peer_is_idle(self))
		return POOL_NEVER_US;
	return self->link->since_us + limit_ms(self) * G_TIME_SPAN_MILLISECOND;
}

gint64 pool_peer_next_us(const PoolPeer *self, gint64 now_us)
{
	gint64 hangs_us = self->link->since_us + pool_peer_patience_us(self, HANG_US) + 1;
	gint64 next_us = pool_peer_deadline_us(self);

	if (!pool_peer_is_idle(self) && hangs_us > now_us)
		next_us = MIN(next_us, hangs_us);
	if (self->refused_until_us > now_us)
		next_us = MIN(next_us, self->refused_until_us);
	return next_us;
}

static PoolPeerFitness fitness_of(const SnowflakeClientWorker *worker)
{
	const char *state = worker->state;

	if (g_str_equal(state, "draining"))
		return POOL_PEER_DRAINING;
	/* It is asked nevertheless: its refusal is the error that the taker must see, and it serves
	 * when its clock has caught up. */
	if (g_str_equal(state, "waiting") && worker->worker_id >= 0)
		return POOL_PEER_WAITING;
	/* one that claims anew serves what it has left */
	return g_str_equal(state, "serving") || g_str_equal(state, "reclaiming") ? POOL_PEER_SERVES
										 : POOL_PEER_UNFIT;
}

/* Returns: how long the answer took */
static gint64 take_round_trip(PoolPeer *self, gint64 now_us)
{
	gint64 round_trip_us = MAX(now_us - self->probed_us, 1);

	self->answered_us = now_us;
	if (self->fitness == POOL_PEER_UNKNOWN)
		self->useless_us = POOL_NEVER_US;
	/* the least one tells how far it is, the others how busy something was */
	if (self->round_trip_us == 0 || round_trip_us < self->round_trip_us)
		self->round_trip_us = round_trip_us;
	return round_trip_us;
}

/* @worker: (nullable): %NULL: it lacks get_worker() */
static void identify_server(PoolPeer *self, const SnowflakeClientWorker *worker)
{
	pool_server_identify(self->server, worker, self->fitness == POOL_PEER_UNKNOWN);
}

static PoolPeerEvent take_worker(PoolPeer *self, gint64 now_us, ClientReply *reply)
{
	self->worker_asked_us = self->probed_us;
	self->worker_round_trip_us = take_round_trip(self, now_us);
	identify_server(self, reply->worker);
	self->fitness = fitness_of(reply->worker);
	g_clear_pointer(&self->worker, snowflake_client_worker_free);
	self->worker = g_steal_pointer(&reply->worker);
	return POOL_PEER_PROBED;
}

static void add_id(GArray *runs, gint64 id)
{
	SnowflakeClientIdRun *last =
		runs->len > 0 ? &g_array_index(runs, SnowflakeClientIdRun, runs->len - 1) : NULL;
	const SnowflakeClientIdRun run = {.first = id, .count = 1};

	if (last != NULL && last->first + last->count == id)
		last->count++;
	else
		g_array_append_val(runs, run);
}

static void make_runs(const ClientCall *call, const ClientReply *reply, PoolNews *news)
{
	if (call->result == CLIENT_RESULT_RUNS)
		return;
	g_array_set_size(news->runs, 0);
	if (call->result == CLIENT_RESULT_ID)
		add_id(news->runs, reply->number);
	for (guint i = 0; i < call->count; i++)
		add_id(news->runs, reply->ids[i]);
}

static PoolPeerEvent take_answer(PoolPeer *self, gint64 now_us, ClientReply *reply, PoolNews *news)
{
	ClientResult result = self->link->call.result;

	if (result == CLIENT_RESULT_WORKER)
		return take_worker(self, now_us, reply);
	if (result == CLIENT_RESULT_WORKERS) {
		news->workers = g_steal_pointer(&reply->workers);
		return POOL_PEER_LISTED;
	}
	make_runs(&self->link->call, reply, news);
	self->useless_us = POOL_NEVER_US;
	return POOL_PEER_DRAWN;
}

static PoolPeerEvent refuse(PoolPeer *self, gint64 now_us, const ClientReply *reply,
			    GError *refusal, GError **error)
{
	gint64 rest_ms = CLAMP(reply->retry_after_ms, LEAST_REFUSAL_MS, MOST_REFUSAL_MS);

	self->refused_until_us = now_us + rest_ms * G_TIME_SPAN_MILLISECOND;
	self->useless_us = MIN(self->useless_us, now_us);
	g_propagate_error(error, refusal);
	return POOL_PEER_REFUSED;
}

/* The server lacks the call, or allows fewer at once: another one may do. */
static gboolean step_down(PoolPeer *self, const ClientReply *reply, const GError *refusal)
{
	if (reply->count_refused && self->link->call.count > 1) {
		self->too_many =
			reply->count_limit > 0 ? reply->count_limit + 1 : self->link->call.count;
		self->max_count = MIN(self->max_count, reply->count_limit > 0 ? reply->count_limit
									      : self->too_many / 2);
		return TRUE;
	}
	if (refusal->code != SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED || self->draws == CLIENT_RESULT_ID)
		return FALSE;
	set_draws(self, self->draws == CLIENT_RESULT_RUNS ? CLIENT_RESULT_IDS : CLIENT_RESULT_ID);
	return TRUE;
}

static PoolPeerEvent take_refusal(PoolPeer *self, gint64 now_us, const ClientReply *reply,
				  GError *refusal, GError **error)
{
	g_autoptr(GError) owned = refusal;
	ClientResult result = self->link->call.result;

	if (result == CLIENT_RESULT_WORKERS)
		return POOL_PEER_LISTED;
	if (result == CLIENT_RESULT_WORKER) {
		take_round_trip(self, now_us);
		identify_server(self, NULL);
		self->fitness = POOL_PEER_SERVES; /* it is of 2010 */
		return POOL_PEER_PROBED;
	}
	if (step_down(self, reply, refusal))
		return POOL_PEER_NOTHING;
	return refuse(self, now_us, reply, g_steal_pointer(&owned), error);
}

static PoolPeerEvent fail_if_late(PoolPeer *self, gint64 now_us, GError **error)
{
	if (now_us < pool_peer_deadline_us(self))
		return POOL_PEER_NOTHING;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
		    "no %s within %u ms",
		    self->link->state == POOL_LINK_CONNECTING ? "connection" : "answer",
		    limit_ms(self));
	return POOL_PEER_FAILED;
}

PoolPeerEvent pool_peer_advance(PoolPeer *self, gint64 now_us, PoolNews *news, GError **error)
{
	g_autoptr(GError) failure = NULL;
	ClientReply reply = {
		.runs = news->runs, .ids = news->ids, .max_workers = POOL_PEER_MAX_LISTED};
	PoolPeerEvent event = POOL_PEER_FAILED;

	news->asked_us = self->link->since_us;
	g_clear_pointer(&news->workers, g_ptr_array_unref);
	switch (pool_link_advance(self->link, now_us, &reply, &failure)) {
	case POOL_LINK_NOTHING:
		event = fail_if_late(self, now_us, &failure);
		break;
	case POOL_LINK_READY:
		event = POOL_PEER_NOTHING;
		break;
	case POOL_LINK_ANSWERED:
		event = take_answer(self, now_us, &reply, news);
		break;
	case POOL_LINK_REFUSED:
		event = take_refusal(self, now_us, &reply, g_steal_pointer(&failure), &failure);
		break;
	case POOL_LINK_FAILED:
		break;
	}
	g_clear_pointer(&reply.worker, snowflake_client_worker_free);
	g_clear_pointer(&reply.workers, g_ptr_array_unref);
	if (failure != NULL)
		g_propagate_prefixed_error(error, g_steal_pointer(&failure),
					   "%s: ", self->server->text);
	return event;
}
