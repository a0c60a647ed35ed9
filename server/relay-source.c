/* SPDX-License-Identifier: Apache-2.0 */
#include "server/relay-source.h"

#include <pthread.h>

#include "client/pool/buffer.h"
#include "client/snowflake-client.h"
#include "common/log.h"
#include "common/worker-kind.h"
#include "core/clock.h"
#include "core/layout.h"

/* The age of the list of servers at which a new one is requested. */
#define WORKERS_MAX_AGE_MS 1000

/* The retry_after_ms of refusals while no server can be reached. */
#define RETRY_AFTER_MS 500

/* Rate limit for relay-no-server: the number of different reasons, and the time after which the
 * current reason is logged again. */
#define MAX_REASONS     16
#define REASON_AGAIN_US (60 * G_TIME_SPAN_SECOND)

/* The maximum difference between the time in an ID and the clock that can be due to the ID's age
 * and to its server's clock. If the difference is larger, the server uses a different layout. */
#define LAYOUT_DIFFERS_MS (2 * 60 * 60 * G_GINT64_CONSTANT(1000))

struct _RelaySource {
	Source source;
	SystemClock clock; /* written under seen_mutex */
	PoolUpstream *pool;
	gint64 max_age_us;
	gint64 max_wait_us;
	gint64 max_skew_ms;
	guint max_batch; /* maximum batch, from the options */
	GPtrArray *slots;
	_Atomic gint64 last_id; /* the last ID issued; 0 if none yet */
	_Atomic gboolean is_started;
	_Atomic gboolean layout_differs;
	RelayListener listener;
	pthread_mutex_t seen_mutex;
	/* members below: protected by seen_mutex */
	PoolView seen;       /* the pool's last view */
	GHashTable *reasons; /* set of char *: reasons that relay-no-server has logged */
	gint64 reason_us;    /* time of the last such reason */
};

struct _BatchSlot {
	PoolBatchRequest *order;
	guint ordered; /* number of IDs requested; 0 if no call is waiting for this batch */
};

/* Runs */

/* Returns a run of @count consecutive numbers that needs no layout: all bits belong to the
 * sequence, so cursors are IDs. */
static IdRun run_of_numbers(gint64 first, guint count)
{
	return (IdRun){
		.first_cursor = (guint64)first,
		.count = count,
		.sequence_bits = LAYOUT_MAX_BITS,
		.time_shift = LAYOUT_MAX_BITS,
	};
}

gboolean relay_source_join_runs(const Layout *layout, const GArray *runs, IdRun *out_run)
{
	const SnowflakeClientIdRun *parts = (const SnowflakeClientIdRun *)runs->data;
	LayoutParts first = layout_decode(layout, parts[0].first);
	gint64 tick = parts[0].first >> layout_low_bits(layout);
	IdRun run =
		id_run_at(layout, layout_fixed_bits(layout, first.datacenter_id, first.worker_id),
			  cursor_first(layout, tick) | first.sequence, 0);

	if (runs->len == 1) {
		*out_run = run_of_numbers(parts[0].first, parts[0].count);
		return TRUE;
	}
	/* The IDs of a run increase. So if a part's first and last IDs are in a run, as far
	 * apart as in the part, the whole part is in the run. */
	for (guint i = 0; i < runs->len; i++) {
		guint count = parts[i].count;

		if (id_run_get(&run, run.count) != parts[i].first ||
		    id_run_get(&run, run.count + count - 1) != parts[i].first + count - 1)
			return FALSE;
		run.count += count;
	}
	*out_run = run;
	return TRUE;
}

static RelaySource *relay_of(Source *source)
{
	return (RelaySource *)source;
}

/* Drawing */

static void set_max_batch(RelaySource *self, guint max_batch)
{
	atomic_store_explicit(&self->source.max_batch, max_batch, memory_order_relaxed);
}

static void report_layout_differs(RelaySource *self, gint64 id)
{
	g_autofree char *layout = layout_to_string(self->source.layout);

	if (!atomic_exchange(&self->layout_differs, TRUE))
		log_event(LOG_RELAY_LAYOUT_DIFFERS, log_number("id", id),
			  log_text("layout", layout),
			  log_text("remedy", "set the relay's --layout to its servers' layout, or "
					     "correct the clocks"));
}

/* Takes the batch if it has arrived, has @count IDs and is not too old; otherwise, requests a new
 * one, unless a request is in progress. Any call can take the batch; the call that caused the batch
 * request is tried first. Runs that cannot be joined into one are discarded. */
static gboolean draw_batch(RelaySource *self, BatchSlot *slot, guint count, IdRun *out_run)
{
	PoolBatchRequestState state = pool_batch_request_state(slot->order);
	gboolean is_ours = slot->ordered == count;
	const GArray *runs;

	if (state == POOL_BATCH_REQUEST_PLACED)
		return FALSE;
	slot->ordered = 0;
	if (state == POOL_BATCH_REQUEST_REFUSED && is_ours) {
		set_max_batch(self, slot->order->max_count);
		return FALSE;
	}
	if (state != POOL_BATCH_REQUEST_FILLED || !is_ours ||
	    clock_boottime_ns() / 1000 - slot->order->filled_at_us > self->max_age_us) {
		pool_batch_request_place(slot->order, count);
		slot->ordered = count;
		return FALSE;
	}
	runs = slot->order->runs;
	if (relay_source_join_runs(self->source.layout, runs, out_run))
		return TRUE;
	report_layout_differs(self, g_array_index(runs, SnowflakeClientIdRun, 0).first);
	set_max_batch(self, 1);
	return FALSE;
}

static DrawStatus relay_draw(Source *source, BatchSlot *slot, guint least, guint count,
			     IdRun *out_run, DrawRefusal *out_refusal)
{
	RelaySource *self = relay_of(source);
	gboolean is_drawn;
	gint64 first;
	guint n;

	if (least == 1) {
		is_drawn = pool_upstream_take(self->pool, count, &first, &n);
		if (is_drawn)
			*out_run = run_of_numbers(first, n);
	} else {
		is_drawn = draw_batch(self, slot, count, out_run);
	}
	if (is_drawn) {
		atomic_store_explicit(&self->last_id, id_run_get(out_run, out_run->count - 1),
				      memory_order_relaxed);
		return DRAW_OK;
	}
	*out_refusal = (DrawRefusal){0};
	return DRAW_UNRESERVED;
}

/* Returns whether a wait makes sense. The pool may fail over soon, unless it has had no server for
 * as long as a call may wait. */
static gint64 relay_demand(Source *source)
{
	RelaySource *self = relay_of(source);
	g_auto(PoolView) view = pool_upstream_get_view(self->pool);

	if (view.is_served || g_get_monotonic_time() - view.since_us < self->max_wait_us)
		return 0;
	return RETRY_AFTER_MS;
}

static char *relay_why_none(Source *source)
{
	g_auto(PoolView) view = pool_upstream_get_view(relay_of(source)->pool);

	if (view.failure != NULL)
		return g_strdup_printf("no prefetched IDs: %s", view.failure);
	return g_strdup_printf("no prefetched IDs, and none from %s in time", view.server);
}

static char *relay_waiting_why(Source *source)
{
	g_auto(PoolView) view = pool_upstream_get_view(relay_of(source)->pool);

	return g_steal_pointer(&view.failure);
}

static BatchSlot *relay_add_batch_slot(Source *source)
{
	RelaySource *self = relay_of(source);
	BatchSlot *slot = g_new0(BatchSlot, 1);

	slot->order = pool_batch_request_new(self->pool);
	g_ptr_array_add(self->slots, slot);
	return slot;
}

/* The server */

static gboolean relay_find_worker(Source *source, SourceWorker *out_worker)
{
	RelaySource *self = relay_of(source);
	gint64 last_id = atomic_load_explicit(&self->last_id, memory_order_relaxed);
	g_auto(PoolView) view = {0};

	if (last_id != 0) {
		LayoutParts parts = layout_decode(source->layout, last_id);

		*out_worker = (SourceWorker){(gint)parts.datacenter_id, (gint)parts.worker_id};
		return TRUE;
	}
	view = pool_upstream_get_view(self->pool);
	if (view.worker_id < 0)
		return FALSE;
	*out_worker = (SourceWorker){view.datacenter_id, view.worker_id};
	return TRUE;
}

static void relay_get_status(Source *source, KeeperStatus *out_status)
{
	RelaySource *self = relay_of(source);
	SourceWorker worker = {0, -1};
	g_auto(PoolView) view = pool_upstream_get_view(self->pool);

	relay_find_worker(source, &worker);
	*out_status = (KeeperStatus){
		.state = view.is_served         ? KEEPER_SERVING
			 : *view.server == '\0' ? KEEPER_STARTING
						: KEEPER_UNAVAILABLE,
		.datacenter_id = worker.datacenter_id,
		.worker_id = worker.worker_id,
	};
}

static char *relay_find_server(Source *source)
{
	g_auto(PoolView) view = pool_upstream_get_view(relay_of(source)->pool);

	return *view.server != '\0' ? g_steal_pointer(&view.server) : NULL;
}

/* The servers */

/* Requests a new list if the last one is too old. Uses the old one if the call may not wait, or if
 * no new one arrives in time. */
static gboolean relay_get_workers(Source *source, gboolean may_wait, GPtrArray **out_workers,
				  GError **error)
{
	PoolUpstream *pool = relay_of(source)->pool;
	g_autoptr(GPtrArray) workers = NULL;
	gboolean has_failed = FALSE, none_at_all = FALSE;
	gint64 asked_us;

	if (!pool_upstream_get_workers(pool, WORKERS_MAX_AGE_MS, &workers, &asked_us,
				       &has_failed) &&
	    (has_failed || !may_wait))
		pool_upstream_get_workers(pool, G_MAXINT32, &workers, &asked_us, &none_at_all);
	if (workers == NULL && (has_failed || !may_wait))
		g_set_error_literal(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
				    has_failed ? "no server provides a list of servers"
					       : "no server has sent its list of servers yet");
	if (workers == NULL)
		return FALSE;
	*out_workers = g_ptr_array_new_full(workers->len + 1,
					    (GDestroyNotify)snowflake_client_worker_free);
	for (guint i = 0; i < workers->len; i++)
		g_ptr_array_add(*out_workers, snowflake_client_worker_copy(workers->pdata[i]));
	return TRUE;
}

/* Events of the pool, such as a failover */

/* Logs each new reason why there is no server, up to MAX_REASONS, and the current reason once a
 * minute. Reasons count as new again only after a minute without any reason, so a server that fails
 * repeatedly does not fill the log. */
static void log_reason(RelaySource *self, const PoolView *view)
{
	gint64 now_us = g_get_monotonic_time();
	gboolean is_new;

	if (view->is_served && now_us - self->reason_us >= REASON_AGAIN_US)
		g_hash_table_remove_all(self->reasons);
	if (view->is_served || view->failure == NULL ||
	    g_str_equal(view->failure, POOL_WAIT_NO_ANSWER))
		return;
	is_new = g_hash_table_size(self->reasons) < MAX_REASONS &&
		 g_hash_table_add(self->reasons, g_strdup(view->failure));
	if (!is_new && now_us - self->reason_us < REASON_AGAIN_US)
		return;
	self->reason_us = now_us;
	/* the first reason has already been reported by relay-disconnected */
	if (!self->seen.is_served)
		log_event(LOG_RELAY_NO_SERVER, log_text("error", view->failure));
}

/* Reads the pool's new view, and logs changes: the server has failed or drains, there is a server
 * again, or a server was excluded. Returns whether the server has changed, because a different
 * server may have a different maximum batch. */
static gboolean update_view(RelaySource *self)
{
	PoolView view;
	gint64 own_ms = g_get_real_time() / 1000;
	gint64 offset_ns, least_ns, most_ns;
	gboolean is_changed, was_away;

	pthread_mutex_lock(&self->seen_mutex);
	view = pool_upstream_get_view(self->pool);
	/* Correct the clock as little as necessary to agree with the server. The server's time is
	 * known only to the millisecond, and is up to a round trip old. If it differs too much from
	 * this machine's time, one of the clocks is wrong, and the clock is not corrected. */
	offset_ns = system_clock_measure_offset_ns();
	if (view.as_of_ms >= own_ms - self->max_skew_ms &&
	    view.as_of_ms <= own_ms + self->max_skew_ms) {
		least_ns = view.as_of_ms * CLOCK_NS_PER_MS -
			   (view.asked_at_us + view.round_trip_us) * 1000;
		most_ns = (view.as_of_ms + 1) * CLOCK_NS_PER_MS - view.asked_at_us * 1000;
		offset_ns = CLAMP(system_clock_offset_ns(&self->clock), least_ns, most_ns);
	}
	system_clock_set_offset_ns(&self->clock, offset_ns);
	if (view.n_excluded > self->seen.n_excluded)
		log_event(LOG_RELAY_SERVER_EXCLUDED, log_text("server", view.excluded_server),
			  log_text("nonce", view.excluded_nonce),
			  log_text("first_sender", view.first_sender),
			  log_text("error", view.proof),
			  log_number("servers", (gint64)view.n_excluded),
			  log_text("remedy", "stop that server, then run snowflakectl audit "
					     "--duplicates"));
	is_changed = view.is_served != self->seen.is_served ||
		     g_strcmp0(view.server, self->seen.server) != 0;
	was_away = self->seen.server != NULL && *self->seen.server != '\0';
	if (view.is_served && !self->seen.is_served)
		log_event(LOG_RELAY_SERVER, log_text("server", view.server),
			  log_number("datacenter_id", view.datacenter_id),
			  log_number("worker_id", view.worker_id),
			  log_number("away_ms",
				     was_away ? (view.since_us - self->seen.since_us) / 1000 : 0));
	else if (!view.is_served && self->seen.is_served)
		log_event(LOG_RELAY_DISCONNECTED, log_text("server", view.server),
			  log_text("error", view.failure));
	if (is_changed)
		set_max_batch(self, self->max_batch);
	log_reason(self, &view);
	pool_view_clear(&self->seen);
	self->seen = view;
	pthread_mutex_unlock(&self->seen_mutex);
	return is_changed;
}

static void handle_event(RelaySource *self)
{
	gint64 last_id = atomic_load_explicit(&self->last_id, memory_order_relaxed);
	gint64 time_ms = layout_decode(self->source.layout, last_id).time_ms;
	gint64 differs_ms;

	if (update_view(self))
		self->listener.changed(self->listener.user_data);
	/* Checks the time in an ID. If it is far from the clock, the servers use a different
	 * layout. The IDs are still unique, but decoding them gives wrong times and worker IDs. */
	differs_ms = ABS(time_ms - clock_now_ms(&self->clock.clock));
	if (last_id != 0 && differs_ms > self->max_age_us / 1000 + LAYOUT_DIFFERS_MS)
		report_layout_differs(self, last_id);
	self->listener.came(self->listener.user_data);
}

/* Called in the pool's thread, possibly before self->pool is set. */
static void on_changed(gpointer user_data)
{
	RelaySource *self = user_data;

	if (atomic_load(&self->is_started))
		handle_event(self);
}

/* Start and end */

static void relay_start(Source *source)
{
	RelaySource *self = relay_of(source);

	atomic_store(&self->is_started, TRUE);
	handle_event(self);
}

/* Does nothing: a relay has nothing to release. The pool's thread runs until the pool is freed. */
static gboolean relay_stop(Source *source, gint64 timeout_ms G_GNUC_UNUSED)
{
	atomic_store(&relay_of(source)->is_started, FALSE);
	return TRUE;
}

static const SourceOps OPS = {
	.kind = WORKER_KIND_RELAY,
	.add_batch_slot = relay_add_batch_slot,
	.draw = relay_draw,
	.demand = relay_demand,
	.why_none = relay_why_none,
	.waiting_why = relay_waiting_why,
	.find_worker = relay_find_worker,
	.get_status = relay_get_status,
	.find_server = relay_find_server,
	.get_workers = relay_get_workers,
	.start = relay_start,
	.stop = relay_stop,
};

RelaySource *relay_source_new(const Options *options, const char *nonce,
			      const RelayListener *listener, GError **error)
{
	g_autoptr(RelaySource) self = g_new0(RelaySource, 1);
	g_autoptr(GPtrArray) servers = g_ptr_array_new();
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT(options->relay_agent);
	const TlsNames tls = options_tls_names(options);

	system_clock_init(&self->clock);
	pthread_mutex_init(&self->seen_mutex, NULL);
	self->max_batch = (guint)options->max_batch;
	self->max_age_us = options->relay_max_age_ms * 1000;
	self->max_wait_us = options->max_wait_ms * 1000;
	self->max_skew_ms = options->max_clock_skew_ms;
	self->slots = g_ptr_array_new_with_free_func(g_free);
	self->reasons = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	self->listener = *listener;
	self->source = (Source){
		.ops = &OPS,
		.layout = &options->layout,
		.clock = &self->clock.clock,
		.max_batch = self->max_batch,
		.batches_apart = TRUE,
		.retry_after_ms = RETRY_AFTER_MS,
	};

	for (guint i = 0; i < options->relay->len; i++)
		g_ptr_array_add(servers, ((const Address *)options->relay->pdata[i])->text);
	g_ptr_array_add(servers, NULL);
	config.servers = (const char *const *)servers->pdata;
	config.tls =
		(SnowflakeClientTls){.ca = tls.ca, .certificate = tls.certificate, .key = tls.key};
	config.discover = options->relay_discover;
	config.prefetch_ms = (guint)options->relay_prefetch_ms;
	config.max_age_ms = (guint)options->relay_max_age_ms;
	self->pool = pool_upstream_new(&config, nonce, on_changed, self, error);
	if (self->pool != NULL)
		return g_steal_pointer(&self);
	g_prefix_error(error, "--relay: ");
	return NULL;
}

void relay_source_free(RelaySource *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->pool, pool_upstream_free);
	g_ptr_array_unref(self->slots);
	pool_view_clear(&self->seen);
	g_hash_table_unref(self->reasons);
	pthread_mutex_destroy(&self->seen_mutex);
	g_free(self);
}

Source *relay_source_get(RelaySource *self)
{
	return &self->source;
}

PoolUpstream *relay_source_pool(Source *source)
{
	return source->ops == &OPS ? relay_of(source)->pool : NULL;
}
