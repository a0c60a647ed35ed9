/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-clock.h"

#include <stdlib.h>

#include "common/log.h"
#include "core/text.h"
#include "worker/keeper-private.h"

#define DISCIPLINE_INTERVAL_US (100 * G_TIME_SPAN_MILLISECOND)
#define ASK_INTERVAL_US        G_USEC_PER_SEC

/* Servers of another layout are not set up in a day: who uses the IDs has to know of it too. */
#define END_IS_SOON_MS G_GINT64_CONSTANT(31536000000)
#define DAY_MS         G_GINT64_CONSTANT(86400000)

gint64 keeper_clock_reserved_until_ms(const Keeper *self, gint64 end_ms, gint64 now_ms)
{
	return now_ms < end_ms + self->layout->tick_ms ? end_ms : 0;
}

static gint64 max_skew_ns(const Keeper *self)
{
	return self->config.max_clock_skew_ms * CLOCK_NS_PER_MS;
}

static void ask_registry(Keeper *self)
{
	self->asked_clock_us = self->facts.now_us;
	if (self->registry->ops->ask_clock == NULL)
		return;
	self->registry->ops->ask_clock(self->registry);
	self->registry->wake(self->registry->wake_data); /* it takes a poll */
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
				     (reading->clock.least_ns - reading->offset_ns) / 1000),
			  log_number("registry_most_us",
				     (reading->clock.most_ns - reading->offset_ns) / 1000));
}

/* @heard: the registry has said what time it is */
static void judge(Keeper *self, gboolean heard)
{
	const ClockReading reading = {
		.now_us = self->facts.now_us,
		.offset_ns = system_clock_offset_ns(self->clock),
		.measured_ns = system_clock_measure_offset_ns(),
		.max_skew_ns = max_skew_ns(self),
		.clock = self->registry->clock,
	};
	gint64 by_ms = (reading.measured_ns - reading.offset_ns) / CLOCK_NS_PER_MS;

	ClockVerdict verdict = clock_discipline_judge(&self->discipline, &reading);

	if (heard || verdict != CLOCK_AGREES)
		log_judged(&reading, verdict);
	switch (verdict) {
	case CLOCK_AGREES:
		return;
	case CLOCK_HELD:
		if (reading.now_us - self->asked_clock_us >= ASK_INTERVAL_US)
			ask_registry(self);
		return;
	case CLOCK_JUMPED:
		log_event(LOG_CLOCK_HELD, log_number("by_ms", by_ms));
		ask_registry(self);
		return;
	case CLOCK_STEPPED_BACK:
	case CLOCK_STEPPED_FORWARD:
		break;
	}
	/* before the log says so */
	system_clock_set_offset_ns(self->clock, reading.measured_ns);
	if (verdict == CLOCK_STEPPED_BACK)
		log_event(LOG_CLOCK_BACK, log_number("by_ms", -by_ms));
	else
		log_event(LOG_CLOCK_FORWARD, log_number("by_ms", by_ms));
}

/* The registry's clock has moved away from ours: there is nothing to adopt, but somebody to tell.
 */
static void watch_difference(Keeper *self)
{
	gint64 offset_ns = system_clock_offset_ns(self->clock);
	gint64 ahead_ns = clock_discipline_ahead_ns(&self->registry->clock, offset_ns);

	/* nothing else may ask any more: without a lease nothing is extended */
	if (self->clock_differs && self->facts.now_us - self->asked_clock_us >= ASK_INTERVAL_US)
		ask_registry(self);
	if (!self->clock_differs && ABS(ahead_ns) > max_skew_ns(self)) {
		self->clock_differs = TRUE;
		log_event(LOG_CLOCK_DIFFERS, log_number("by_ms", ahead_ns / CLOCK_NS_PER_MS));
	} else if (ABS(ahead_ns) <= max_skew_ns(self) / 2) {
		/* well below, or a difference that is about the skew would be told again and again
		 */
		self->clock_differs = FALSE;
	}
}

static gboolean is_same(const RegistryClock *a, const RegistryClock *b)
{
	return a->known == b->known && a->least_ns == b->least_ns && a->most_ns == b->most_ns;
}

void keeper_clock_discipline(Keeper *self)
{
	const RegistryClock *clock = &self->registry->clock;

	gboolean heard = !is_same(clock, &self->judged_by);

	if (self->facts.now_us < self->next_discipline_us && !heard)
		return;
	self->judged_by = *clock;
	self->next_discipline_us = self->facts.now_us + DISCIPLINE_INTERVAL_US;
	judge(self, heard);
	watch_difference(self);
}

static void log_outside(const Keeper *self, gint64 now_ms)
{
	g_autofree char *now = text_time_ms(now_ms);
	g_autofree char *first = layout_tick_text(self->layout, 0);
	g_autofree char *last = layout_tick_text(self->layout, layout_max_tick(self->layout));
	g_autofree char *why = g_strdup_printf(
		"the clock, %s, is outside the layout's range, %s to %s: set it right", now, first,
		last);

	log_event(LOG_WORKER_WAITING, log_text("why", why));
}

/* Once a day of this clock, which may be set back too: then more is left than was said. */
static void watch_end(Keeper *self, gint64 now_ms)
{
	gint64 last_ms = layout_last_ms(self->layout);
	gint64 left_ms = last_ms - now_ms;

	if (left_ms >= END_IS_SOON_MS || ABS(now_ms - self->end_told_ms) < DAY_MS)
		return;
	self->end_told_ms = now_ms;

	g_autofree char *last = text_time_ms(last_ms);

	log_event(
		LOG_LAYOUT_ENDS_SOON, log_text("last", last),
		log_number("days_left", left_ms / DAY_MS),
		log_text("meaning", "calls are refused from then on: use another --layout before"));
}

void keeper_clock_look(Keeper *self)
{
	KeeperPlanFacts *facts = &self->facts;
	gint64 now_ms = clock_now_ms(&self->clock->clock);
	gboolean was_outside = facts->outside;

	facts->now_us = g_get_monotonic_time();
	facts->now_tick = layout_tick_at(self->layout, now_ms);
	facts->outside = facts->now_tick < 0 || facts->now_tick > layout_max_tick(self->layout);
	if (facts->outside) {
		if (!was_outside)
			log_outside(self, now_ms);
		return;
	}
	self->inside_tick = facts->now_tick;
	watch_end(self, now_ms);
}

gint64 keeper_clock_excess_ticks(const Keeper *self)
{
	const RegistryClock *clock = &self->registry->clock;
	gint64 ahead_ns = clock_discipline_ahead_ns(clock, system_clock_offset_ns(self->clock)) -
			  max_skew_ns(self);
	gint64 tick_ns = self->layout->tick_ms * CLOCK_NS_PER_MS;

	return ahead_ns > 0 ? (ahead_ns + tick_ns - 1) / tick_ns : 0;
}
