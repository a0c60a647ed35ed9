/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/counters.h"

/* How long calls took of late: what was counted at each of some readings before. One thread's. */

#define DURATION_WINDOW_READINGS 30

typedef struct {
	guint64 counts[DURATION_WINDOW_READINGS][N_COUNTER_DURATIONS];
	guint next; /* the oldest, if there are as many */
	guint n;
} DurationWindow;

/* What was counted by now. */
void duration_window_add(DurationWindow *self, CounterSet *counters);

/**
 * duration_window_quantile:
 * @quantile: above 0, at most 1
 * @out_us: (out): as many microseconds or less were taken by that part of the calls since the
 *   oldest reading; between the bounds of a bucket as if its calls lay evenly in it
 *
 * Returns: %FALSE if there were none
 */
gboolean duration_window_quantile(const DurationWindow *self, CounterSet *counters,
				  gdouble quantile, gdouble *out_us);
