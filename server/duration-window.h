/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/counters.h"

/* Durations of recent calls, from earlier readings of the counters. One thread only. */

#define DURATION_WINDOW_READINGS 30

typedef struct {
	guint64 counts[DURATION_WINDOW_READINGS][N_COUNTER_DURATIONS];
	guint next; /* index of the oldest reading if all are there */
	guint n;
} DurationWindow;

/* Adds a reading of the counters. */
void duration_window_add(DurationWindow *self, CounterSet *counters);

/**
 * duration_window_quantile:
 * @quantile: above 0, at most 1
 * @out_us: (out): the quantile of the durations since the oldest reading; interpolated as if the
 *   calls of a bucket were evenly distributed
 *
 * Returns: %FALSE if there were none
 */
gboolean duration_window_quantile(const DurationWindow *self, CounterSet *counters,
				  gdouble quantile, gdouble *out_us);
