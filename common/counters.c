/* SPDX-License-Identifier: Apache-2.0 */
#include "common/counters.h"

#include <pthread.h>

struct _CounterSet {
	pthread_mutex_t lock;
	GPtrArray *blocks; /* of Counters; under the lock */
};

static const char *const NAMES[N_COUNTERS] = {
	[COUNTER_IDS_GENERATED] = "ids_generated",
	[COUNTER_ULIDS_GENERATED] = "ulids_generated",
	[COUNTER_CALLS] = "calls",
	[COUNTER_EXCEPTIONS] = "exceptions",
	[COUNTER_CLOCK_SKEW] = "clock_skew",
	[COUNTER_WAITS] = "waits",
	[COUNTER_CONNECTIONS_ACCEPTED] = "connections_accepted",
	[COUNTER_CONNECTIONS_REFUSED] = "connections_refused",
	[COUNTER_CONNECTIONS_ENDED] = "connections_ended",
	[COUNTER_CLOSED_BAD_BYTES] = "closed_bad_bytes",
	[COUNTER_CLOSED_FRAME_TIMEOUT] = "closed_frame_timeout",
	[COUNTER_CLOSED_WRITE_TIMEOUT] = "closed_write_timeout",
	[COUNTER_CLOSED_IDLE_TIMEOUT] = "closed_idle_timeout",
	[COUNTER_CLOSED_FOR_ROOM] = "closed_for_room",
};

CounterSet *counter_set_new(void)
{
	CounterSet *self = g_new0(CounterSet, 1);

	pthread_mutex_init(&self->lock, NULL);
	self->blocks = g_ptr_array_new_with_free_func(g_aligned_free);
	return self;
}

void counter_set_free(CounterSet *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->blocks);
	pthread_mutex_destroy(&self->lock);
	g_free(self);
}

Counters *counter_set_add(CounterSet *self)
{
	Counters *block = g_aligned_alloc0(1, sizeof *block, _Alignof(Counters));

	pthread_mutex_lock(&self->lock);
	g_ptr_array_add(self->blocks, block);
	pthread_mutex_unlock(&self->lock);
	return block;
}

guint64 counter_set_sum(CounterSet *self, Counter counter)
{
	guint64 sum = 0;

	pthread_mutex_lock(&self->lock);
	for (guint i = 0; i < self->blocks->len; i++) {
		Counters *block = self->blocks->pdata[i];

		sum += atomic_load_explicit(&block->values[counter], memory_order_relaxed);
	}
	pthread_mutex_unlock(&self->lock);
	return sum;
}

const char *counter_name(Counter counter)
{
	return NAMES[counter];
}
