/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* How fast something was counted: its rate over each of the last intervals. One thread's. */

#define RATE_HISTORY_INTERVALS 300

typedef struct {
	gint64 last_us; /* monotonic: of the last reading; 0: there is none */
	guint64 last_count;
	guint next; /* the oldest, if there are as many */
	guint n;
	double rates[RATE_HISTORY_INTERVALS]; /* a second */
} RateHistory;

/* A reading, at @now_us, monotonic time: an interval ends and another begins. */
void rate_history_add(RateHistory *self, gint64 now_us, guint64 count);

/* @i: 0 to self->n - 1, the oldest first. */
double rate_history_get(const RateHistory *self, guint i);
