/* SPDX-License-Identifier: Apache-2.0 */
#include "server/relay-source.h"

#include <pthread.h>

#include "client/pool/buffer.h"
#include "client/pool/clock.h"
#include "common/log.h"
#include "server/relay-batch.h"
#include "sf_snowflake_types.h"

#define KIND "relay"

/* How old the list of the servers may be. */
#define WORKERS_MAX_AGE_MS 1000

/* While no server can be reached: when to ask again. */
#define RETRY_AFTER_MS 500

/* Rate limit for relay-no-server: so many different reasons, then the current reason again after
 * this time. */
#define MAX_REASONS     16
#define REASON_AGAIN_US (60 * G_TIME_SPAN_SECOND)

/* What the clock of an ID's server may be off, and an ID be old. More than this is another layout.
 */
#define LAYOUT_DIFFERS_MS (2 * 60 * 60 * G_GINT64_CONSTANT(1000))

struct _RelaySource {
	Source source;
	SystemClock clock; /* set under seen_mutex */
	PoolUpstream *pool;
	gint64 max_age_us;
	gint64 max_wait_us;
	gint64 max_skew_ms;
	guint max_batch; /* as the options have it */
	GPtrArray *seats;
	_Atomic gint64 last_id; /* given; 0: none yet */
	_Atomic gboolean is_started;
	_Atomic gboolean layout_differs;
	RelayListener listener;
	pthread_mutex_t seen_mutex;
	/* under it */
	PoolView seen;       /* the last view */
	GHashTable *reasons; /* set of char *: reasons that relay-no-server has logged */
	gint64 reason_us;    /* time of the last one */
};

struct _SourceSeat {
	PoolBatchRequest *order;
	guint ordered; /* IDs that the order is for; 0: it is for nobody any more */
};

static RelaySource *relay_of(Source *source)
{
	return (RelaySource *)source;
}

/* Drawing */

static void note_last(RelaySource *self, const IdRun *run)
{
	atomic_store_explicit(&self->last_id, id_run_get(run, run->count - 1),
			      memory_order_relaxed);
}

static gboolean draw_singles(RelaySource *self, guint most, IdRun *out_run)
{
	gint64 first;
	guint count;

	if (!pool_upstream_take(self->pool, most, &first, &count))
		return FALSE;
	*out_run = relay_batch_of_numbers(first, count);
	return TRUE;
}

static void set_max_batch(RelaySource *self, guint max_batch)
{
	atomic_store_explicit(&self->source.max_batch, max_batch, memory_order_relaxed);
}

static void tell_layout_differs(RelaySource *self, gint64 id)
{
	g_autofree char *layout = layout_to_string(self->source.layout);

	if (!atomic_exchange(&self->layout_differs, TRUE))
		log_event(LOG_RELAY_LAYOUT_DIFFERS, log_number("id", id),
			  log_text("layout", layout),
			  log_text("remedy", "give the relay the --layout of its servers, or "
					     "set the clocks right"));
}

/* What cannot be handed on as one batch is lost. */
static gboolean take_runs(RelaySource *self, const GArray *runs, IdRun *out_run)
{
	if (relay_batch_of_runs(self->source.layout, runs, out_run))
		return TRUE;
	tell_layout_differs(self, g_array_index(runs, SnowflakeClientIdRun, 0).first);
	set_max_batch(self, 1);
	return FALSE;
}

/* What was ordered is handed out once, to whoever asks for as many soon after it came: whoever has
 * placed it is the first to ask. */
static gboolean draw_batch(RelaySource *self, SourceSeat *seat, guint count, IdRun *out_run)
{
	PoolBatchRequestState state = pool_batch_request_state(seat->order);
	gboolean is_ours = seat->ordered == count;

	if (state == POOL_BATCH_REQUEST_PLACED)
		return FALSE;
	seat->ordered = 0;
	if (state == POOL_BATCH_REQUEST_REFUSED && is_ours) {
		set_max_batch(self, pool_batch_request_max_count(seat->order));
		return FALSE;
	}
	if (state == POOL_BATCH_REQUEST_FILLED && is_ours &&
	    pool_clock_us() - pool_batch_request_filled_at_us(seat->order) <= self->max_age_us)
		return take_runs(self, pool_batch_request_runs(seat->order), out_run);
	pool_batch_request_place(seat->order, count);
	seat->ordered = count;
	return FALSE;
}

static DrawStatus draw(Source *source, SourceSeat *seat, guint least, guint count, IdRun *out_run,
		       DrawRefusal *out_refusal)
{
	RelaySource *self = relay_of(source);
	gboolean is_drawn = least == 1 ? draw_singles(self, count, out_run)
				       : draw_batch(self, seat, count, out_run);

	if (is_drawn) {
		note_last(self, out_run);
		return DRAW_OK;
	}
	*out_refusal = (DrawRefusal){0};
	return DRAW_UNRESERVED;
}

/* It is worth waiting, as a server may be another in a moment, unless they have been away for as
 * long as a call may wait. */
static gint64 demand(Source *source)
{
	RelaySource *self = relay_of(source);
	g_auto(PoolView) view = {0};

	pool_upstream_get_view(self->pool, &view);
	if (view.is_served || g_get_monotonic_time() - view.since_us < self->max_wait_us)
		return 0;
	return RETRY_AFTER_MS;
}

static char *why_none(Source *source)
{
	g_auto(PoolView) view = {0};

	pool_upstream_get_view(relay_of(source)->pool, &view);
	if (view.failure != NULL)
		return g_strdup_printf("no IDs in hand: %s", view.failure);
	return g_strdup_printf("no IDs in hand, and none of %s in time", view.server);
}

static char *waiting_why(Source *source)
{
	g_auto(PoolView) view = {0};

	pool_upstream_get_view(relay_of(source)->pool, &view);
	return g_steal_pointer(&view.failure);
}

static SourceSeat *add_seat(Source *source)
{
	RelaySource *self = relay_of(source);
	SourceSeat *seat = g_new0(SourceSeat, 1);

	seat->order = pool_batch_request_new(self->pool);
	g_ptr_array_add(self->seats, seat);
	return seat;
}

/* Who it is */

static gboolean find_worker(Source *source, SourceWorker *out_worker)
{
	RelaySource *self = relay_of(source);
	gint64 last_id = atomic_load_explicit(&self->last_id, memory_order_relaxed);
	g_auto(PoolView) view = {0};

	if (last_id != 0) {
		LayoutParts parts = layout_decode(source->layout, last_id);

		*out_worker = (SourceWorker){(gint)parts.datacenter_id, (gint)parts.worker_id};
		return TRUE;
	}
	pool_upstream_get_view(self->pool, &view);
	if (view.worker_id < 0)
		return FALSE;
	*out_worker = (SourceWorker){view.datacenter_id, view.worker_id};
	return TRUE;
}

static void get_status(Source *source, KeeperStatus *out_status)
{
	RelaySource *self = relay_of(source);
	SourceWorker worker = {0, -1};
	g_auto(PoolView) view = {0};

	pool_upstream_get_view(self->pool, &view);
	find_worker(source, &worker);
	*out_status = (KeeperStatus){
		.state = view.is_served         ? KEEPER_SERVING
			 : *view.server == '\0' ? KEEPER_STARTING
						: KEEPER_UNAVAILABLE,
		.datacenter_id = worker.datacenter_id,
		.worker_id = worker.worker_id,
	};
}

static char *find_server(Source *source)
{
	g_auto(PoolView) view = {0};

	pool_upstream_get_view(relay_of(source)->pool, &view);
	return *view.server != '\0' ? g_steal_pointer(&view.server) : NULL;
}

/* The servers */

static SfWorker *describe(const SnowflakeClientWorker *worker)
{
	SfWorker *other =
		g_object_new(SF_TYPE_WORKER, "datacenter_id", worker->datacenter_id, "worker_id",
			     worker->worker_id, "address", worker->address, "nonce", worker->nonce,
			     "claimed_at_ms", worker->claimed_at_ms, "reserved_until_ms",
			     worker->reserved_until_ms, "state", worker->state, "as_of_ms",
			     worker->as_of_ms, "kind", worker->kind, NULL);

	if (*worker->program != '\0')
		g_object_set(other, "program", worker->program, NULL);
	if (*worker->server != '\0')
		g_object_set(other, "server", worker->server, NULL);
	return other;
}

/* One that is too old has another asked for, and will do if nobody waits, or none comes. */
static GPtrArray *find_workers(RelaySource *self, gboolean may_wait, gboolean *out_has_failed)
{
	gboolean none_at_all = FALSE;
	GPtrArray *workers = NULL;
	gint64 asked_us;

	if (!pool_upstream_get_workers(self->pool, WORKERS_MAX_AGE_MS, &workers, &asked_us,
				       out_has_failed) &&
	    (*out_has_failed || !may_wait))
		pool_upstream_get_workers(self->pool, G_MAXINT32, &workers, &asked_us,
					  &none_at_all);
	return workers;
}

static gboolean append_workers(Source *source, const char *own_nonce, gboolean may_wait,
			       GPtrArray *out_workers, GError **error)
{
	gboolean has_failed = FALSE;
	g_autoptr(GPtrArray) workers = find_workers(relay_of(source), may_wait, &has_failed);

	if (workers == NULL && (has_failed || !may_wait))
		g_set_error_literal(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
				    has_failed ? "no server has a list of them"
					       : "no server has said yet who there is");
	for (guint i = 0; workers != NULL && i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];

		if (g_strcmp0(worker->nonce, own_nonce) != 0)
			g_ptr_array_add(out_workers, describe(worker));
	}
	return workers != NULL;
}

/* What is new */

/* As little as it takes to agree with the server, of whose time that of the answer and its
 * milliseconds are not known; and none, if it is far from this machine's: of two clocks one is
 * wrong then. */
static void correct_clock(RelaySource *self, const PoolView *view)
{
	gint64 own_ms = g_get_real_time() / 1000;
	gint64 offset_ns = system_clock_measure_offset_ns();
	gint64 least_ns, most_ns;

	if (view->as_of_ms >= own_ms - self->max_skew_ms &&
	    view->as_of_ms <= own_ms + self->max_skew_ms) {
		least_ns = view->as_of_ms * CLOCK_NS_PER_MS -
			   (view->asked_at_us + view->round_trip_us) * 1000;
		most_ns = (view->as_of_ms + 1) * CLOCK_NS_PER_MS - view->asked_at_us * 1000;
		offset_ns = CLAMP(system_clock_offset_ns(&self->clock), least_ns, most_ns);
	}
	system_clock_set_offset_ns(&self->clock, offset_ns);
}

static gboolean is_another(const PoolView *one, const PoolView *other)
{
	return one->is_served != other->is_served || g_strcmp0(one->server, other->server) != 0;
}

static void log_view(const RelaySource *self, const PoolView *view)
{
	gboolean was_away = self->seen.server != NULL && *self->seen.server != '\0';

	if (view->is_served && !self->seen.is_served)
		log_event(LOG_RELAY_SERVER, log_text("server", view->server),
			  log_number("datacenter_id", view->datacenter_id),
			  log_number("worker_id", view->worker_id),
			  log_number("away_ms",
				     was_away ? (view->since_us - self->seen.since_us) / 1000 : 0));
	else if (!view->is_served && self->seen.is_served)
		log_event(LOG_RELAY_CUT_OFF, log_text("server", view->server),
			  log_text("error", view->failure));
}

/* Logs each new reason, up to MAX_REASONS, and the current reason once a minute. A reason is new
 * again if the relay is served a minute or more after the last one, so that a server that comes and
 * goes does not fill the log. */
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
	/* relay-cut-off has the first reason */
	if (!self->seen.is_served)
		log_event(LOG_RELAY_NO_SERVER, log_text("error", view->failure));
}

static void log_excluded(const RelaySource *self, const PoolView *view)
{
	if (view->n_excluded > self->seen.n_excluded)
		log_event(LOG_RELAY_SERVER_EXCLUDED, log_text("server", view->excluded_server),
			  log_text("nonce", view->excluded_nonce),
			  log_text("first_sender", view->first_sender),
			  log_text("error", view->proof),
			  log_number("servers", (gint64)view->n_excluded),
			  log_text("remedy", "stop that server, then run snowflakectl audit "
					     "--duplicates"));
}

/* Whoever is another one may allow other batches. Returns: whether it is */
static gboolean take_view(RelaySource *self)
{
	PoolView view = {0};
	gboolean changed;

	pthread_mutex_lock(&self->seen_mutex);
	pool_upstream_get_view(self->pool, &view);
	correct_clock(self, &view);
	log_excluded(self, &view);
	changed = is_another(&view, &self->seen);
	if (changed) {
		log_view(self, &view);
		set_max_batch(self, self->max_batch);
	}
	log_reason(self, &view);
	pool_view_clear(&self->seen);
	self->seen = view;
	pthread_mutex_unlock(&self->seen_mutex);
	return changed;
}

/* A time that is far off: the IDs divide in another way. They are unique all the same; what is said
 * of them is wrong. */
static void check_layout(RelaySource *self)
{
	gint64 last_id = atomic_load_explicit(&self->last_id, memory_order_relaxed);
	gint64 time_ms = layout_decode(self->source.layout, last_id).time_ms;
	gint64 now_ms = clock_now_ms(&self->clock.clock);

	if (last_id != 0 && ABS(time_ms - now_ms) > self->max_age_us / 1000 + LAYOUT_DIFFERS_MS)
		tell_layout_differs(self, last_id);
}

static void look(RelaySource *self)
{
	if (take_view(self))
		self->listener.changed(self->listener.user_data);
	check_layout(self);
	self->listener.came(self->listener.user_data);
}

/* In the pool's thread, which may be there before self->pool is. */
static void on_changed(gpointer user_data)
{
	RelaySource *self = user_data;

	if (atomic_load(&self->is_started))
		look(self);
}

/* Start and end */

static void start(Source *source)
{
	RelaySource *self = relay_of(source);

	atomic_store(&self->is_started, TRUE);
	look(self);
}

/* Nothing is handed back. The pool's thread goes on until it is freed. */
static gboolean stop(Source *source, gint64 timeout_ms G_GNUC_UNUSED)
{
	atomic_store(&relay_of(source)->is_started, FALSE);
	return TRUE;
}

static GError *error_of_none(Source *source G_GNUC_UNUSED)
{
	return NULL;
}

/* The pool's thread waits for nothing but its sockets. */
static gint64 idle_ms(Source *source G_GNUC_UNUSED)
{
	return 0;
}

static gboolean make_pool(RelaySource *self, const Options *options, const char *nonce,
			  GError **error)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT(options->relay_agent);
	const TlsNames tls = options_tls_names(options);
	g_autoptr(GPtrArray) servers = g_ptr_array_new();

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
	if (self->pool == NULL)
		g_prefix_error(error, "--relay: ");
	return self->pool != NULL;
}

RelaySource *relay_source_new(const Options *options, const char *nonce,
			      const RelayListener *listener, GError **error)
{
	static const SourceOps OPS = {
		.kind = KIND,
		.add_seat = add_seat,
		.draw = draw,
		.demand = demand,
		.why_none = why_none,
		.waiting_why = waiting_why,
		.find_worker = find_worker,
		.get_status = get_status,
		.find_server = find_server,
		.append_workers = append_workers,
		.start = start,
		.stop = stop,
		.error = error_of_none,
		.idle_ms = idle_ms,
	};
	g_autoptr(RelaySource) self = g_new0(RelaySource, 1);

	system_clock_init(&self->clock);
	pthread_mutex_init(&self->seen_mutex, NULL);
	self->max_batch = (guint)options->max_batch;
	self->max_age_us = options->relay_max_age_ms * 1000;
	self->max_wait_us = options->max_wait_ms * 1000;
	self->max_skew_ms = options->max_clock_skew_ms;
	self->seats = g_ptr_array_new_with_free_func(g_free);
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
	return make_pool(self, options, nonce, error) ? g_steal_pointer(&self) : NULL;
}

void relay_source_free(RelaySource *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->pool, pool_upstream_free);
	g_ptr_array_unref(self->seats);
	pool_view_clear(&self->seen);
	g_hash_table_unref(self->reasons);
	pthread_mutex_destroy(&self->seen_mutex);
	g_free(self);
}

Source *relay_source_get(RelaySource *self)
{
	return &self->source;
}

void relay_source_get_view(RelaySource *self, PoolView *out_view)
{
	pool_upstream_get_view(self->pool, out_view);
}

void relay_source_get_statistics(RelaySource *self, SnowflakePoolStatistics *out_statistics)
{
	pool_upstream_get_statistics(self->pool, out_statistics);
}
