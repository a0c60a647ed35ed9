/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/refill.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "common/fork-guard.h"
#include "common/thread.h"
#include "core/clock.h"

/* number of observations of the take rate within prefetch_ms, while IDs are taken */
#define OBSERVATIONS        16
#define LEAST_OBSERVE_US    1000  /* minimum time between two observations */
#define NEEDED_OBSERVE_US   1000  /* time between two observations while more IDs are needed */
#define REQUEST_PATIENCE_US 20000 /* age of a batch request at which more servers are used */

/* time constant for a rising rate */
#define RISE_US      10000.0
#define FALL_US      250000.0
#define PUSH_FALL_US 50000.0
#define SHORT_US     500 /* an interval too short for measuring a rate */
#define IDLE_PER_US  1e-6

#define BATCHES_OF_AN_AGE 64

struct _PoolRefill {
	const PoolConfig *config;
	PoolBuffer *buffer;
	PoolWatch *watch; /* NULL if not a relay's pool */
	pthread_t thread;
	int fd; /* eventfd: pool_refill_wake() */
	_Atomic gboolean is_woken;
	_Atomic gboolean stops;
	_Atomic guint64 refills;
	_Atomic guint64 failovers;
	_Atomic guint64 excluded;
	/* used only by the thread, under fork_guard_lock() */
	PoolFleet fleet;
	PoolEventData data;
	PoolAges ages;
	PoolRate rate;
	PoolNeed need;
	guint64 wanted; /* target number of prefetched IDs */
	gboolean is_waited_for;
	/* while takers wait, alternate: refill the buffer before the next batch */
	gboolean batch_was_last;
	guint64 seen_empty_buffer;
	guint64 n_excluded_shown; /* value of fleet.n_excluded in the view */
	guint64 seen_refills;     /* number of refills when takers last found no IDs */
	gboolean has_set_failure;
};

/* The take rate */

void pool_rate_init(PoolRate *self, gint64 idle_us, gint64 now_us)
{
	*self = (PoolRate){.idle_us = idle_us, .active_at_us = now_us, .seen_at_us = now_us};
}

/* Returns: a value between @value and @sample; the older the last sample, the closer to @sample */
static double approach(double value, double sample, double past_us, double time_us)
{
	return value + (sample - value) * past_us / (past_us + time_us);
}

void pool_rate_observe(PoolRate *self, gint64 now_us, guint64 gone, gboolean is_empty)
{
	double past_us = (double)(now_us - self->seen_at_us);

	if (is_empty)
		self->pushed = CLAMP(self->pushed * 2, POOL_RATE_FIRST, POOL_RATE_MAX_TARGET);
	if (is_empty || gone != self->seen_gone)
		self->active_at_us = now_us;
	if (past_us < SHORT_US)
		return;

	double sample = gone > self->seen_gone ? (double)(gone - self->seen_gone) / past_us : 0;

	self->per_us =
		approach(self->per_us, sample, past_us, sample > self->per_us ? RISE_US : FALL_US);
	if (!is_empty)
		self->pushed = approach(self->pushed, 0, past_us, PUSH_FALL_US);
	self->seen_at_us = now_us;
	self->seen_gone = gone;
	if (now_us - self->active_at_us >= self->idle_us)
		self->per_us = self->pushed = 0;
}

guint pool_rate_target(const PoolRate *self, gint64 span_us)
{
	double target = MAX(self->per_us * (double)span_us, self->pushed);

	if (self->per_us < IDLE_PER_US && self->pushed < 1)
		return 0;
	return (guint)CLAMP(target + 0.5, 1, POOL_RATE_MAX_TARGET);
}

/* The age of IDs */

void pool_ages_init(PoolAges *self, gint64 max_age_us)
{
	*self = (PoolAges){.max_age_us = max_age_us, .oldest = 1};
}

static gint64 *asked_at_us_of(PoolAges *self, guint64 batch)
{
	return &self->asked_at_us[batch % POOL_AGES_BATCHES];
}

guint64 pool_ages_batch(PoolAges *self, gint64 asked_at_us)
{
	gint64 begun_at_us = *asked_at_us_of(self, self->newest);

	if (self->newest >= self->oldest && asked_at_us >= begun_at_us &&
	    asked_at_us - begun_at_us < self->max_age_us / BATCHES_OF_AN_AGE)
		return self->newest;
	if (self->newest - self->oldest + 1 < POOL_AGES_BATCHES) {
		self->newest++;
		*asked_at_us_of(self, self->newest) = asked_at_us;
	} else if (asked_at_us < begun_at_us) {
		*asked_at_us_of(self, self->newest) = asked_at_us;
	}
	return self->newest;
}

guint64 pool_ages_oldest(PoolAges *self, gint64 now_us)
{
	for (guint64 batch = self->oldest; batch <= self->newest; batch++) {
		if (now_us - *asked_at_us_of(self, batch) >= self->max_age_us)
			self->oldest = batch + 1;
	}
	return self->oldest;
}

gint64 pool_ages_next_us(const PoolAges *self)
{
	gint64 first_us = POOL_NEVER_US;

	for (guint64 batch = self->oldest; batch <= self->newest; batch++)
		first_us = MIN(first_us, self->asked_at_us[batch % POOL_AGES_BATCHES]);
	return first_us == POOL_NEVER_US ? POOL_NEVER_US : first_us + self->max_age_us;
}

/* Events */

static void put_runs(PoolRefill *self, gint64 now_us)
{
	guint64 batch = pool_ages_batch(&self->ages, self->data.asked_at_us);

	if (batch < pool_ages_oldest(&self->ages, now_us))
		return;
	for (guint i = 0; i < self->data.runs->len; i++) {
		const SnowflakeClientIdRun *run =
			&g_array_index(self->data.runs, SnowflakeClientIdRun, i);

		/* IDs that do not fit into the ring are dropped, which only leaves a gap */
		if (!pool_ring_put(&self->buffer->ring, &(PoolRun){run->first, run->count, batch}))
			break;
	}
	atomic_fetch_add(&self->refills, 1);
	pool_buffer_update_share(self->buffer);
	pool_wait_wake(&self->buffer->wait);
	if (self->watch != NULL)
		pool_watch_note_refill(self->watch);
}

/* Returns: whether a server is idle again, or gone */
static gboolean handle_events(PoolRefill *self, gint64 now_us)
{
	gboolean is_changed = FALSE;

	for (guint i = 0; i < POOL_FLEET_MAX_SERVERS; i++) {
		/* handle only one exclusion per pass, so that the view shows each of them */
		if (self->fleet.n_excluded != self->n_excluded_shown)
			return TRUE;
		PoolServer **server = &self->fleet.servers[i];
		gboolean was_idle = *server == NULL || pool_server_is_idle(*server);
		PoolServerEvent event;

		if (*server == NULL)
			continue;
		event = pool_fleet_handle_event(&self->fleet, server, &self->data, now_us);
		if (event == POOL_SERVER_DRAWN &&
		    (self->watch == NULL ||
		     !pool_watch_fill_request(self->watch, &self->fleet, *server, &self->data)))
			put_runs(self, now_us);
		if (event == POOL_SERVER_LISTED && self->watch != NULL)
			pool_watch_put_workers(self->watch, g_steal_pointer(&self->data.workers),
					       self->data.asked_at_us, now_us);
		is_changed |= *server == NULL || (pool_server_is_idle(*server) && !was_idle);
	}
	return is_changed;
}

/* The size of the next requests */

static void observe_takes(PoolRefill *self, gint64 now_us)
{
	guint64 put_ids = pool_load_relaxed(&self->buffer->ring.put);
	guint64 level = pool_ring_level(&self->buffer->ring);
	guint64 discarded = pool_load_relaxed(&self->buffer->discarded);
	gint64 round_trip_us = self->fleet.first != NULL ? self->fleet.first->round_trip_us : 0;
	gint64 span_us = self->config->prefetch_ms * G_TIME_SPAN_MILLISECOND + 2 * round_trip_us;
	gint64 placed_at_us =
		self->watch != NULL ? pool_watch_oldest_request_us(self->watch) : POOL_NEVER_US;
	guint64 empty_buffer = pool_load_relaxed(&self->buffer->empty_buffer);
	guint64 refills = pool_load_relaxed(&self->refills);
	/* these takes found no IDs although IDs had arrived since the last time */
	gboolean found_nothing;
	guint waiting = 0;

	if (level == 0) /* the number of waiting calls of a relay is unknown */
		waiting = atomic_load(&self->buffer->wait.waiting) +
			  (self->watch != NULL && atomic_load(&self->watch->is_empty));
	self->is_waited_for = waiting > 0;
	found_nothing = (empty_buffer != self->seen_empty_buffer || waiting > 0) &&
			(refills != self->seen_refills || self->wanted == 0);
	if (found_nothing) {
		self->seen_empty_buffer = empty_buffer;
		self->seen_refills = refills;
	}
	pool_rate_observe(&self->rate, now_us, put_ids - level - discarded, found_nothing);
	self->wanted = MAX(pool_rate_target(&self->rate, span_us), waiting);
	self->need = POOL_NEED_NONE;
	if (self->wanted > 0 || placed_at_us != POOL_NEVER_US)
		self->need = POOL_NEED_MET;
	/* batch requests do not appear in the take rate, so use their age */
	if ((self->wanted > 0 && 2 * level < self->wanted) || waiting > 0 ||
	    (placed_at_us != POOL_NEVER_US && now_us - placed_at_us >= REQUEST_PATIENCE_US))
		self->need = POOL_NEED_MORE;
}

/* Draws only if less than three quarters of the target are prefetched or requested, so that
 * requests are not too small. */
static void refill_buffer(PoolRefill *self, gint64 now_us)
{
	guint64 level = pool_ring_level(&self->buffer->ring);
	PoolServer *server;

	for (;;) {
		guint64 coming = level + pool_fleet_drawing(&self->fleet, now_us);

		if (self->wanted == 0 || coming * 4 > self->wanted * 3)
			return;
		server = pool_fleet_choose(&self->fleet, now_us);
		if (server == NULL)
			return;
		pool_server_draw(
			server, self->config->agent,
			(guint)MIN(
				self->wanted - coming,
				batch_limits_offer(&server->limits, CLIENT_RESULT_RUNS).max_count),
			NULL, now_us);
		self->batch_was_last = FALSE;
	}
}

/* Passes */

/* Does everything that can be done without waiting. Returns: when to run the next pass */
static gint64 make_pass(PoolRefill *self)
{
	gint64 now_us = clock_boottime_ns() / 1000;
	gint64 observe_us = self->config->prefetch_ms * G_TIME_SPAN_MILLISECOND / OBSERVATIONS;
	const GError *failure;
	gint64 next_us;

	handle_events(self, now_us);
	pool_buffer_set_oldest(self->buffer, pool_ages_oldest(&self->ages, now_us));
	pool_buffer_update_share(self->buffer);
	observe_takes(self, now_us);
	pool_fleet_tend(&self->fleet, self->need, now_us);
	if (self->watch != NULL)
		pool_watch_tend(self->watch, &self->fleet, now_us);
	self->n_excluded_shown = self->fleet.n_excluded;
	if (self->batch_was_last && self->is_waited_for)
		refill_buffer(self, now_us);
	if (self->watch != NULL &&
	    pool_watch_serve_requests(self->watch, &self->fleet, self->config->agent, now_us))
		self->batch_was_last = TRUE;
	refill_buffer(self, now_us);
	next_us = handle_events(self, now_us) ? now_us
					      : MIN(pool_ages_next_us(&self->ages),
						    pool_fleet_next_us(&self->fleet, now_us));
	if (self->fleet.is_served && self->need == POOL_NEED_MORE)
		next_us = MIN(next_us, now_us + NEEDED_OBSERVE_US);
	else if (self->fleet.is_served && self->need == POOL_NEED_MET)
		next_us = MIN(next_us, now_us + MAX(observe_us, LEAST_OBSERVE_US));
	failure = self->fleet.failure;
	if (failure != NULL || self->has_set_failure)
		pool_wait_set_failure(&self->buffer->wait, failure != NULL ? failure->code : 0,
				      failure != NULL ? failure->message : NULL);
	self->has_set_failure = failure != NULL;
	pool_store_relaxed(&self->failovers, self->fleet.failovers);
	pool_store_relaxed(&self->excluded, self->fleet.n_excluded);
	return next_us;
}

gint64 pool_refill_run_pass(PoolRefill *self, struct pollfd *out_fds, guint *out_count)
{
	eventfd_t wakes;
	gint64 until_us;

	/* in this order: the thread sees data that was set before an earlier wake-up, and a later
	 * wake-up writes again */
	eventfd_read(self->fd, &wakes);
	atomic_exchange(&self->is_woken, FALSE);
	fork_guard_lock();
	until_us = make_pass(self);
	*out_count = pool_fleet_get_pollfds(&self->fleet, out_fds);
	fork_guard_unlock();
	if (self->watch != NULL)
		pool_watch_notify(self->watch);
	return until_us;
}

/* The thread */

static void *run_refill_thread(void *user_data)
{
	PoolRefill *self = user_data;
	struct pollfd fds[1 + POOL_FLEET_MAX_SERVERS];
	guint count;

	for (;;) {
		gint64 until_us = pool_refill_run_pass(self, fds + 1, &count);
		gint64 left_us = MAX(until_us - clock_boottime_ns() / 1000, 0);
		const struct timespec left = {
			.tv_sec = left_us / G_USEC_PER_SEC,
			.tv_nsec = left_us % G_USEC_PER_SEC * 1000,
		};

		/* checked after the pass, because the pass clears the wake-up */
		if (atomic_load(&self->stops))
			return NULL;
		fds[0] = (struct pollfd){.fd = self->fd, .events = POLLIN};
		ppoll(fds, 1 + count, until_us != POOL_NEVER_US ? &left : NULL, NULL);
	}
}

static void refill_free_parts(PoolRefill *self)
{
	fork_guard_lock();
	pool_fleet_clear(&self->fleet);
	g_array_unref(self->data.runs);
	g_clear_pointer(&self->data.workers, g_ptr_array_unref);
	g_free(self->data.ids);
	fork_guard_close_noted(&self->fd);
	fork_guard_unlock();
	g_free(self);
}

PoolRefill *pool_refill_new(const PoolConfig *config, PoolBuffer *buffer, PoolWatch *watch,
			    GError **error)
{
	PoolRefill *self = g_new0(PoolRefill, 1);
	gint64 now_us = clock_boottime_ns() / 1000;
	int code = 0;

	self->config = config;
	self->buffer = buffer;
	self->watch = watch;
	fork_guard_lock();
	self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (self->fd >= 0)
		fork_guard_note(&self->fd);
	else
		code = errno;
	pool_fleet_init(&self->fleet, config, watch != NULL, self->fd, now_us);
	self->data.runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	self->data.ids = g_new(gint64, CLIENT_CALL_MAX_COUNT);
	pool_ages_init(&self->ages, config->max_age_ms * G_TIME_SPAN_MILLISECOND);
	pool_rate_init(&self->rate, config->max_age_ms * G_TIME_SPAN_MILLISECOND / 2, now_us);
	fork_guard_unlock();
	if (code == 0)
		code = thread_start(&self->thread, "snowflake-pool", run_refill_thread, self);
	if (code == 0)
		return self;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
		    "cannot start the refill thread: %s", g_strerror(code));
	refill_free_parts(self);
	return NULL;
}

void pool_refill_free(PoolRefill *self)
{
	if (self == NULL)
		return;
	if (self->fd >= 0) { /* in a child of fork() it is -1, because the thread does not exist */
		atomic_store(&self->stops, TRUE);
		pool_refill_wake(self);
		pthread_join(self->thread, NULL);
	}
	refill_free_parts(self);
}

gboolean pool_refill_has_descriptors(const PoolRefill *self)
{
	return self->fd >= 0;
}

void pool_refill_wake(PoolRefill *self)
{
	if (!atomic_exchange(&self->is_woken, TRUE))
		eventfd_write(self->fd, 1);
}

void pool_refill_get_statistics(const PoolRefill *self, SnowflakePoolStatistics *out_statistics)
{
	*out_statistics = pool_buffer_count(self->buffer);
	out_statistics->refills = pool_load_relaxed(&self->refills);
	out_statistics->failovers = pool_load_relaxed(&self->failovers);
	out_statistics->excluded = pool_load_relaxed(&self->excluded);
}
