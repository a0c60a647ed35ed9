/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/keeper.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/text.h"
#include "server/log.h"
#include "server/worker/clock-discipline.h"
#include "server/worker/plan.h"

/*
 * The thread goes round: discipline the clock, take in what has changed, show the state that this
 * amounts to, do what the plan says or sleep. Whatever an action comes to is a fact for the next
 * round. Others leave word (asked, stopping), poke the thread, and read what is shown.
 */

#define DISCIPLINE_INTERVAL_US (100 * G_TIME_SPAN_MILLISECOND)
#define STUCK_US               G_USEC_PER_SEC /* a call of the registry that lasts as long hangs */
#define RETRY_MS               1000           /* for callers, when nobody can tell */

struct _Keeper {
	Registry *registry;
	Generator *generator;
	SystemClock *clock;
	KeeperConfig config;
	const Layout *layout;

	/* The thread's own. */
	PlanFacts facts;
	ClockDiscipline discipline;
	gint64 next_discipline_us;
	Lease *lease;            /* the generator's; NULL: none */
	gint64 length_ms;        /* of the reservation, when it was written last */
	guint64 cursor_at_write; /* the lease's, then */
	gint64 last_tick;        /* of the lease before: a new one begins later */
	gint64 failing_since_us;
	gboolean news; /* that changed() has not been called for */

	/* Any thread's. */
	_Atomic gboolean asked;   /* keeper_demand() was called since the last extension began */
	_Atomic gint64 ids_at_us; /* plan_ids_at_us() of the last round */
	_Atomic gint64 round_began_us;
	_Atomic gint64 calling_since_us; /* the registry; 0: not calling it */
	pthread_mutex_t mutex; /* for what follows; of it only the thread writes the status */
	pthread_cond_t wake;   /* poked was set */
	pthread_cond_t end;    /* finished was set */
	gboolean poked;
	gboolean stopping;
	gboolean finished; /* the thread is done with everything */
	WorkerStatus status;
	GError *error;

	/* The owner's. */
	gboolean running;
	pthread_t thread;
};

static char *tick_text(const Keeper *self, gint64 tick)
{
	return text_time_ms(layout_tick_start_ms(self->layout, tick));
}

static gint64 ticks_of(const Keeper *self, gint64 length_ms)
{
	return (length_ms + self->layout->tick_ms - 1) / self->layout->tick_ms;
}

static void set_state(Keeper *self, WorkerState state)
{
	WorkerState old = self->status.state;

	if (!worker_state_may_follow(old, state))
		g_critical("the worker cannot go from %s to %s", worker_state_name(old),
			   worker_state_name(state));
	pthread_mutex_lock(&self->mutex);
	self->status.state = state;
	pthread_mutex_unlock(&self->mutex);
	log_event(LOG_STATE, "from=%s to=%s", worker_state_name(old), worker_state_name(state));
	if (state == WORKER_UNAVAILABLE) {
		g_autofree char *end = tick_text(self, self->facts.end_tick);

		log_event(LOG_RESERVATION_SPENT, "reserved_until=%s", end);
	}
	self->news = TRUE;
}

static void set_reserved(Keeper *self, gint64 end_tick)
{
	self->facts.end_tick = end_tick;
	pthread_mutex_lock(&self->mutex);
	self->status.reserved_until_ms = layout_tick_start_ms(self->layout, end_tick);
	pthread_mutex_unlock(&self->mutex);
	self->news = TRUE;
}

static void discipline_clock(Keeper *self)
{
	gint64 now_us = g_get_monotonic_time();
	gint64 offset_ns = system_clock_offset_ns(self->clock);
	gint64 measured_ns, by_ms;

	if (now_us < self->next_discipline_us)
		return;
	self->next_discipline_us = now_us + DISCIPLINE_INTERVAL_US;
	measured_ns = system_clock_measure_offset_ns();
	by_ms = (measured_ns - offset_ns) / CLOCK_NS_PER_MS;
	switch (clock_discipline_judge(&self->discipline, offset_ns, measured_ns,
				       self->config.max_clock_skew_ms * CLOCK_NS_PER_MS, now_us)) {
	case CLOCK_AGREES:
	case CLOCK_HELD:
		return;
	case CLOCK_JUMPED:
		log_event(LOG_CLOCK_HELD, "by_ms=%" G_GINT64_FORMAT, by_ms);
		return;
	case CLOCK_STEPPED_BACK:
		log_event(LOG_CLOCK_BACK, "by_ms=%" G_GINT64_FORMAT, -by_ms);
		break;
	case CLOCK_STEPPED_FORWARD:
		log_event(LOG_CLOCK_FORWARD, "by_ms=%" G_GINT64_FORMAT, by_ms);
		break;
	}
	system_clock_set_offset_ns(self->clock, measured_ns);
}

/* The length that an extension now would have. */
static gint64 next_length_ms(const Keeper *self)
{
	return MIN(2 * self->length_ms, self->registry->max_length_ms);
}

static void log_clock_outside(const Keeper *self, gint64 now_ms)
{
	g_autofree char *now = text_time_ms(now_ms);
	g_autofree char *first = tick_text(self, 0);
	g_autofree char *last = tick_text(self, layout_max_tick(self->layout));

	log_event(LOG_WORKER_WAITING,
		  "why=\"the clock, %s, is outside the layout's range, %s to %s: set it right\"",
		  now, first, last);
}

static void look_at_clock(Keeper *self)
{
	PlanFacts *facts = &self->facts;
	gint64 now_ms = clock_now_ms(&self->clock->clock);
	gboolean was_outside = facts->outside;

	facts->now_tick = layout_tick_at(self->layout, now_ms);
	facts->outside = facts->now_tick < 0 || facts->now_tick > layout_max_tick(self->layout);
	if (facts->outside && !was_outside)
		log_clock_outside(self, now_ms);
}

static void look_around(Keeper *self)
{
	PlanFacts *facts = &self->facts;

	facts->now_us = g_get_monotonic_time();
	atomic_store(&self->round_began_us, facts->now_us);
	look_at_clock(self);
	pthread_mutex_lock(&self->mutex);
	facts->stopping = self->stopping;
	pthread_mutex_unlock(&self->mutex);
	if (!facts->has_lease)
		return;
	facts->begun = facts->begun || facts->now_tick >= facts->first_tick;
	facts->wanted = self->registry->extend_when_idle || atomic_load(&self->asked) ||
			lease_last_cursor(self->lease) != self->cursor_at_write;
	facts->next_end_tick = MIN(facts->now_tick + ticks_of(self, next_length_ms(self)),
				   layout_max_tick(self->layout));
}

static void show(Keeper *self)
{
	WorkerState state = plan_state(&self->facts);

	atomic_store(&self->ids_at_us, plan_ids_at_us(&self->facts));
	if (state != self->status.state)
		set_state(self, state);
	if (self->news && self->config.changed != NULL)
		self->config.changed(self->config.user_data);
	self->news = FALSE;
}

/* A reservation of @length_ms, computed in this round, was confirmed. */
static void note_write(Keeper *self, gint64 length_ms, guint64 cursor)
{
	self->length_ms = length_ms;
	self->cursor_at_write = cursor;
	self->facts.written_at_us = self->facts.now_us;
	self->facts.length_us = length_ms * G_TIME_SPAN_MILLISECOND;
	self->facts.failures = 0;
	self->facts.retry_at_us = 0;
}

static void note_failure(Keeper *self)
{
	self->facts.failures++;
	self->facts.retry_at_us =
		g_get_monotonic_time() + plan_backoff_us(self->facts.failures, g_random_double());
	self->news = TRUE;
}

/* (transfer full) for @error */
static void end_trying(Keeper *self, GError *error)
{
	pthread_mutex_lock(&self->mutex);
	self->error = error;
	pthread_mutex_unlock(&self->mutex);
	self->facts.ended = TRUE;
	note_failure(self);
}

static void hold(Keeper *self, const Reservation *reservation)
{
	gint64 first_tick = MAX(reservation->first_tick, self->last_tick + 1);
	g_autofree char *first = tick_text(self, MAX(first_tick, self->facts.now_tick));
	g_autofree char *end = tick_text(self, reservation->end_tick);

	self->lease = lease_new(self->layout, reservation->datacenter_id, reservation->worker_id,
				first_tick, reservation->end_tick);
	note_write(self, self->registry->first_length_ms, lease_last_cursor(self->lease));
	generator_publish(self->generator, self->lease);
	self->facts.has_lease = TRUE;
	self->facts.waiting = FALSE;
	self->facts.begun = FALSE;
	self->facts.first_tick = first_tick;
	set_reserved(self, reservation->end_tick);
	pthread_mutex_lock(&self->mutex);
	self->status.datacenter_id = (gint)reservation->datacenter_id;
	self->status.worker_id = (gint)reservation->worker_id;
	self->status.claimed_at_ms = clock_now_ms(&self->clock->clock);
	pthread_mutex_unlock(&self->mutex);
	log_event(LOG_WORKER_CLAIMED, "datacenter_id=%u worker_id=%u first=%s reserved_until=%s",
		  reservation->datacenter_id, reservation->worker_id, first, end);
}

static void wait_for_worker(Keeper *self, gint64 until_tick, const GError *error)
{
	if (!self->facts.waiting) {
		g_autofree char *why = log_quote(error->message);
		g_autofree char *until = tick_text(self, until_tick);

		log_event(LOG_WORKER_WAITING, "why=%s until=%s", why, until);
	}
	self->facts.waiting = TRUE;
	self->facts.wait_until_tick = until_tick;
	self->facts.failures = 0;
	self->facts.retry_at_us = g_get_monotonic_time() + plan_backoff_us(1, 0);
}

static void claim(Keeper *self)
{
	g_autoptr(GError) error = NULL;
	Reservation reservation;
	gint64 wait_until_tick;

	if (self->registry->ops->claim(self->registry, self->facts.now_tick,
				       ticks_of(self, self->registry->first_length_ms),
				       &reservation, &wait_until_tick, &error)) {
		hold(self, &reservation);
	} else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT)) {
		wait_for_worker(self, wait_until_tick, error);
	} else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL) ||
		   !self->facts.lost_lease) {
		/* a server that cannot start says so, one that has served holds out */
		end_trying(self, g_steal_pointer(&error));
	} else {
		if (self->facts.failures == 0) {
			g_autofree char *why = log_quote(error->message);

			log_event(LOG_WORKER_WAITING, "why=%s", why);
		}
		note_failure(self);
	}
}

/* The record is another owner's, so nothing more can be reserved here. */
static void lose(Keeper *self, const GError *error)
{
	g_autofree char *why = log_quote(error->message);

	self->last_tick = lease_retire(self->lease, self->layout);
	generator_publish(self->generator, NULL);
	self->lease = NULL;
	self->facts.has_lease = FALSE;
	self->facts.lost_lease = TRUE;
	self->facts.failures = 0;
	self->facts.retry_at_us = 0;
	pthread_mutex_lock(&self->mutex);
	self->status.worker_id = -1;
	self->status.reserved_until_ms = 0;
	pthread_mutex_unlock(&self->mutex);
	log_event(LOG_WORKER_LOST, "error=%s", why);
}

static void note_extension_failed(Keeper *self, const GError *error)
{
	if (self->facts.failures == 0) {
		g_autofree char *why = log_quote(error->message);
		g_autofree char *end = tick_text(self, self->facts.end_tick);

		self->failing_since_us = self->facts.now_us;
		log_event(LOG_EXTEND_FAILED, "error=%s reserved_until=%s", why, end);
	}
	note_failure(self);
}

static void extend(Keeper *self)
{
	g_autoptr(GError) error = NULL;
	guint64 cursor = lease_last_cursor(self->lease);
	guint failures = self->facts.failures;
	gint64 end_tick;

	/* what is asked for from here on may need the extension after this one */
	atomic_store(&self->asked, FALSE);
	if (self->registry->ops->extend(self->registry, self->facts.next_end_tick, &end_tick,
					&error)) {
		lease_extend(self->lease, end_tick);
		note_write(self, next_length_ms(self), cursor);
		set_reserved(self, end_tick);
		if (failures > 0)
			log_event(LOG_EXTEND_RECOVERED, "failed_ms=%" G_GINT64_FORMAT,
				  (g_get_monotonic_time() - self->failing_since_us) /
					  G_TIME_SPAN_MILLISECOND);
	} else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST)) {
		lose(self, error);
	} else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL)) {
		end_trying(self, g_steal_pointer(&error));
	} else {
		note_extension_failed(self, error);
	}
}

static void hand_back(Keeper *self)
{
	g_autoptr(GError) error = NULL;
	gint64 last_tick = lease_retire(self->lease, self->layout);

	if (self->registry->ops->hand_back(self->registry, last_tick, &error)) {
		g_autofree char *last = last_tick >= self->lease->first_tick
						? tick_text(self, last_tick)
						: g_strdup("none");

		log_event(LOG_WORKER_HANDED_BACK, "datacenter_id=%u worker_id=%u last=%s",
			  self->lease->datacenter_id, self->lease->worker_id, last);
	} else {
		g_autofree char *why = log_quote(error->message);
		g_autofree char *end = tick_text(self, self->facts.end_tick);

		log_event(LOG_HAND_BACK_FAILED, "error=%s reserved_until=%s", why, end);
	}
}

static void stop(Keeper *self)
{
	if (self->facts.has_lease)
		hand_back(self);
	self->facts.has_lease = FALSE;
	self->facts.stopped = TRUE;
}

static struct timespec monotonic_time(gint64 time_us)
{
	return (struct timespec){
		.tv_sec = time_us / G_USEC_PER_SEC,
		.tv_nsec = time_us % G_USEC_PER_SEC * 1000,
	};
}

static void sleep_until(Keeper *self, gint64 until_us)
{
	struct timespec until = monotonic_time(until_us);

	pthread_mutex_lock(&self->mutex);
	if (!self->poked)
		pthread_cond_timedwait(&self->wake, &self->mutex, &until);
	self->poked = FALSE;
	pthread_mutex_unlock(&self->mutex);
}

static void follow(Keeper *self, const Plan *plan)
{
	gboolean calls = plan->action != PLAN_NOTHING;

	atomic_store(&self->calling_since_us, calls ? g_get_monotonic_time() : 0);
	switch (plan->action) {
	case PLAN_NOTHING:
		sleep_until(self, MIN(plan->until_us, self->next_discipline_us));
		break;
	case PLAN_CLAIM:
		claim(self);
		break;
	case PLAN_EXTEND:
		extend(self);
		break;
	case PLAN_STOP:
		stop(self);
		break;
	}
	atomic_store(&self->calling_since_us, 0);
}

static void *keeper_thread(void *user_data)
{
	Keeper *self = user_data;

	while (!self->facts.stopped) {
		Plan plan;

		discipline_clock(self);
		look_around(self);
		show(self);
		plan = plan_next(&self->facts);
		follow(self, &plan);
	}
	show(self);
	pthread_mutex_lock(&self->mutex);
	self->finished = TRUE;
	pthread_cond_signal(&self->end);
	pthread_mutex_unlock(&self->mutex);
	return NULL;
}

Keeper *keeper_new(Registry *registry, Generator *generator, SystemClock *clock,
		   const KeeperConfig *config)
{
	Keeper *self = g_new0(Keeper, 1);
	pthread_condattr_t monotonic;

	self->registry = registry;
	self->generator = generator;
	self->clock = clock;
	self->config = *config;
	self->layout = generator_layout(generator);
	self->facts.tick_us = self->layout->tick_ms * G_TIME_SPAN_MILLISECOND;
	self->status = (WorkerStatus){.datacenter_id = -1, .worker_id = -1};
	atomic_init(&self->round_began_us, g_get_monotonic_time());
	pthread_mutex_init(&self->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&self->wake, &monotonic);
	pthread_cond_init(&self->end, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return self;
}

void keeper_start(Keeper *self)
{
	int code;

	atomic_store(&self->round_began_us, g_get_monotonic_time());
	code = pthread_create(&self->thread, NULL, keeper_thread, self);
	self->running = code == 0;
	if (self->running) {
		pthread_setname_np(self->thread, "keeper");
		return;
	}
	end_trying(self, g_error_new(REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
				     "cannot start a thread: %s", g_strerror(code)));
	show(self);
}

/* With the mutex held. */
static void poke(Keeper *self)
{
	self->poked = TRUE;
	pthread_cond_signal(&self->wake);
}

/* Tells the thread to stop. %FALSE: it has not come to its end at @until_us. */
static gboolean finish_thread(Keeper *self, gint64 until_us)
{
	struct timespec until = monotonic_time(until_us);
	gboolean finished;

	pthread_mutex_lock(&self->mutex);
	self->stopping = TRUE;
	poke(self);
	/* by the clock, not by what the wait says: one that is faked for a test ends it early */
	while (!self->finished && g_get_monotonic_time() < until_us)
		pthread_cond_timedwait(&self->end, &self->mutex, &until);
	finished = self->finished;
	pthread_mutex_unlock(&self->mutex);
	return finished;
}

static void log_hanging(Keeper *self, gint64 timeout_ms)
{
	g_autofree char *end = NULL;
	WorkerStatus status;

	keeper_get_status(self, &status);
	end = status.reserved_until_ms != 0 ? text_time_ms(status.reserved_until_ms)
					    : g_strdup("none");
	log_event(LOG_HAND_BACK_FAILED,
		  "error=\"no answer about the worker ID within %" G_GINT64_FORMAT
		  " ms: is the disk stuck?\" reserved_until=%s",
		  timeout_ms, end);
}

gboolean keeper_stop(Keeper *self, gint64 timeout_ms)
{
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;

	if (self->running) {
		if (!finish_thread(self, until_us)) {
			log_hanging(self, timeout_ms);
			return FALSE;
		}
		pthread_join(self->thread, NULL);
		self->running = FALSE;
	}
	if (!self->facts.stopped) { /* it never ran */
		stop(self);
		show(self);
	}
	return TRUE;
}

void keeper_free(Keeper *self)
{
	if (self == NULL)
		return;
	g_assert(!self->running);
	self->registry->ops->free(self->registry);
	pthread_cond_destroy(&self->end);
	pthread_cond_destroy(&self->wake);
	pthread_mutex_destroy(&self->mutex);
	g_clear_error(&self->error);
	g_free(self);
}

/* A call of the registry hangs, so that the thread cannot show what became of the lease. */
static gboolean is_stuck(Keeper *self)
{
	gint64 since_us = atomic_load(&self->calling_since_us);

	return since_us != 0 && g_get_monotonic_time() - since_us >= STUCK_US;
}

void keeper_get_status(Keeper *self, WorkerStatus *out_status)
{
	gint64 now_ms = clock_now_ms(&self->clock->clock);

	pthread_mutex_lock(&self->mutex);
	*out_status = self->status;
	pthread_mutex_unlock(&self->mutex);
	if (out_status->state == WORKER_SERVING && is_stuck(self) &&
	    now_ms >= out_status->reserved_until_ms + self->layout->tick_ms)
		out_status->state = WORKER_UNAVAILABLE;
}

GError *keeper_error(Keeper *self)
{
	GError *error;

	pthread_mutex_lock(&self->mutex);
	error = self->error != NULL ? g_error_copy(self->error) : NULL;
	pthread_mutex_unlock(&self->mutex);
	return error;
}

gint64 keeper_demand(Keeper *self)
{
	gint64 ids_at_us = atomic_load(&self->ids_at_us);
	gint64 now_us = g_get_monotonic_time();

	if (ids_at_us == PLAN_NEVER || is_stuck(self))
		return RETRY_MS;
	/* the thread goes on by itself then */
	if (ids_at_us > now_us)
		return (ids_at_us - now_us - 1) / G_TIME_SPAN_MILLISECOND + 1;
	if (!atomic_exchange(&self->asked, TRUE)) {
		pthread_mutex_lock(&self->mutex);
		poke(self);
		pthread_mutex_unlock(&self->mutex);
	}
	return 0;
}

gint64 keeper_idle_ms(Keeper *self)
{
	return (g_get_monotonic_time() - atomic_load(&self->round_began_us)) /
	       G_TIME_SPAN_MILLISECOND;
}
