/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/rate.h"

#define RISE_US      10000.0
#define FALL_US      250000.0
#define PUSH_FALL_US 50000.0
#define SHORT_US     500 /* says nothing of a rate */
#define IDLE_PER_US  1e-6

void pool_rate_init(PoolRate *self, gint64 idle_us, gint64 now_us)
{
	*self = (PoolRate){.idle_us = idle_us, .moved_us = now_us, .seen_us = now_us};
}

/* Towards @sample, the further the longer it is since the last one. */
static double approach(double value, double sample, double past_us, double time_us)
{
	return value + (sample - value) * past_us / (past_us + time_us);
}

static void push(PoolRate *self)
{
	self->pushed = CLAMP(self->pushed * 2, POOL_RATE_FIRST, POOL_RATE_MAX_TARGET);
}

void pool_rate_observe(PoolRate *self, gint64 now_us, guint64 gone, gboolean is_dry)
{
	double past_us = (double)(now_us - self->seen_us);

	if (is_dry)
		push(self);
	if (is_dry || gone != self->seen_gone)
		self->moved_us = now_us;
	if (past_us < SHORT_US)
		return;

	double sample = gone > self->seen_gone ? (double)(gone - self->seen_gone) / past_us : 0;

	self->per_us =
		approach(self->per_us, sample, past_us, sample > self->per_us ? RISE_US : FALL_US);
	if (!is_dry)
		self->pushed = approach(self->pushed, 0, past_us, PUSH_FALL_US);
	self->seen_us = now_us;
	self->seen_gone = gone;
	if (now_us - self->moved_us >= self->idle_us)
		self->per_us = self->pushed = 0;
}

guint pool_rate_target(const PoolRate *self, gint64 span_us)
{
	double target = MAX(self->per_us * (double)span_us, self->pushed);

	if (self->per_us < IDLE_PER_US && self->pushed < 1)
		return 0;
	return (guint)CLAMP(target + 0.5, 1, POOL_RATE_MAX_TARGET);
}
