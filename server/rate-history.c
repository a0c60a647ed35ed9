/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rate-history.h"

static void append_rate(RateHistory *self, double rate)
{
	self->rates[self->next] = rate;
	self->next = (self->next + 1) % RATE_HISTORY_INTERVALS;
	self->n = MIN(self->n + 1, RATE_HISTORY_INTERVALS);
}

void rate_history_add(RateHistory *self, gint64 now_us, guint64 count)
{
	if (self->last_us != 0 && now_us > self->last_us)
		append_rate(self, (double)(count - self->last_count) * G_USEC_PER_SEC /
					  (double)(now_us - self->last_us));
	self->last_us = now_us;
	self->last_count = count;
}

double rate_history_get(const RateHistory *self, guint i)
{
	return self->rates[(self->next + RATE_HISTORY_INTERVALS - self->n + i) %
			   RATE_HISTORY_INTERVALS];
}
