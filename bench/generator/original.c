/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Like the original, this code performs all steps in the same order under the lock, uses a
 * millisecond clock that an administrator can set, and spins while it holds the lock. The check of
 * the useragent, counters and the log are left out, because they cost almost nothing, or would only
 * slow it down.
 *
 * The number of sequence bits is a parameter. With the original 12 bits, it spends its time waiting
 * for the next millisecond, which says nothing about the algorithm.
 */
#include "bench/generator/original.h"

#include <time.h>

#define EPOCH_MS G_GINT64_CONSTANT(1288834974657)

void original_init(Original *self, guint sequence_bits)
{
	pthread_mutex_init(&self->mutex, NULL);
	self->sequence_bits = sequence_bits;
	self->last_ms = -1;
	self->sequence = 0;
}

void original_clear(Original *self)
{
	pthread_mutex_destroy(&self->mutex);
}

static gint64 now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * G_GINT64_CONSTANT(1000) + time.tv_nsec / 1000000;
}

static gint64 next_id_locked(Original *self)
{
	gint64 time_ms = now_ms();

	if (time_ms < self->last_ms)
		return -1;
	if (time_ms == self->last_ms) {
		self->sequence = (self->sequence + 1) & ((1u << self->sequence_bits) - 1);
		if (self->sequence == 0) {
			while (time_ms <= self->last_ms)
				time_ms = now_ms();
		}
	} else {
		self->sequence = 0;
	}
	self->last_ms = time_ms;
	return (time_ms - EPOCH_MS) << self->sequence_bits | (gint64)self->sequence;
}

gint64 original_next_id(Original *self)
{
	pthread_mutex_lock(&self->mutex);

	gint64 id = next_id_locked(self);

	pthread_mutex_unlock(&self->mutex);
	return id;
}
