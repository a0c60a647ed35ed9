/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/fork-guard.h"
#include "common/log.h"
#include "common/thread.h"
#include "core/text.h"
#include "worker/clock-discipline.h"
#include "worker/file/disk-call.h"
#include "worker/keeper-plan.h"

/* In each round the thread disciplines the clock, continues the current operation of the registry,
 * updates the facts, and publishes the resulting state. Then it begins the planned action, or
 * sleeps. The outcome of an operation is a fact for the next round. Other threads set requests
 * (is_demanded, stop_by_us, list_wanted), wake the thread, and read the published values. */

#define DISCIPLINE_INTERVAL_US (100 * G_TIME_SPAN_MILLISECOND)
#define ASK_INTERVAL_US        G_USEC_PER_SEC
/* The layout's end is announced a year ahead, because all users of the IDs must prepare for another
 * layout. */
#define END_IS_SOON_MS         G_GINT64_CONSTANT(31536000000)
#define DAY_MS                 G_GINT64_CONSTANT(86400000)
#define MIN_REACH_MS           1000 /* writing a shorter reservation is not worthwhile */
#define CLAIM_RETRY_MS         1000 /* pause while the clock is too far ahead to claim */
#define LATE_US                (2 * G_USEC_PER_SEC)
/* If there is an old list, the new one counts as late once the registry has been silent for this
 * long. */
#define SILENT_US              (300 * G_TIME_SPAN_MILLISECOND)
/* After a late list, no other list is requested for this long, so that all waiting callers are
 * notified first. */
#define LATE_FOR_US            G_USEC_PER_SEC
/* The minimum for the maximum age of a list. With a lower value, a list could already be too old
 * when the caller is notified. */
#define MIN_AGE_MS             200
/* time after which callers retry, if the time of the next lease is unknown */
#define RETRY_MS               1000
/* How long the thread may take to end after it has stopped waiting for the registry. */
#define END_TIMEOUT_US         G_USEC_PER_SEC

struct _Keeper {
	Registry *registry;
	Generator *generator;
	SystemClock *clock;
	KeeperConfig config;
	const Layout *layout;
	gint64 max_skew_ns;     /* from the configuration */
	gint64 max_ahead_ticks; /* from the configuration */

	/* The members below are used only by the thread. */
	KeeperPlanFacts facts;
	RegistryReport report;      /* report of the last poll, without its result and its list */
	gint64 registry_stop_by_us; /* copy of stop_by_us, for poll() */
	gboolean changed_is_due;    /* changed() must be called */

	/* The clock. */
	ClockDiscipline discipline;
	gint64 discipline_at_us;
	RegistryClock judged_by;      /* last reading of the registry's clock that was judged */
	gint64 clock_requested_at_us; /* time of the last request for the registry's clock */
	gboolean clock_differs; /* it has been logged that the clock differs from the registry's */
	gint64 inside_tick;     /* last reading of the clock that was within the layout */
	gint64 end_logged_ms;   /* time of the last log event about the end of the layout */

	/* The lease. */
	Lease *lease; /* the generator's lease; NULL if there was none yet */
	/* the clock has reached the lease's first tick, or IDs were issued */
	gboolean lease_began;
	gint64 length_ms;        /* length of the reservation at its last write */
	guint64 cursor_at_write; /* the lease's cursor at the last write */
	gint64 next_length_ms;   /* length of the reservation after the current extension */
	guint64 next_cursor;     /* the lease's cursor at the start of the current extension */
	gint64 last_tick;        /* last tick of the previous lease; a new lease begins after it */
	gint64 failing_since_us;

	/* Lists of the workers. */
	gint64 list_due_at_us; /* when to request a list, unless one is requested earlier */

	/* The members below are used by any thread. */
	/* keeper_demand() was called since the last extension began */
	_Atomic gboolean is_demanded;
	_Atomic gint64 ids_at_us; /* result of keeper_plan_ids_at_us() in the last round */
	_Atomic gint64 round_began_at_us;
	/* start of the registry's current operation; 0 if there is none */
	_Atomic gint64 busy_since_us;
	/* protects the members below; only the thread writes the status */
	pthread_mutex_t mutex;
	pthread_cond_t wake; /* poked was set */
	pthread_cond_t end;  /* finished was set */
	gboolean poked;
	/* monotonic time until which a stop waits for the registry; 0 if the keeper is not
	 * stopping */
	gint64 stop_by_us;
	gboolean finished; /* the thread no longer uses this object */
	KeeperStatus status;
	RegistryClock registry_clock; /* last reading of the registry's clock */
	char *waiting_why;            /* (nullable): why no worker ID was free at the last claim */
	char *hindrance;              /* (nullable): copy of RegistryReport.hindrance */
	GError *error;
	WorkerList *list;    /* (nullable): the registry's last list */
	gint64 listed_at_us; /* time of that list */
	/* time of the pending request for a list; 0 if there is none */
	gint64 list_requested_at_us;
	gint64 heard_at_us;    /* RegistryReport.heard_at_us from the last poll */
	gboolean reachable;    /* RegistryReport.is_reachable from the last poll */
	gboolean list_wanted;  /* the thread must request a list from the registry */
	gboolean list_is_late; /* the list is late, and changed() was called */

	/* The members below are used only by the owner. */
	gboolean running;
	pthread_t thread;
};

/* The clock */

static gint64 end_unless_past_ms(const Keeper *self, gint64 end_ms, gint64 now_ms)
{
	return now_ms < end_ms + self->layout->tick_ms ? end_ms : 0;
}

static void request_clock(Keeper *self)
{
	self->clock_requested_at_us = self->facts.now_us;
	if (self->registry->ops->ask_clock == NULL)
		return;
	self->registry->ops->ask_clock(self->registry);
	self->registry->wake(self->registry->wake_data); /* a poll reads the clock */
}

static void log_judged(const ClockReading *reading, ClockVerdict verdict)
{
	static const char *const VERDICTS[] = {
		[CLOCK_AGREES] = "agrees",
		[CLOCK_STEPPED_BACK] = "back",
		[CLOCK_STEPPED_FORWARD] = "forward",
		[CLOCK_JUMPED] = "jumped",
		[CLOCK_HELD] = "held",
	};
	const LogField what = log_text("verdict", VERDICTS[verdict]);
	const LogField by = log_number("by_us", (reading->measured_ns - reading->offset_ns) / 1000);

	if (!reading->clock.known)
		log_event(LOG_CLOCK_JUDGED, what, by);
	else
		log_event(LOG_CLOCK_JUDGED, what, by,
			  log_number("registry_least_us",
				     (reading->clock.min_offset_ns - reading->offset_ns) / 1000),
			  log_number("registry_most_us",
				     (reading->clock.max_offset_ns - reading->offset_ns) / 1000));
}

/* Judges the system clock, and adopts its steps. @is_new_reading: the registry's clock was read
 * again */
static void judge_clock(Keeper *self, gboolean is_new_reading)
{
	const ClockReading reading = {
		.now_us = self->facts.now_us,
		.offset_ns = system_clock_offset_ns(self->clock),
		.measured_ns = system_clock_measure_offset_ns(),
		.max_skew_ns = self->max_skew_ns,
		.clock = self->report.clock,
	};
	gint64 by_ms = (reading.measured_ns - reading.offset_ns) / CLOCK_NS_PER_MS;
	ClockVerdict verdict = clock_discipline_judge(&self->discipline, &reading);

	if (is_new_reading || verdict != CLOCK_AGREES)
		log_judged(&reading, verdict);
	switch (verdict) {
	case CLOCK_AGREES:
		return;
	case CLOCK_HELD:
		if (reading.now_us - self->clock_requested_at_us >= ASK_INTERVAL_US)
			request_clock(self);
		return;
	case CLOCK_JUMPED:
		log_event(LOG_CLOCK_HELD, log_number("by_ms", by_ms));
		request_clock(self);
		return;
	case CLOCK_STEPPED_BACK:
		system_clock_set_offset_ns(self->clock, reading.measured_ns);
		log_event(LOG_CLOCK_BACK, log_number("by_ms", -by_ms));
		break;
	case CLOCK_STEPPED_FORWARD:
		system_clock_set_offset_ns(self->clock, reading.measured_ns);
		log_event(LOG_CLOCK_FORWARD, log_number("by_ms", by_ms));
		break;
	}
}

static void discipline_clock(Keeper *self)
{
	const RegistryClock *clock = &self->report.clock;
	gint64 ahead_ns;
	gboolean is_new_reading = clock->known != self->judged_by.known ||
				  clock->min_offset_ns != self->judged_by.min_offset_ns ||
				  clock->max_offset_ns != self->judged_by.max_offset_ns;

	if (self->facts.now_us < self->discipline_at_us && !is_new_reading)
		return;
	self->judged_by = *clock;
	self->discipline_at_us = self->facts.now_us + DISCIPLINE_INTERVAL_US;
	judge_clock(self, is_new_reading);

	/* log if the clocks differ too much, and there is no step that could be adopted */
	ahead_ns = registry_clock_ahead_ns(clock, system_clock_offset_ns(self->clock));
	/* request a reading, because without a lease, nothing is written whose answer contains the
	 * time */
	if (self->clock_differs &&
	    self->facts.now_us - self->clock_requested_at_us >= ASK_INTERVAL_US)
		request_clock(self);
	if (!self->clock_differs && ABS(ahead_ns) > self->max_skew_ns) {
		self->clock_differs = TRUE;
		log_event(LOG_CLOCK_DIFFERS, log_number("by_ms", ahead_ns / CLOCK_NS_PER_MS));
	} else if (ABS(ahead_ns) <= self->max_skew_ns / 2) {
		/* well below the skew, so that a difference near the limit is not logged
		 * repeatedly */
		self->clock_differs = FALSE;
	}
}

static void read_clock(Keeper *self)
{
	KeeperPlanFacts *facts = &self->facts;
	gint64 now_ms = clock_now_ms(&self->clock->clock);
	gint64 left_ms = layout_last_ms(self->layout) - now_ms;
	gboolean was_outside = facts->clock_outside_layout;

	facts->now_us = g_get_monotonic_time();
	facts->now_tick = layout_tick_at(self->layout, now_ms);
	facts->clock_outside_layout =
		facts->now_tick < 0 || facts->now_tick > layout_max_tick(self->layout);
	if (!facts->clock_outside_layout) {
		self->inside_tick = facts->now_tick;
		/* warn once a day by this clock, and again if the clock was set back */
		if (left_ms < END_IS_SOON_MS && ABS(now_ms - self->end_logged_ms) >= DAY_MS) {
			g_autofree char *last = text_time_ms(layout_last_ms(self->layout));

			self->end_logged_ms = now_ms;
			log_event(LOG_LAYOUT_ENDS_SOON, log_text("last", last),
				  log_number("days_left", left_ms / DAY_MS),
				  log_text("meaning", "after that, calls are refused; change to "
						      "another --layout before then"));
		}
	} else if (!was_outside) {
		g_autofree char *now = text_time_ms(now_ms);
		g_autofree char *first = layout_tick_text(self->layout, 0);
		g_autofree char *last =
			layout_tick_text(self->layout, layout_max_tick(self->layout));
		g_autofree char *why = g_strdup_printf("the clock (%s) is outside the layout's "
						       "range (%s to %s); correct the clock",
						       now, first, last);

		log_event(LOG_WORKER_WAITING, log_text("why", why));
	}
}

/* Lists of the workers */

static void postpone_list(Keeper *self)
{
	guint n_workers = self->list != NULL ? self->list->workers->len : 0;
	guint n_reads = self->list != NULL ? self->list->n_reads : 0;

	self->list_due_at_us = g_get_monotonic_time() +
			       keeper_plan_list_pause_us(n_workers, n_reads, g_random_double());
}

/* The static functions of this section must be called with the mutex held. */

static void request_list(Keeper *self, gint64 now_us)
{
	self->list_requested_at_us = now_us;
	self->list_is_late = FALSE;
	self->list_wanted = TRUE;
	self->poked = TRUE;
	pthread_cond_signal(&self->wake);
}

/* Returns when the requested list counts as late. */
static gint64 list_late_at_us(const Keeper *self)
{
	gint64 late_us = self->list_requested_at_us + LATE_US;

	if (self->list == NULL)
		return late_us;
	return MIN(late_us, MAX(self->list_requested_at_us, self->heard_at_us) + SILENT_US);
}

/* Stores the list from the report. Takes the mutex itself. */
static void take_list(Keeper *self)
{
	WorkerList *list = g_steal_pointer(&self->report.list);
	gint64 now_us = g_get_monotonic_time();
	gboolean is_late;

	pthread_mutex_lock(&self->mutex);
	self->heard_at_us = self->report.heard_at_us;
	self->reachable = self->report.is_reachable;
	if (list != NULL) {
		worker_list_free(self->list);
		self->list = list;
		self->listed_at_us = now_us;
		self->list_requested_at_us = 0;
		self->changed_is_due = TRUE;
		postpone_list(self);
	}
	/* otherwise a whole fleet would request lists as soon as its registry is reachable again */
	if (!self->reachable)
		postpone_list(self);
	is_late = self->list_requested_at_us != 0 && now_us >= list_late_at_us(self);
	self->changed_is_due = self->changed_is_due || (is_late && !self->list_is_late);
	self->list_is_late = is_late;
	if (self->registry->ops->list != NULL && now_us >= self->list_due_at_us) {
		request_list(self, now_us);
		postpone_list(self);
	}
	pthread_mutex_unlock(&self->mutex);
}

static gint64 list_as_of_ms(const Keeper *self)
{
	/* use the current offset, so that a clock step does not change the list's age */
	gint64 read_at_ns = self->list != NULL ? self->list->read_at_ns : 0;

	return (read_at_ns + system_clock_offset_ns(self->clock)) / CLOCK_NS_PER_MS;
}

/* Copies @worker, without its reservation if that has ended by @time_ms. */
static SnowflakeClientWorker *copy_worker(const Keeper *self, const SnowflakeClientWorker *worker,
					  gint64 time_ms)
{
	SnowflakeClientWorker *copy = snowflake_client_worker_copy(worker);

	copy->reserved_until_ms = end_unless_past_ms(self, worker->reserved_until_ms, time_ms);
	copy->as_of_ms = time_ms;
	g_free(copy->registry_id);
	copy->registry_id = g_strdup(self->status.registry_id);
	g_free(copy->state);
	copy->state = g_strdup(keeper_state_name(
		keeper_state_guess(copy->worker_id, copy->reserved_until_ms != 0)));
	return copy;
}

static void request_list_unless_requested(Keeper *self, gint64 now_us)
{
	if (self->list_requested_at_us == 0 || now_us >= list_late_at_us(self) + LATE_FOR_US)
		request_list(self, now_us);
}

gboolean keeper_get_workers(Keeper *self, gint64 max_age_ms, gboolean may_wait,
			    GPtrArray **out_workers, gint64 *out_as_of_ms, GError **error)
{
	gint64 max_age_us = MAX(max_age_ms, MIN_AGE_MS) * G_TIME_SPAN_MILLISECOND;
	gint64 now_us = g_get_monotonic_time();
	const char *why_not = NULL; /* why no list is expected soon */
	gboolean is_known;

	pthread_mutex_lock(&self->mutex);
	is_known = self->registry->ops->list == NULL ||
		   (self->list != NULL && now_us - self->listed_at_us <= max_age_us);
	if (!is_known && self->stop_by_us != 0) {
		why_not = "this server is stopping";
	} else if (!is_known) {
		request_list_unless_requested(self, now_us);
		if (now_us >= list_late_at_us(self))
			why_not = "no list of the servers arrived within 2 s";
	}
	/* return an older list */
	is_known = is_known || (self->list != NULL && (why_not != NULL || !may_wait));
	if (is_known) {
		*out_workers = g_ptr_array_new_with_free_func(
			(GDestroyNotify)snowflake_client_worker_free);
		*out_as_of_ms = list_as_of_ms(self);
		for (guint i = 0; self->list != NULL && i < self->list->workers->len; i++)
			g_ptr_array_add(
				*out_workers,
				copy_worker(self, self->list->workers->pdata[i], *out_as_of_ms));
	} else if (why_not != NULL) {
		g_set_error_literal(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, why_not);
	}
	pthread_mutex_unlock(&self->mutex);
	return is_known;
}

gboolean keeper_get_quarantined(Keeper *self, GPtrArray **out_records, gint64 *out_as_of_ms)
{
	gint64 now_us = g_get_monotonic_time();
	gint64 now_ms = clock_now_ms(&self->clock->clock);
	const WorkerList *list;
	gboolean is_old;

	if (self->registry->ops->list == NULL)
		return FALSE;
	pthread_mutex_lock(&self->mutex);
	list = self->list;
	is_old = list == NULL || now_us - self->listed_at_us >=
					 keeper_plan_list_age_us(list->workers->len, list->n_reads);
	/* make no request while the registry is unreachable, because all monitored servers would
	 * send it at the same time */
	if (is_old && self->reachable && self->stop_by_us == 0)
		request_list_unless_requested(self, now_us);
	if (list != NULL) {
		*out_records = g_ptr_array_new_with_free_func(
			(GDestroyNotify)snowflake_client_worker_free);
		for (guint i = 0; i < list->quarantined->len; i++) {
			g_autoptr(SnowflakeClientWorker) copy =
				copy_worker(self, list->quarantined->pdata[i], now_ms);

			/* exclude quarantines that have ended since */
			if (copy->reserved_until_ms != 0)
				g_ptr_array_add(*out_records, g_steal_pointer(&copy));
		}
		*out_as_of_ms = list_as_of_ms(self);
	}
	pthread_mutex_unlock(&self->mutex);
	return list != NULL;
}

/* The length of reservations */

static gint64 ticks_of(const Keeper *self, gint64 length_ms)
{
	return (length_ms + self->layout->tick_ms - 1) / self->layout->tick_ms;
}

/* Returns the number of ticks from now that a reservation of @length_ms can cover, or 0 if no
 * reservation must be made. The end must not be further ahead of the registry's clock than
 * @length_ms plus the allowed skew, because other servers rely on this bound. */
static gint64 reach_ticks(const Keeper *self, gint64 length_ms)
{
	gint64 offset_ns = system_clock_offset_ns(self->clock);
	gint64 excess_ns =
		registry_clock_ahead_ns(&self->report.clock, offset_ns) - self->max_skew_ns;
	gint64 tick_ns = self->layout->tick_ms * CLOCK_NS_PER_MS;
	gint64 reach = ticks_of(self, length_ms);

	if (excess_ns > 0)
		reach -= (excess_ns + tick_ns - 1) / tick_ns;
	return reach >= ticks_of(self, MIN(MIN_REACH_MS, length_ms / 4)) ? reach : 0;
}

/* Returns the length that an extension would get now. */
static gint64 next_length_ms(const Keeper *self)
{
	return MIN(2 * self->length_ms, self->registry->max_length_ms);
}

/* The lease */

static void publish_reservation(Keeper *self, gint64 end_tick)
{
	self->facts.end_tick = end_tick;
	pthread_mutex_lock(&self->mutex);
	self->status.worker_id = (gint)self->lease->worker_id;
	self->status.reserved_until_ms = layout_tick_start_ms(self->layout, end_tick);
	self->status.reservation_ms = self->length_ms;
	pthread_mutex_unlock(&self->mutex);
	self->changed_is_due = TRUE;
}

static void publish_extending_fails(Keeper *self, gboolean fails)
{
	pthread_mutex_lock(&self->mutex);
	self->status.extending_fails = fails;
	pthread_mutex_unlock(&self->mutex);
}

/* Records that a reservation of @length_ms was confirmed. */
static void note_reservation(Keeper *self, gint64 length_ms, guint64 cursor, gint64 written_at_us)
{
	self->length_ms = length_ms;
	self->cursor_at_write = cursor;
	self->facts.written_at_us = written_at_us;
	self->facts.length_us = length_ms * G_TIME_SPAN_MILLISECOND;
	self->facts.failures = 0;
	self->facts.retry_at_us = 0;
}

/* Retires the lease. Returns the tick of the last ID, or the tick before the lease's first tick. */
static gint64 retire_lease(Keeper *self)
{
	self->last_tick = lease_retire(self->lease, self->layout);
	self->facts.has_lease = FALSE;
	self->facts.had_lease = TRUE;
	publish_extending_fails(self, FALSE);
	return self->last_tick;
}

/* Removes the lease from the generator. */
static void unpublish_lease(Keeper *self)
{
	generator_publish(self->generator, NULL);
	pthread_mutex_lock(&self->mutex);
	self->status.worker_id = -1;
	self->status.reserved_until_ms = 0;
	pthread_mutex_unlock(&self->mutex);
	self->changed_is_due = TRUE;
}

static void log_written(const Keeper *self, gint64 end_tick)
{
	g_autofree char *end = NULL;

	if (!log_shows(LOG_RESERVATION_WRITTEN))
		return;
	end = layout_tick_text(self->layout, end_tick);
	log_event(LOG_RESERVATION_WRITTEN, log_number("worker_id", self->lease->worker_id),
		  log_text("reserved_until", end),
		  log_number("took_us", g_get_monotonic_time() - self->facts.busy_since_us));
}

static void publish_lease(Keeper *self, const Reservation *reservation)
{
	KeeperPlanFacts *facts = &self->facts;
	gint64 length_ms = self->registry->first_length_ms;
	gint64 length_us = length_ms * G_TIME_SPAN_MILLISECOND;
	gint64 left_us = (reservation->end_tick - facts->now_tick) * facts->tick_us;
	gint64 first_tick = reservation->first_tick;
	g_autofree char *first = NULL, *end = NULL;

	/* with reclaim, correct times are more important than increasing IDs */
	if (!self->config.reclaim_on_step_back ||
	    self->last_tick <= facts->now_tick + self->max_ahead_ticks)
		first_tick = MAX(first_tick, self->last_tick + 1);
	self->lease = lease_new(self->layout, reservation->datacenter_id, reservation->worker_id,
				first_tick, reservation->end_tick);
	/* time of the write: the reservation's length minus its remaining time ago */
	note_reservation(self, length_ms, lease_last_cursor(self->lease),
			 facts->now_us - MAX(length_us - left_us, 0));
	generator_publish(self->generator, self->lease);
	facts->has_lease = TRUE;
	facts->waiting = FALSE;
	self->lease_began = FALSE;
	publish_reservation(self, reservation->end_tick);

	first = layout_tick_text(self->layout, MAX(first_tick, facts->now_tick));
	end = layout_tick_text(self->layout, reservation->end_tick);
	log_written(self, reservation->end_tick);
	log_event(LOG_WORKER_CLAIMED, log_number("datacenter_id", reservation->datacenter_id),
		  log_number("worker_id", reservation->worker_id), log_text("first", first),
		  log_text("reserved_until", end));
}

static void update_lease_facts(Keeper *self)
{
	KeeperPlanFacts *facts = &self->facts;
	guint64 cursor = facts->has_lease ? lease_last_cursor(self->lease) : 0;
	gint64 cursor_tick = (gint64)(cursor >> self->layout->sequence_bits);
	gint64 first_tick, reach;

	/* read the clock after the cursor, because otherwise IDs drawn in between would appear to
	 * be ahead of the clock */
	read_clock(self);
	if (!facts->has_lease)
		return;
	first_tick = self->lease->first_tick;
	facts->ids_from_tick = MAX(cursor_tick, first_tick) - self->max_ahead_ticks;
	self->lease_began =
		self->lease_began || facts->now_tick >= first_tick || cursor_tick >= first_tick;
	/* give up the lease only if the registry is reachable: otherwise no other worker ID can be
	 * claimed, and waiting for the clock is better */
	facts->last_id_ahead_of_clock =
		self->config.reclaim_on_step_back && self->report.is_reachable &&
		cursor_tick > facts->now_tick + self->max_ahead_ticks && self->lease_began;
	facts->extension_wanted = self->registry->extend_when_idle ||
				  atomic_load(&self->is_demanded) ||
				  cursor != self->cursor_at_write;
	reach = reach_ticks(self, next_length_ms(self));
	facts->clock_too_far_ahead = reach == 0;
	facts->next_end_tick = MIN(facts->now_tick + reach, layout_max_tick(self->layout));
}

/* The start and the end of the registry's operations */

static void note_failed_attempt(Keeper *self)
{
	self->facts.failures++;
	self->facts.retry_at_us = g_get_monotonic_time() +
				  keeper_plan_backoff_us(self->facts.failures, g_random_double());
	self->changed_is_due = TRUE;
}

static void stop_retrying(Keeper *self, GError *error)
{
	pthread_mutex_lock(&self->mutex);
	self->error = error;
	pthread_mutex_unlock(&self->mutex);
	self->facts.gave_up = TRUE;
	note_failed_attempt(self);
}

static void log_waiting(const Keeper *self, gint64 until_tick, const GError *error)
{
	g_autofree char *until = NULL;

	if (until_tick == G_MAXINT64) {
		log_event(LOG_WORKER_WAITING, log_text("why", error->message));
		return;
	}
	until = layout_tick_text(self->layout, until_tick);
	log_event(LOG_WORKER_WAITING, log_text("why", error->message), log_text("until", until));
}

static void handle_claim_result(Keeper *self, RegistryResult *result)
{
	KeeperPlanFacts *facts = &self->facts;
	const GError *error = result->error;
	gboolean is_waiting = g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT);
	gboolean is_fatal = g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);

	if (error == NULL) {
		publish_lease(self, &result->reservation);
	} else if (!is_fatal && facts->is_stopping) {
		return; /* this is not a failure, because the operation may have been cancelled */
	} else if (is_waiting) {
		if (!facts->waiting || g_strcmp0(self->waiting_why, error->message) != 0)
			log_waiting(self, result->wait_until_tick, error);
		pthread_mutex_lock(&self->mutex);
		g_free(self->waiting_why);
		self->waiting_why = g_strdup(error->message);
		pthread_mutex_unlock(&self->mutex);
		facts->waiting = TRUE;
		facts->wait_until_tick = result->wait_until_tick;
		facts->failures = 0;
		facts->retry_at_us = g_get_monotonic_time() + keeper_plan_backoff_us(1, 0);
	} else if (!is_fatal && facts->had_lease) {
		if (facts->failures == 0)
			log_waiting(self, G_MAXINT64, error);
		facts->wait_until_tick = 0; /* set by an earlier claim that had to wait */
		note_failed_attempt(self);
	} else { /* a server that cannot start exits; a server that has served keeps trying */
		stop_retrying(self, g_steal_pointer(&result->error));
	}
}

static void handle_extension_result(Keeper *self, RegistryResult *result)
{
	KeeperPlanFacts *facts = &self->facts;
	gint64 end_us = facts->now_us + (facts->end_tick + 1 - facts->now_tick) * facts->tick_us;
	gint64 now_us = g_get_monotonic_time();
	gint64 since_us = facts->failures > 0 ? self->failing_since_us : facts->busy_since_us;
	/* the extension took longer than the reservation lasted */
	gboolean was_late = facts->busy_since_us < end_us && now_us >= end_us;
	const GError *error = result->error;

	publish_extending_fails(self, error != NULL);
	if (error == NULL) {
		if (facts->failures > 0 || was_late)
			log_event(LOG_EXTEND_RECOVERED, log_number("failures", facts->failures),
				  log_number("failed_ms",
					     (now_us - since_us) / G_TIME_SPAN_MILLISECOND));
		lease_extend(self->lease, result->end_tick);
		log_written(self, result->end_tick);
		note_reservation(self, self->next_length_ms, self->next_cursor,
				 facts->busy_since_us);
		publish_reservation(self, result->end_tick);
	} else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL)) {
		stop_retrying(self, g_steal_pointer(&result->error));
	} else if (!facts->is_stopping) {
		if (facts->failures == 0) {
			g_autofree char *end = layout_tick_text(self->layout, facts->end_tick);

			self->failing_since_us = facts->now_us;
			log_event(LOG_EXTEND_FAILED, log_text("error", error->message),
				  log_text("reserved_until", end));
		}
		note_failed_attempt(self);
	}
}

static void handle_release_result(const Keeper *self, const GError *error)
{
	const KeeperPlanFacts *facts = &self->facts;
	const Lease *lease = self->lease;
	g_autofree char *last = NULL, *end = NULL;

	if (error == NULL) {
		last = self->last_tick >= lease->first_tick
			       ? layout_tick_text(self->layout, self->last_tick)
			       : g_strdup("none");
		log_event(LOG_WORKER_RELEASED, log_number("datacenter_id", lease->datacenter_id),
			  log_number("worker_id", lease->worker_id), log_text("last", last));
		return;
	}
	end = layout_tick_text(self->layout, facts->end_tick);
	/* another server already has the worker ID, possibly since before the reservation's end */
	if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		log_event(LOG_WORKER_LOST, log_text("error", error->message));
	else if (facts->is_stopping && facts->now_tick <= facts->end_tick)
		log_event(LOG_RELEASE_FAILED, log_text("error", error->message),
			  log_text("reserved_until", end),
			  log_text("meaning", "until then, no server can use the worker ID, so "
					      "that no ID is issued twice"));
	else
		log_event(LOG_RELEASE_FAILED, log_text("error", error->message),
			  log_text("reserved_until", end));
}

static void handle_result(Keeper *self, RegistryResult *result)
{
	RegistryOperation operation = self->facts.under_way;

	self->facts.under_way = REGISTRY_NONE;
	atomic_store(&self->busy_since_us, 0);
	/* Handles the loss of the record to another server, which may have begun before the
	 * reservation's end. So no more IDs may be issued, regardless of the current operation. */
	if (self->facts.has_lease &&
	    g_error_matches(result->error, REGISTRY_ERROR, REGISTRY_ERROR_LOST)) {
		retire_lease(self);
		unpublish_lease(self);
		self->facts.waiting = FALSE;
		self->facts.failures = 0;
		self->facts.retry_at_us = 0;
		log_event(LOG_WORKER_LOST, log_text("error", result->error->message));
	} else if (operation == REGISTRY_CLAIM) {
		handle_claim_result(self, result);
	} else if (operation == REGISTRY_EXTEND) {
		handle_extension_result(self, result);
	} else if (operation == REGISTRY_RELEASE) {
		handle_release_result(self, result->error);
	}
	g_clear_error(&result->error);
}

static void poll_registry(Keeper *self)
{
	const RegistryReport *report = &self->report;
	gboolean has_ended, list_wanted;

	pthread_mutex_lock(&self->mutex);
	list_wanted = self->list_wanted;
	self->list_wanted = FALSE;
	pthread_mutex_unlock(&self->mutex);
	if (list_wanted)
		self->registry->ops->list(self->registry);
	/* only a release is independent of the clock */
	if (self->facts.clock_outside_layout && !self->facts.is_stopping)
		return;
	has_ended = self->registry->ops->poll(self->registry, self->inside_tick,
					      self->registry_stop_by_us, &self->report);
	pthread_mutex_lock(&self->mutex);
	self->status.claimed_at_ms = report->claimed_at_ms;
	self->status.session = report->session;
	self->status.registry_id = report->registry_id;
	self->status.peers_skew_known = report->peers.known;
	self->status.peers_skew_ns = report->peers.ahead_ns;
	self->registry_clock = report->clock;
	if (g_strcmp0(self->hindrance, report->hindrance) != 0) {
		g_free(self->hindrance);
		self->hindrance = g_strdup(report->hindrance);
	}
	pthread_mutex_unlock(&self->mutex);
	if (has_ended)
		handle_result(self, &self->report.result);
	self->facts.retry_now = self->facts.retry_now || report->retry_now;
}

static void begin_operation(Keeper *self, RegistryOperation operation)
{
	KeeperPlanFacts *facts = &self->facts;
	gint64 ticks = 0;

	facts->under_way = operation;
	facts->busy_since_us = facts->now_us;
	facts->cancelled = FALSE;
	facts->retry_now = FALSE;
	atomic_store(&self->busy_since_us, facts->now_us);
	switch (operation) {
	case REGISTRY_NONE:
		break;
	case REGISTRY_CLAIM:
		ticks = reach_ticks(self, self->registry->first_length_ms);
		if (ticks == 0) {
			RegistryResult result = {
				.error = g_error_new_literal(
					REGISTRY_ERROR, REGISTRY_ERROR_WAIT,
					"this machine's clock is too far ahead of the registry's "
					"(see event=clock-differs); correct the clock"),
				.wait_until_tick = facts->now_tick + ticks_of(self, CLAIM_RETRY_MS),
			};

			handle_result(self, &result);
			return;
		}
		break;
	case REGISTRY_EXTEND:
		/* a later demand may need the next extension */
		atomic_store(&self->is_demanded, FALSE);
		self->next_cursor = lease_last_cursor(self->lease);
		self->next_length_ms = next_length_ms(self);
		ticks = facts->next_end_tick;
		break;
	case REGISTRY_RELEASE:
		ticks = retire_lease(self);
		if (!facts->is_stopping)
			unpublish_lease(self);
		break;
	}
	self->registry->ops->begin(self->registry, operation, ticks);
}

/* The thread */

static void publish_state(Keeper *self)
{
	KeeperState old = self->status.state;
	KeeperState state = keeper_plan_state(&self->facts);

	atomic_store(&self->ids_at_us, keeper_plan_ids_at_us(&self->facts));
	/* during a stop, only its end is published, because the states of a lease are then
	 * irrelevant */
	if (state != old && (!self->facts.is_stopping || self->facts.has_stopped)) {
		if (!keeper_plan_may_follow(old, state))
			g_critical("the worker cannot go from %s to %s", keeper_state_name(old),
				   keeper_state_name(state));
		pthread_mutex_lock(&self->mutex);
		self->status.state = state;
		pthread_mutex_unlock(&self->mutex);
		log_event(LOG_STATE, log_text("from", keeper_state_name(old)),
			  log_text("to", keeper_state_name(state)));
		if (state == KEEPER_UNAVAILABLE) {
			g_autofree char *end = layout_tick_text(self->layout, self->facts.end_tick);

			log_event(LOG_RESERVATION_SPENT, log_text("reserved_until", end));
		}
		self->changed_is_due = TRUE;
	}
	if (self->changed_is_due && self->config.changed != NULL)
		self->config.changed(self->config.user_data);
	self->changed_is_due = FALSE;
}

gint64 keeper_run_round(Keeper *self)
{
	KeeperPlanFacts *facts = &self->facts;
	KeeperPlan plan;
	gint64 until_us;

	facts->now_us = g_get_monotonic_time();
	/* notify callers again, because during such a long round, the thread seemed to hang */
	if (facts->now_us - atomic_load(&self->round_began_at_us) >= KEEPER_PLAN_HANGS_US)
		self->changed_is_due = TRUE;
	atomic_store(&self->round_began_at_us, facts->now_us);
	pthread_mutex_lock(&self->mutex);
	facts->is_stopping = self->stop_by_us != 0;
	self->registry_stop_by_us = self->stop_by_us;
	pthread_mutex_unlock(&self->mutex);

	discipline_clock(self);
	read_clock(self);
	poll_registry(self);
	take_list(self);
	/* the poll may have taken some time, or may have read the registry's clock */
	discipline_clock(self);
	update_lease_facts(self);
	publish_state(self);

	plan = keeper_plan_next(facts);
	switch (plan.action) {
	case KEEPER_PLAN_NOTHING:
		until_us = MIN(plan.until_us, self->discipline_at_us);
		return facts->clock_outside_layout ? until_us
						   : MIN(until_us, self->report.poll_at_us);
	case KEEPER_PLAN_BEGIN:
		begin_operation(self, plan.operation);
		break;
	case KEEPER_PLAN_CANCEL:
		facts->cancelled = TRUE;
		if (self->registry->ops->cancel != NULL)
			self->registry->ops->cancel(self->registry);
		break;
	case KEEPER_PLAN_STOP:
		facts->has_stopped = TRUE;
		publish_state(self);
		break;
	}
	return 0;
}

gboolean keeper_has_stopped(const Keeper *self)
{
	return self->facts.has_stopped;
}

static void *keeper_thread(void *user_data)
{
	Keeper *self = user_data;

	fork_guard_enter();
	while (!keeper_has_stopped(self)) {
		gint64 until_us = keeper_run_round(self);

		if (until_us == 0)
			continue;
		fork_guard_pause();
		pthread_mutex_lock(&self->mutex);
		if (!self->poked)
			clock_wait_until(&self->wake, &self->mutex, until_us);
		self->poked = FALSE;
		pthread_mutex_unlock(&self->mutex);
		fork_guard_resume();
	}
	fork_guard_leave();
	pthread_mutex_lock(&self->mutex);
	self->finished = TRUE;
	pthread_cond_signal(&self->end);
	pthread_mutex_unlock(&self->mutex);
	return NULL;
}

static void wake_thread(gpointer user_data)
{
	Keeper *self = user_data;

	pthread_mutex_lock(&self->mutex);
	self->poked = TRUE;
	pthread_cond_signal(&self->wake);
	pthread_mutex_unlock(&self->mutex);
}

Keeper *keeper_new(Registry *registry, Generator *generator, SystemClock *clock,
		   const KeeperConfig *config)
{
	Keeper *self = g_new0(Keeper, 1);

	self->registry = registry;
	self->generator = generator;
	self->clock = clock;
	self->config = *config;
	self->layout = &generator->layout;
	self->max_skew_ns = config->max_clock_skew_ms * CLOCK_NS_PER_MS;
	self->max_ahead_ticks = config->max_ahead_ms / self->layout->tick_ms;
	self->facts.tick_us = self->layout->tick_ms * G_TIME_SPAN_MILLISECOND;
	self->status = (KeeperStatus){
		.datacenter_id = config->datacenter_id,
		.worker_id = -1,
		.session = registry->first_report.session,
	};
	self->report = registry->first_report;
	postpone_list(self);
	atomic_init(&self->round_began_at_us, g_get_monotonic_time());
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->wake, NULL);
	pthread_cond_init(&self->end, NULL);
	registry->wake = wake_thread;
	registry->wake_data = self;
	return self;
}

void keeper_start(Keeper *self)
{
	int code;

	atomic_store(&self->round_began_at_us, g_get_monotonic_time());
	code = thread_start(&self->thread, "keeper", keeper_thread, self);
	self->running = code == 0;
	if (self->running)
		return;
	stop_retrying(self, g_error_new(REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
					"cannot start a thread: %s", g_strerror(code)));
	publish_state(self);
}

void keeper_ask_to_stop(Keeper *self, gint64 by_us)
{
	pthread_mutex_lock(&self->mutex);
	self->stop_by_us = by_us;
	self->poked = TRUE;
	pthread_cond_signal(&self->wake);
	pthread_mutex_unlock(&self->mutex);
}

gboolean keeper_stop(Keeper *self, gint64 timeout_ms)
{
	gint64 by_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	gint64 until_us = by_us + END_TIMEOUT_US;
	gboolean finished;

	if (self->running) {
		keeper_ask_to_stop(self, by_us);
		pthread_mutex_lock(&self->mutex);
		/* check the clock, and not the result of the wait, which a test's fake clock ends
		 * early */
		while (!self->finished && g_get_monotonic_time() < until_us)
			clock_wait_until(&self->end, &self->mutex, until_us);
		finished = self->finished;
		pthread_mutex_unlock(&self->mutex);
		if (!finished) {
			g_autofree char *disk =
				disk_call_describe_hanging(timeout_ms * G_TIME_SPAN_MILLISECOND);
			g_autofree char *error = g_strdup_printf(
				"no worker ID within %" G_GINT64_FORMAT " ms%s%s", timeout_ms,
				disk != NULL ? ": " : "", disk != NULL ? disk : "");
			g_autofree char *end = NULL;
			KeeperStatus status;

			keeper_get_status(self, &status);
			end = status.reserved_until_ms != 0 ? text_time_ms(status.reserved_until_ms)
							    : g_strdup("none");
			log_event(LOG_RELEASE_FAILED, log_text("error", error),
				  log_text("reserved_until", end));
			return FALSE;
		}
		pthread_join(self->thread, NULL);
		self->running = FALSE;
	}
	if (!self->facts.has_stopped) { /* the keeper has never run */
		self->facts.has_stopped = TRUE;
		publish_state(self);
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
	g_free(self->waiting_why);
	g_free(self->hindrance);
	g_clear_error(&self->error);
	worker_list_free(self->list);
	worker_list_free(self->report.list);
	g_free(self);
}

/* Returns whether a registry operation hangs, for example in a system call. */
static gboolean operation_hangs(Keeper *self)
{
	gint64 since_us = atomic_load(&self->busy_since_us);

	return since_us != 0 && g_get_monotonic_time() - since_us >= KEEPER_PLAN_HANGS_US;
}

void keeper_get_status(Keeper *self, KeeperStatus *out_status)
{
	gint64 now_ms = clock_now_ms(&self->clock->clock);
	gint64 now_us = g_get_monotonic_time();
	gboolean hangs, is_stuck, stopping;
	RegistryClock clock;

	pthread_mutex_lock(&self->mutex);
	*out_status = self->status;
	clock = self->registry_clock;
	stopping = self->stop_by_us != 0;
	pthread_mutex_unlock(&self->mutex);
	hangs = operation_hangs(self);
	/* the thread cannot publish the state of the lease */
	is_stuck = hangs || now_us - atomic_load(&self->round_began_at_us) >= KEEPER_PLAN_HANGS_US;
	/* with a worker ID and without a stop, the operation is an extension */
	if (out_status->worker_id >= 0 && !stopping && hangs)
		out_status->extending_fails = TRUE;
	out_status->registry_clock_known = clock.known;
	if (clock.known)
		out_status->registry_skew_ns =
			system_clock_offset_ns(self->clock) -
			(clock.min_offset_ns + (clock.max_offset_ns - clock.min_offset_ns) / 2);
	out_status->reserved_until_ms =
		end_unless_past_ms(self, out_status->reserved_until_ms, now_ms);
	if (out_status->reserved_until_ms == 0)
		out_status->reservation_ms = 0;
	if (out_status->state == KEEPER_SERVING && is_stuck && out_status->reserved_until_ms == 0)
		out_status->state = KEEPER_UNAVAILABLE;
}

GError *keeper_error(Keeper *self)
{
	GError *error;

	pthread_mutex_lock(&self->mutex);
	error = self->error != NULL ? g_error_copy(self->error) : NULL;
	pthread_mutex_unlock(&self->mutex);
	return error;
}

char *keeper_waiting_why(Keeper *self)
{
	char *why = NULL;

	pthread_mutex_lock(&self->mutex);
	if (self->hindrance != NULL)
		why = g_strdup(self->hindrance);
	else if (self->status.worker_id < 0 && self->status.state == KEEPER_WAITING)
		why = g_strdup(self->waiting_why);
	pthread_mutex_unlock(&self->mutex);
	if (why == NULL && operation_hangs(self))
		why = disk_call_describe_hanging(KEEPER_PLAN_HANGS_US);
	return why;
}

gint64 keeper_demand(Keeper *self)
{
	gint64 ids_at_us = atomic_load(&self->ids_at_us);
	gint64 now_us = g_get_monotonic_time();

	/* ignore a long round: unless an operation hangs, the process was only suspended, and the
	 * round ends soon */
	if (ids_at_us == KEEPER_PLAN_NEVER || operation_hangs(self))
		return RETRY_MS;
	/* the thread will wake up at that time */
	if (ids_at_us > now_us)
		return (ids_at_us - now_us - 1) / G_TIME_SPAN_MILLISECOND + 1;
	if (!atomic_exchange(&self->is_demanded, TRUE))
		wake_thread(self);
	return 0;
}

gint64 keeper_round_age_ms(Keeper *self)
{
	return (g_get_monotonic_time() - atomic_load(&self->round_began_at_us)) /
	       G_TIME_SPAN_MILLISECOND;
}
