/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/ages.h"

#include "client/pool/clock.h"

#define PARTS_OF_AN_AGE 64

void pool_ages_init(PoolAges *self, gint64 max_age_us)
{
	*self = (PoolAges){.max_age_us = max_age_us, .oldest = 1};
}

static gint64 *asked_us_of(PoolAges *self, guint64 batch)
{
	return &self->asked_us[batch % POOL_AGES_BATCHES];
}

static gboolean is_of_newest(PoolAges *self, gint64 asked_us)
{
	gint64 begun_us = *asked_us_of(self, self->newest);

	return self->newest >= self->oldest && asked_us >= begun_us &&
	       asked_us - begun_us < self->max_age_us / PARTS_OF_AN_AGE;
}

guint64 pool_ages_batch(PoolAges *self, gint64 asked_us)
{
	if (is_of_newest(self, asked_us))
		return self->newest;
	if (self->newest - self->oldest + 1 < POOL_AGES_BATCHES) {
		self->newest++;
		*asked_us_of(self, self->newest) = asked_us;
	} else if (asked_us < *asked_us_of(self, self->newest)) {
		*asked_us_of(self, self->newest) = asked_us;
	}
	return self->newest;
}

guint64 pool_ages_oldest(PoolAges *self, gint64 now_us)
{
	for (guint64 batch = self->oldest; batch <= self->newest; batch++) {
		if (now_us - *asked_us_of(self, batch) >= self->max_age_us)
			self->oldest = batch + 1;
	}
	return self->oldest;
}

gint64 pool_ages_next_us(const PoolAges *self)
{
	gint64 first_us = POOL_NEVER_US;

	for (guint64 batch = self->oldest; batch <= self->newest; batch++)
		first_us = MIN(first_us, self->asked_us[batch % POOL_AGES_BATCHES]);
	return first_us == POOL_NEVER_US ? POOL_NEVER_US : first_us + self->max_age_us;
}
