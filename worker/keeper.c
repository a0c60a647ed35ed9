/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include "common/fork-guard.h"
#include "common/log.h"
#include "core/text.h"
#include "worker/file/disk-call.h"
#include "worker/keeper-clock.h"
#include "worker/keeper-lease.h"
#include "worker/keeper-private.h"
#include "worker/keeper-workers.h"

/*
 * The thread goes round: discipline the clock, go on with the registry's operation, take in what
 * has changed, show the state that this amounts to, begin what the plan says or sleep. Whatever an
 * operation comes to is a fact for the next round. Others leave word (asked, stop_by_us,
 * list_wanted), poke the thread, and read what is shown.
 */

#define RETRY_MS 1000 /* for callers, when nobody can tell */

/* For the thread to end, once it waits for the registry no more: a busy machine may hold it up. */
#define END_PATIENCE_US G_USEC_PER_SEC

static void set_state(Keeper *self, KeeperState state)
{
	KeeperState old = self->status.state;

	if (!keeper_state_may_follow(old, state))
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
	self->news = TRUE;
}

static void begin_round(Keeper *self)
{
	KeeperPlanFacts *facts = &self->facts;

	facts->now_us = g_get_monotonic_time();
	/* whoever was told of something in a round that took so long has found the thread stuck */
	if (facts->now_us - atomic_load(&self->round_began_us) >= KEEPER_PLAN_HANGS_US)
		self->news = TRUE;
	atomic_store(&self->round_began_us, facts->now_us);
	pthread_mutex_lock(&self->mutex);
	facts->stopping = self->stop_by_us != 0;
	self->registry->stop_by_us = self->stop_by_us;
	pthread_mutex_unlock(&self->mutex);
}

static void show(Keeper *self)
{
	KeeperState state = keeper_plan_state(&self->facts);

	atomic_store(&self->ids_at_us, keeper_plan_ids_at_us(&self->facts));
	/* of a stop only the end is shown: what a lease goes through till then means nothing */
	if (state != self->status.state && (!self->facts.stopping || self->facts.stopped))
		set_state(self, state);
	if (self->news && self->config.changed != NULL)
		self->config.changed(self->config.user_data);
	self->news = FALSE;
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

	fork_guard_pause();
	pthread_mutex_lock(&self->mutex);
	if (!self->poked)
		pthread_cond_timedwait(&self->wake, &self->mutex, &until);
	self->poked = FALSE;
	pthread_mutex_unlock(&self->mutex);
	fork_guard_resume();
}

/* Returns: when the next round is due, if nothing pokes the thread before: monotonic; 0: now */
static gint64 follow(Keeper *self, const KeeperPlan *plan)
{
	gint64 until_us = MIN(plan->until_us, self->next_discipline_us);

	switch (plan->action) {
	case KEEPER_PLAN_NOTHING:
		return self->facts.outside ? until_us : MIN(until_us, self->registry->poll_at_us);
	case KEEPER_PLAN_BEGIN:
		keeper_lease_begin(self, plan->operation);
		break;
	case KEEPER_PLAN_CANCEL:
		keeper_lease_cancel(self);
		break;
	case KEEPER_PLAN_STOP:
		self->facts.stopped = TRUE;
		show(self);
		break;
	}
	return 0;
}

gint64 keeper_run_round(Keeper *self)
{
	KeeperPlan plan;

	begin_round(self);
	keeper_clock_discipline(self);
	keeper_clock_look(self);
	keeper_workers_ask(self);
	keeper_lease_poll(self);
	keeper_workers_take(self);
	/* the poll may have taken its time, or read the registry's clock */
	keeper_clock_discipline(self);
	keeper_lease_look(self);
	show(self);
	plan = keeper_plan_next(&self->facts);
	return follow(self, &plan);
}

gboolean keeper_has_stopped(const Keeper *self)
{
	return self->facts.stopped;
}

static void *keeper_thread(void *user_data)
{
	Keeper *self = user_data;

	fork_guard_enter();
	while (!keeper_has_stopped(self)) {
		gint64 until_us = keeper_run_round(self);

		if (until_us > 0)
			sleep_until(self, until_us);
	}
	fork_guard_leave();
	pthread_mutex_lock(&self->mutex);
	self->finished = TRUE;
	pthread_cond_signal(&self->end);
	pthread_mutex_unlock(&self->mutex);
	return NULL;
}

/* With the mutex held. */
static void poke(Keeper *self)
{
	self->poked = TRUE;
	pthread_cond_signal(&self->wake);
}

static void wake_thread(gpointer user_data)
{
	Keeper *self = user_data;

	pthread_mutex_lock(&self->mutex);
	poke(self);
	pthread_mutex_unlock(&self->mutex);
}

static void init_threads(Keeper *self)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&self->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&self->wake, &monotonic);
	pthread_cond_init(&self->end, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

Keeper *keeper_new(Registry *registry, Generator *generator, SystemClock *clock,
		   const KeeperConfig *config)
{
	Keeper *self = g_new0(Keeper, 1);

	self->registry = registry;
	self->generator = generator;
	self->clock = clock;
	self->config = *config;
	self->layout = generator_layout(generator);
	self->facts.tick_us = self->layout->tick_ms * G_TIME_SPAN_MILLISECOND;
	self->status = (KeeperStatus){
		.datacenter_id = config->datacenter_id,
		.worker_id = -1,
		.session = registry->session,
	};
	keeper_workers_put_off(self);
	atomic_init(&self->round_began_us, g_get_monotonic_time());
	init_threads(self);
	registry->wake = wake_thread;
	registry->wake_data = self;
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
	keeper_lease_end_trying(self, g_error_new(REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
						  "cannot start a thread: %s", g_strerror(code)));
	show(self);
}

void keeper_ask_to_stop(Keeper *self, gint64 by_us)
{
	pthread_mutex_lock(&self->mutex);
	self->stop_by_us = by_us;
	poke(self);
	pthread_mutex_unlock(&self->mutex);
}

/* Tells the thread to stop, and to wait for the registry till @by_us. %FALSE: it hangs. */
static gboolean finish_thread(Keeper *self, gint64 by_us)
{
	gint64 until_us = by_us + END_PATIENCE_US;
	struct timespec until = monotonic_time(until_us);
	gboolean finished;

	keeper_ask_to_stop(self, by_us);
	pthread_mutex_lock(&self->mutex);
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
	g_autofree char *disk = disk_call_describe_hanging(timeout_ms * G_TIME_SPAN_MILLISECOND);
	g_autofree char *error =
		g_strdup_printf("no answer about the worker ID within %" G_GINT64_FORMAT " ms%s%s",
				timeout_ms, disk != NULL ? ": " : "", disk != NULL ? disk : "");
	KeeperStatus status;

	keeper_get_status(self, &status);
	end = status.reserved_until_ms != 0 ? text_time_ms(status.reserved_until_ms)
					    : g_strdup("none");
	log_event(LOG_HAND_BACK_FAILED, log_text("error", error), log_text("reserved_until", end));
}

gboolean keeper_stop(Keeper *self, gint64 timeout_ms)
{
	gint64 by_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;

	if (self->running) {
		if (!finish_thread(self, by_us)) {
			log_hanging(self, timeout_ms);
			return FALSE;
		}
		pthread_join(self->thread, NULL);
		self->running = FALSE;
	}
	if (!self->facts.stopped) { /* it never ran */
		self->facts.stopped = TRUE;
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
	g_free(self->waiting_why);
	g_free(self->hindrance);
	g_clear_error(&self->error);
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	g_clear_pointer(&self->quarantined, g_ptr_array_unref);
	g_free(self);
}

/* The registry hangs, maybe in a call. */
static gboolean operation_hangs(Keeper *self)
{
	gint64 since_us = atomic_load(&self->busy_since_us);

	return since_us != 0 && g_get_monotonic_time() - since_us >= KEEPER_PLAN_HANGS_US;
}

/* The thread cannot show what became of the lease, for whatever reason. */
static gboolean is_stuck(Keeper *self)
{
	gint64 round_us = g_get_monotonic_time() - atomic_load(&self->round_began_us);

	return operation_hangs(self) || round_us >= KEEPER_PLAN_HANGS_US;
}

/* An operation that hangs while there is a worker ID, and the server does not stop, extends. */
static void show_hanging(Keeper *self, gboolean stopping, KeeperStatus *status)
{
	if (status->worker_id >= 0 && !stopping && operation_hangs(self))
		status->extending_fails = TRUE;
}

static void show_registry_clock(const Keeper *self, const RegistryClock *clock,
				KeeperStatus *status)
{
	gint64 middle_ns = clock->least_ns + (clock->most_ns - clock->least_ns) / 2;

	status->registry_clock_known = clock->known;
	if (clock->known)
		status->registry_skew_ns = system_clock_offset_ns(self->clock) - middle_ns;
}

void keeper_get_status(Keeper *self, KeeperStatus *out_status)
{
	gint64 now_ms = clock_now_ms(&self->clock->clock);
	RegistryClock clock;
	gboolean stopping;

	pthread_mutex_lock(&self->mutex);
	*out_status = self->status;
	clock = self->registry_clock;
	stopping = self->stop_by_us != 0;
	pthread_mutex_unlock(&self->mutex);
	show_hanging(self, stopping, out_status);
	show_registry_clock(self, &clock, out_status);
	out_status->reserved_until_ms =
		keeper_clock_reserved_until_ms(self, out_status->reserved_until_ms, now_ms);
	if (out_status->reserved_until_ms == 0)
		out_status->reservation_ms = 0;
	if (out_status->state == KEEPER_SERVING && is_stuck(self) &&
	    out_status->reserved_until_ms == 0)
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

	/* after a pause of the whole process the thread's round is long too, and about to end */
	if (ids_at_us == KEEPER_PLAN_NEVER || operation_hangs(self))
		return RETRY_MS;
	/* the thread goes on by itself then */
	if (ids_at_us > now_us)
		return (ids_at_us - now_us - 1) / G_TIME_SPAN_MILLISECOND + 1;
	if (!atomic_exchange(&self->asked, TRUE))
		wake_thread(self);
	return 0;
}

gint64 keeper_idle_ms(Keeper *self)
{
	return (g_get_monotonic_time() - atomic_load(&self->round_began_us)) /
	       G_TIME_SPAN_MILLISECOND;
}
