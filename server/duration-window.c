/* SPDX-License-Identifier: Apache-2.0 */
#include "server/duration-window.h"

void duration_window_add(DurationWindow *self, CounterSet *counters)
{
	for (guint i = 0; i < N_COUNTER_DURATIONS; i++)
		self->counts[self->next][i] = counter_set_sum(counters, COUNTER_DURATIONS + i);
	self->next = (self->next + 1) % DURATION_WINDOW_READINGS;
	self->n = MIN(self->n + 1, DURATION_WINDOW_READINGS);
}

static gdouble bound_us(guint bucket)
{
	return (gdouble)(G_GUINT64_CONSTANT(1) << (bucket + COUNTER_FIRST_DURATION_LOG2));
}

gboolean duration_window_quantile(const DurationWindow *self, CounterSet *counters,
				  gdouble quantile, gdouble *out_us)
{
	guint oldest = self->n < DURATION_WINDOW_READINGS ? 0 : self->next;
	guint64 calls[N_COUNTER_DURATIONS];
	gdouble all = 0, before = 0;
	guint bucket = 0;

	if (self->n == 0)
		return FALSE;
	for (guint i = 0; i < N_COUNTER_DURATIONS; i++) {
		calls[i] =
			counter_set_sum(counters, COUNTER_DURATIONS + i) - self->counts[oldest][i];
		all += (gdouble)calls[i];
	}
	if (all == 0)
		return FALSE;
	while (bucket < N_COUNTER_DURATIONS - 1 && before + (gdouble)calls[bucket] < quantile * all)
		before += (gdouble)calls[bucket++];

	gdouble from_us = bucket == 0 ? 0 : bound_us(bucket - 1);
	gdouble part = (quantile * all - before) / (gdouble)calls[bucket];

	/* the last bucket has no bound */
	*out_us = bucket == N_COUNTER_DURATIONS - 1 ? from_us
						    : from_us + part * (bound_us(bucket) - from_us);
	return TRUE;
}
