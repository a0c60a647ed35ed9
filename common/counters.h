/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

/*
 * What the server counts. Each thread counts into a block of its own, so that
 * counting costs no shared cache line; whoever reads adds the blocks up.
 */
typedef enum {
	COUNTER_IDS_GENERATED,
	COUNTER_ULIDS_GENERATED,
	COUNTER_CALLS,      /* answered, with a result or an exception */
	COUNTER_EXCEPTIONS, /* of them, those answered with an exception */
	COUNTER_CLOCK_SKEW, /* of these, because the clock was behind the last ID */
	COUNTER_WAITS,      /* calls that waited for the clock or for a reservation */
	COUNTER_CONNECTIONS_ACCEPTED,
	COUNTER_CONNECTIONS_REFUSED, /* beyond a limit */
	COUNTER_CONNECTIONS_ENDED,
	/* connections closed by the server, by reason */
	COUNTER_CLOSED_BAD_BYTES,
	COUNTER_CLOSED_FRAME_TIMEOUT,
	COUNTER_CLOSED_WRITE_TIMEOUT,
	COUNTER_CLOSED_IDLE_TIMEOUT,
	COUNTER_CLOSED_FOR_ROOM,
	N_COUNTERS
} Counter;

typedef struct {
	_Alignas(64) _Atomic guint64 values[N_COUNTERS];
} Counters;

/* Blocks that are added up. */
typedef struct _CounterSet CounterSet;

CounterSet *counter_set_new(void);
/* Frees the blocks too; their threads have ended. */
void counter_set_free(CounterSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CounterSet, counter_set_free)

/* Any thread: a block for one thread to count into; borrowed, lives as long as the set. */
Counters *counter_set_add(CounterSet *self);

/* Any thread: the sum over all blocks. */
guint64 counter_set_sum(CounterSet *self, Counter counter);

/* "ids_generated", ... */
const char *counter_name(Counter counter);

/* By the block's own thread only: a plain load and store, no locked instruction. */
static inline void counters_add(Counters *self, Counter counter, guint64 n)
{
	guint64 value = atomic_load_explicit(&self->values[counter], memory_order_relaxed);

	atomic_store_explicit(&self->values[counter], value + n, memory_order_relaxed);
}
