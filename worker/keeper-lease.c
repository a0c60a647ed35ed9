/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-lease.h"

#include "common/log.h"
#include "worker/keeper-clock.h"
#include "worker/keeper-private.h"

#define MIN_REACH_MS 1000 /* a shorter reservation is not worth a write */

static gint64 ticks_of(const Keeper *self, gint64 length_ms)
{
	return (length_ms + self->layout->tick_ms - 1) / self->layout->tick_ms;
}

/* Returns the number of ticks from now that a reservation of @length_ms can cover, or 0 if it must
 * not be made. Its end must not be further ahead of the registry's clock than @length_ms plus the
 * allowed skew: other servers rely on this bound. */
static gint64 reach_ticks(const Keeper *self, gint64 length_ms)
{
	gint64 reach = ticks_of(self, length_ms) - keeper_clock_excess_ticks(self);

	return reach >= ticks_of(self, MIN(MIN_REACH_MS, length_ms / 4)) ? reach : 0;
}

/* The length that an extension now would have. */
static gint64 next_length_ms(const Keeper *self)
{
	return MIN(2 * self->length_ms, self->registry->max_length_ms);
}

static gint64 max_ahead_ticks(const Keeper *self)
{
	return self->config.max_ahead_ms / self->layout->tick_ms;
}

static gboolean is_ahead(const Keeper *self, gint64 tick)
{
	return tick > self->facts.now_tick + max_ahead_ticks(self);
}

/* What is shown */

static void show_reserved(Keeper *self, gint64 end_tick)
{
	self->facts.end_tick = end_tick;
	pthread_mutex_lock(&self->mutex);
	self->status.reserved_until_ms = layout_tick_start_ms(self->layout, end_tick);
	self->status.reservation_ms = self->length_ms;
	pthread_mutex_unlock(&self->mutex);
	self->news = TRUE;
}

static void show_worker(Keeper *self, const Lease *lease)
{
	pthread_mutex_lock(&self->mutex);
	self->status.worker_id = (gint)lease->worker_id;
	pthread_mutex_unlock(&self->mutex);
}

static void show_extending_fails(Keeper *self, gboolean fails)
{
	pthread_mutex_lock(&self->mutex);
	self->status.extending_fails = fails;
	pthread_mutex_unlock(&self->mutex);
}

static void show_registry(Keeper *self)
{
	const Registry *registry = self->registry;

	pthread_mutex_lock(&self->mutex);
	self->status.claimed_at_ms = registry->claimed_at_ms;
	self->status.session = registry->session;
	self->status.peers_skew_known = registry->peers.known;
	self->status.peers_skew_ns = registry->peers.ahead_ns;
	self->registry_clock = registry->clock;
	if (g_strcmp0(self->hindrance, registry->hindrance) != 0) {
		g_free(self->hindrance);
		self->hindrance = g_strdup(registry->hindrance);
	}
	pthread_mutex_unlock(&self->mutex);
}

static void show_no_worker(Keeper *self)
{
	pthread_mutex_lock(&self->mutex);
	self->status.worker_id = -1;
	self->status.reserved_until_ms = 0;
	pthread_mutex_unlock(&self->mutex);
	self->news = TRUE;
}

/* Attempts */

static void note_failure(Keeper *self)
{
	self->facts.failures++;
	self->facts.retry_at_us = g_get_monotonic_time() +
				  keeper_plan_backoff_us(self->facts.failures, g_random_double());
	self->news = TRUE;
}

static void forget_failures(Keeper *self)
{
	self->facts.failures = 0;
	self->facts.retry_at_us = 0;
}

/* A reservation of @length_ms was confirmed. */
static void note_write(Keeper *self, gint64 length_ms, guint64 cursor, gint64 written_at_us)
{
	self->length_ms = length_ms;
	self->cursor_at_write = cursor;
	self->facts.written_at_us = written_at_us;
	self->facts.length_us = length_ms * G_TIME_SPAN_MILLISECOND;
	forget_failures(self);
}

void keeper_lease_end_trying(Keeper *self, GError *error)
{
	pthread_mutex_lock(&self->mutex);
	self->error = error;
	pthread_mutex_unlock(&self->mutex);
	self->facts.ended = TRUE;
	note_failure(self);
}

/* The lease */

/* Returns: the tick of the last ID, or the one before the first */
static gint64 retire(Keeper *self)
{
	self->last_tick = lease_retire(self->lease, self->layout);
	self->facts.has_lease = FALSE;
	self->facts.had_lease = TRUE;
	show_extending_fails(self, FALSE);
	return self->last_tick;
}

/* There is none any more. */
static void withdraw(Keeper *self)
{
	generator_publish(self->generator, NULL);
	show_no_worker(self);
}

static gint64 first_tick_of(const Keeper *self, const Reservation *reservation)
{
	/* true time goes before the order of IDs */
	if (self->config.reclaim_on_step_back && is_ahead(self, self->last_tick))
		return reservation->first_tick;
	return MAX(reservation->first_tick, self->last_tick + 1);
}

/* When what ends at @end_tick would have been written, had it taken no time. */
static gint64 written_at_us(const Keeper *self, gint64 end_tick, gint64 length_ms)
{
	const KeeperPlanFacts *facts = &self->facts;
	gint64 left_us = (end_tick - facts->now_tick) * facts->tick_us;

	return facts->now_us - MAX(length_ms * G_TIME_SPAN_MILLISECOND - left_us, 0);
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

static void hold(Keeper *self, const Reservation *reservation)
{
	gint64 length_ms = self->registry->first_length_ms;
	g_autofree char *first = NULL, *end = NULL;
	gint64 first_tick;

	first_tick = first_tick_of(self, reservation);
	self->lease = lease_new(self->layout, reservation->datacenter_id, reservation->worker_id,
				first_tick, reservation->end_tick);
	note_write(self, length_ms, lease_last_cursor(self->lease),
		   written_at_us(self, reservation->end_tick, length_ms));
	generator_publish(self->generator, self->lease);
	self->facts.has_lease = TRUE;
	self->facts.waiting = FALSE;
	self->lease_began = FALSE;
	show_reserved(self, reservation->end_tick);
	show_worker(self, self->lease);

	first = layout_tick_text(self->layout, MAX(first_tick, self->facts.now_tick));
	end = layout_tick_text(self->layout, reservation->end_tick);
	log_written(self, reservation->end_tick);
	log_event(LOG_WORKER_CLAIMED, log_number("datacenter_id", reservation->datacenter_id),
		  log_number("worker_id", reservation->worker_id), log_text("first", first),
		  log_text("reserved_until", end));
}

/* The record is another's, who may have begun before its end: nothing more is issued from it. */
static void lose(Keeper *self, const RegistryResult *result)
{
	retire(self);
	withdraw(self);
	self->facts.waiting = FALSE;
	forget_failures(self);
	log_event(LOG_WORKER_LOST, log_text("error", result->error->message));
}

void keeper_lease_look(Keeper *self)
{
	KeeperPlanFacts *facts = &self->facts;

	guint64 cursor = facts->has_lease ? lease_last_cursor(self->lease) : 0;
	gint64 cursor_tick = (gint64)(cursor >> self->layout->sequence_bits);
	gint64 first_tick, reach;

	/* Read the clock after the cursor: IDs drawn in between would seem to be ahead of it. */
	keeper_clock_look(self);
	if (!facts->has_lease)
		return;
	first_tick = self->lease->first_tick;
	facts->ids_from_tick = MAX(cursor_tick, first_tick) - max_ahead_ticks(self);
	self->lease_began =
		self->lease_began || facts->now_tick >= first_tick || cursor_tick >= first_tick;
	/* while nothing can be claimed, it is better to wait for the clock */
	facts->ahead = self->config.reclaim_on_step_back && self->registry->reachable &&
		       is_ahead(self, cursor_tick) && self->lease_began;
	facts->wanted = self->registry->extend_when_idle || atomic_load(&self->asked) ||
			cursor != self->cursor_at_write;
	reach = reach_ticks(self, next_length_ms(self));
	facts->out_of_reach = reach == 0;
	facts->next_end_tick = MIN(facts->now_tick + reach, layout_max_tick(self->layout));
}

/* What the operations come to */

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

static void wait_for_worker(Keeper *self, gint64 until_tick, const GError *error)
{
	if (!self->facts.waiting || g_strcmp0(self->waiting_why, error->message) != 0)
		log_waiting(self, until_tick, error);
	pthread_mutex_lock(&self->mutex);
	g_free(self->waiting_why);
	self->waiting_why = g_strdup(error->message);
	pthread_mutex_unlock(&self->mutex);
	self->facts.waiting = TRUE;
	self->facts.wait_until_tick = until_tick;
	self->facts.failures = 0;
	self->facts.retry_at_us = g_get_monotonic_time() + keeper_plan_backoff_us(1, 0);
}

static void note_claim_failed(Keeper *self, const GError *error)
{
	if (self->facts.failures == 0)
		log_waiting(self, G_MAXINT64, error);
	self->facts.wait_until_tick = 0; /* what was waited for says nothing about this */
	note_failure(self);
}

static void settle_claim(Keeper *self, RegistryResult *result)
{
	const GError *error = result->error;

	if (error == NULL)
		hold(self, &result->reservation);
	else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL))
		keeper_lease_end_trying(self, g_steal_pointer(&result->error));
	else if (self->facts.stopping)
		return; /* it may have been cancelled */
	else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT))
		wait_for_worker(self, result->wait_until_tick, error);
	else if (self->facts.had_lease)
		note_claim_failed(self, error);
	else /* a server that cannot start says so, one that has served holds out */
		keeper_lease_end_trying(self, g_steal_pointer(&result->error));
}

static void note_extension_failed(Keeper *self, const GError *error)
{
	if (self->facts.failures == 0) {
		g_autofree char *end = layout_tick_text(self->layout, self->facts.end_tick);

		self->failing_since_us = self->facts.now_us;
		log_event(LOG_EXTEND_FAILED, log_text("error", error->message),
			  log_text("reserved_until", end));
	}
	note_failure(self);
}

static void note_extended(Keeper *self, gint64 end_tick)
{
	const KeeperPlanFacts *facts = &self->facts;
	gint64 end_us = facts->now_us + (facts->end_tick + 1 - facts->now_tick) * facts->tick_us;
	gint64 now_us = g_get_monotonic_time();
	gint64 since_us = facts->failures > 0 ? self->failing_since_us : facts->busy_since_us;
	/* it took longer than what was left */
	gboolean was_late = facts->busy_since_us < end_us && now_us >= end_us;

	if (facts->failures > 0 || was_late)
		log_event(LOG_EXTEND_RECOVERED, log_number("failures", facts->failures),
			  log_number("failed_ms", (now_us - since_us) / G_TIME_SPAN_MILLISECOND));
	lease_extend(self->lease, end_tick);
	log_written(self, end_tick);
	note_write(self, self->next_length_ms, self->next_cursor, self->facts.busy_since_us);
	show_reserved(self, end_tick);
}

static void settle_extension(Keeper *self, RegistryResult *result)
{
	const GError *error = result->error;

	show_extending_fails(self, error != NULL);
	if (error == NULL)
		note_extended(self, result->end_tick);
	else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL))
		keeper_lease_end_trying(self, g_steal_pointer(&result->error));
	else if (!self->facts.stopping)
		note_extension_failed(self, error);
}

static void note_handed_back(const Keeper *self)
{
	const Lease *lease = self->lease;
	g_autofree char *last = self->last_tick >= lease->first_tick
					? layout_tick_text(self->layout, self->last_tick)
					: g_strdup("none");

	log_event(LOG_WORKER_HANDED_BACK, log_number("datacenter_id", lease->datacenter_id),
		  log_number("worker_id", lease->worker_id), log_text("last", last));
}

static void note_hand_back_failed(const Keeper *self, const GError *error)
{
	const KeeperPlanFacts *facts = &self->facts;
	gboolean stands = facts->stopping && facts->now_tick <= facts->end_tick;
	g_autofree char *end = layout_tick_text(self->layout, facts->end_tick);

	/* somebody has it already, who may have begun before its end */
	if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		log_event(LOG_WORKER_LOST, log_text("error", error->message));
	else if (stands)
		log_event(LOG_HAND_BACK_FAILED, log_text("error", error->message),
			  log_text("reserved_until", end),
			  log_text("meaning", "nobody has the worker ID until then, so that no ID "
					      "comes twice"));
	else
		log_event(LOG_HAND_BACK_FAILED, log_text("error", error->message),
			  log_text("reserved_until", end));
}

static void settle_hand_back(const Keeper *self, const RegistryResult *result)
{
	if (result->error == NULL)
		note_handed_back(self);
	else
		note_hand_back_failed(self, result->error);
}

static void settle(Keeper *self, RegistryResult *result)
{
	RegistryOperation operation = self->facts.under_way;

	self->facts.under_way = REGISTRY_NONE;
	atomic_store(&self->busy_since_us, 0);
	if (self->facts.has_lease &&
	    g_error_matches(result->error, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		lose(self, result); /* whatever is under way, if anything is */
	else if (operation == REGISTRY_CLAIM)
		settle_claim(self, result);
	else if (operation == REGISTRY_EXTEND)
		settle_extension(self, result);
	else if (operation == REGISTRY_HAND_BACK)
		settle_hand_back(self, result);
	g_clear_error(&result->error);
}

void keeper_lease_poll(Keeper *self)
{
	RegistryResult result = {0};
	gboolean has_ended;

	/* a hand-back does not depend on the time */
	if (self->facts.outside && !self->facts.stopping)
		return;
	has_ended = self->registry->ops->poll(self->registry, self->inside_tick, &result);
	show_registry(self);
	if (has_ended)
		settle(self, &result);
	self->facts.retry_now = self->facts.retry_now || self->registry->retry_now;
	self->registry->retry_now = FALSE;
}

/* The operations */

static void refuse_to_claim(Keeper *self)
{
	gint64 retry_ticks = ticks_of(self, G_TIME_SPAN_SECOND / G_TIME_SPAN_MILLISECOND);
	RegistryResult result = {
		.error = g_error_new_literal(
			REGISTRY_ERROR, REGISTRY_ERROR_WAIT,
			"this machine's clock is too far ahead of the registry's (see "
			"event=clock-differs): set it right"),
		.wait_until_tick = self->facts.now_tick + retry_ticks,
	};

	settle(self, &result);
}

static void claim(Keeper *self)
{
	gint64 reach = reach_ticks(self, self->registry->first_length_ms);

	if (reach > 0)
		self->registry->ops->claim(self->registry, reach);
	else
		refuse_to_claim(self);
}

static void extend(Keeper *self)
{
	/* what is asked for from here on may need the extension after this one */
	atomic_store(&self->asked, FALSE);
	self->next_cursor = lease_last_cursor(self->lease);
	self->next_length_ms = next_length_ms(self);
	self->registry->ops->extend(self->registry, self->facts.next_end_tick);
}

static void hand_back(Keeper *self)
{
	gint64 last_tick = retire(self);

	if (!self->facts.stopping)
		withdraw(self);
	self->registry->ops->hand_back(self->registry, last_tick);
}

void keeper_lease_begin(Keeper *self, RegistryOperation operation)
{
	KeeperPlanFacts *facts = &self->facts;

	facts->under_way = operation;
	facts->busy_since_us = facts->now_us;
	facts->cancelled = FALSE;
	facts->retry_now = FALSE;
	atomic_store(&self->busy_since_us, facts->now_us);
	if (operation == REGISTRY_CLAIM)
		claim(self);
	else if (operation == REGISTRY_EXTEND)
		extend(self);
	else
		hand_back(self);
}

void keeper_lease_cancel(Keeper *self)
{
	self->facts.cancelled = TRUE;
	if (self->registry->ops->cancel != NULL)
		self->registry->ops->cancel(self->registry);
}
