/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

/* The server's counters. Each thread counts into its own block, so that threads share no cache
 * line. Readers add up the blocks. */

/* The methods that are counted separately. */
typedef enum {
	COUNTER_GET_WORKER_ID,
	COUNTER_GET_TIMESTAMP,
	COUNTER_GET_ID,
	COUNTER_GET_DATACENTER_ID,
	COUNTER_GET_IDS,
	COUNTER_GET_WORKER,
	COUNTER_GET_WORKERS,
	COUNTER_GET_COUNTERS,
	COUNTER_GET_ULIDS,
	COUNTER_GET_UUIDS,
	COUNTER_GET_ID_RUNS,
	COUNTER_OTHER_METHOD, /* a method that does not exist */
	N_COUNTER_METHODS
} CounterMethod;

/* The buckets for durations of calls. Bucket @i counts durations up to 2^(i +
 * COUNTER_FIRST_DURATION_LOG2) microseconds that are not in a lower bucket; these limits range from
 * 4 us to 8.4 s. The last bucket counts all longer durations. */
#define COUNTER_FIRST_DURATION_LOG2 2
#define N_COUNTER_DURATIONS         23

typedef enum {
	COUNTER_IDS_GENERATED,
	COUNTER_ULIDS_GENERATED,
	COUNTER_CALLS,      /* calls answered with a result or an exception */
	COUNTER_EXCEPTIONS, /* calls answered with an exception */
	COUNTER_CLOCK_SKEW, /* exceptions because the clock was behind the last ID */
	COUNTER_WAITS,      /* calls that had to wait for the clock or for a reservation */
	COUNTER_CONNECTIONS_ACCEPTED,
	COUNTER_CONNECTIONS_REFUSED, /* connections refused because of a limit */
	COUNTER_CONNECTIONS_ENDED,
	/* connections closed by the server, by reason */
	COUNTER_CLOSED_BAD_BYTES,
	COUNTER_CLOSED_FRAME_TIMEOUT,
	COUNTER_CLOSED_WRITE_TIMEOUT,
	COUNTER_CLOSED_IDLE_TIMEOUT,
	COUNTER_CLOSED_FOR_ROOM,
	COUNTER_CLOSED_HANDSHAKE,   /* a TLS handshake failed */
	COUNTER_CLOSED_NOT_ALLOWED, /* the client is not in the allow list */
	COUNTER_HANDSHAKES,         /* completed TLS handshakes */
	COUNTER_BYTES_RECEIVED,
	COUNTER_BYTES_SENT,
	/* exceptions, by reason */
	COUNTER_REFUSED_CLOCK,
	COUNTER_REFUSED_AGENT,
	COUNTER_REFUSED_WORKER,
	COUNTER_REFUSED_COUNT,
	COUNTER_REFUSED_REGISTRY,
	COUNTER_REFUSED_LAYOUT,
	COUNTER_REFUSED_METHOD,
	COUNTER_REFUSED_MESSAGE,
	/* connections closed because of invalid bytes, by protocol */
	COUNTER_BAD_HTTP,
	COUNTER_BAD_TLS,
	COUNTER_BAD_PROXY,
	COUNTER_BAD_THEADER,
	COUNTER_BAD_JSON,
	COUNTER_BAD_ZLIB,
	COUNTER_BAD_THRIFT, /* invalid Thrift, or unknown bytes */
	N_NAMED_COUNTERS,   /* the counters above have a name in get_counters (server/metrics.h) */
	/* one counter for each CounterMethod: calls answered with a result, then calls answered
	 * with an exception */
	COUNTER_ANSWERED = N_NAMED_COUNTERS,
	COUNTER_REFUSED = COUNTER_ANSWERED + N_COUNTER_METHODS,
	/* durations of answered calls */
	COUNTER_DURATIONS = COUNTER_REFUSED + N_COUNTER_METHODS, /* N_COUNTER_DURATIONS */
	/* sum of the durations */
	COUNTER_DURATION_US = COUNTER_DURATIONS + N_COUNTER_DURATIONS,
	N_COUNTERS
} Counter;

typedef struct {
	_Alignas(64) _Atomic guint64 values[N_COUNTERS];
} Counters;

/* All blocks. */
typedef struct _CounterSet CounterSet;

CounterSet *counter_set_new(void);
/* Frees the set with its blocks. The threads of the blocks must have ended. */
void counter_set_free(CounterSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CounterSet, counter_set_free)

/* Thread-safe. Returns a new block for one thread. It is borrowed, and lives as long as the set. */
Counters *counter_set_add(CounterSet *self);

/* Thread-safe. Returns the sum over all blocks. */
guint64 counter_set_sum(CounterSet *self, Counter counter);

/* "get_id" and so on, and "other" */
extern const char *const COUNTER_METHOD_NAMES[N_COUNTER_METHODS];
/* Returns COUNTER_OTHER_METHOD for unknown names. */
CounterMethod counter_method_of(const char *name);

/* Only the thread that owns the block may call it, because it uses a plain load and store, without
 * a locked instruction. */
static inline void counters_add(Counters *self, Counter counter, guint64 n)
{
	guint64 value = atomic_load_explicit(&self->values[counter], memory_order_relaxed);

	atomic_store_explicit(&self->values[counter], value + n, memory_order_relaxed);
}

/* Can be called in the block's thread, and by counter_set_sum(). */
static inline guint64 counters_get(const Counters *self, Counter counter)
{
	return atomic_load_explicit(&self->values[counter], memory_order_relaxed);
}

/* Adds @calls calls that took @duration_us each, 0 or more. Call it only in the block's thread. */
static inline void counters_add_durations(Counters *self, gint64 duration_us, guint calls)
{
	const guint64 first_us = G_GUINT64_CONSTANT(1) << COUNTER_FIRST_DURATION_LOG2;
	guint64 us = (guint64)MAX(duration_us, (gint64)first_us);
	/* the binary logarithm, rounded up */
	guint bucket = 64 - (guint)__builtin_clzll(us - 1) - COUNTER_FIRST_DURATION_LOG2;

	counters_add(self, COUNTER_DURATIONS + MIN(bucket, N_COUNTER_DURATIONS - 1), calls);
	counters_add(self, COUNTER_DURATION_US, (guint64)duration_us * calls);
}
