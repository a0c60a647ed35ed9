/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/clock.h"

/*
 * A clock that the test sets. It can also script what other threads do while one reads the clock:
 * the reading with the given number calls on_reading once, after it has taken the time.
 */
typedef struct {
	Clock clock;
	gint64 now_ns;
	guint readings;
	guint on_reading_number; /* from 1; 0 if never */
	void (*on_reading)(gpointer user_data);
	gpointer user_data;
} ScriptedClock;

static gint64 scripted_clock_now_ns(const Clock *clock)
{
	ScriptedClock *self = (ScriptedClock *)clock;
	gint64 now_ns = self->now_ns;

	if (++self->readings == self->on_reading_number)
		self->on_reading(self->user_data);
	return now_ns;
}

static inline void scripted_clock_init(ScriptedClock *self, gint64 now_ms)
{
	*self = (ScriptedClock){.clock.now_ns = scripted_clock_now_ns,
				.now_ns = now_ms * CLOCK_NS_PER_MS};
}

static inline void scripted_clock_set_ms(ScriptedClock *self, gint64 now_ms)
{
	self->now_ns = now_ms * CLOCK_NS_PER_MS;
}
