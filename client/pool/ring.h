/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

/* A lock-free ring of runs of IDs: one thread puts runs, and any number of threads take parts of
 * them. Zeroed memory is an empty ring. A ring contains no pointers, so it can be in memory that a
 * fork wipes.
 *
 * A take moves the head: the number of the current run, and how many of its IDs are taken. A put
 * moves the tail: the number of the next run. Runs are numbered from 0, and no number repeats: 48
 * bits last for 8 years at a million runs a second. Run n is in entry n % POOL_RING_RUNS.
 *
 * Why each ID is taken only once, for every interleaving of the threads:
 *
 * 1. A compare-and-swap on the head reads the value that its own write replaces. No value of the
 *    head repeats. So only one of the threads that read a value wins, and only this thread has
 *    these IDs.
 * 2. The winner has read a complete run. It read the tail (acquire) above the number of the run;
 *    the tail was stored (release) after the entry was. It cannot have read an older tail. The
 *    thread that moved the head to this run had read such a tail before its swap (release), and
 *    the head was read with acquire.
 * 3. The winner has not read a later run in the same entry, which may overwrite the entry during
 *    the read. The entry is overwritten only after the thread that puts runs has read (acquire) a
 *    head beyond this run. Such a head follows the winner's swap (release) in the order of the
 *    head's values, which only swaps change. So the swap, and the read before it, happened before
 *    the overwrite. If a thread reads anything else, its swap fails.
 *
 * The fields of an entry are atomic, so that reading an overwritten field is not a data race, and
 * relaxed, because 2 and 3 order them. */

#define POOL_LINE_BYTES     128 /* two cache lines, because some processors fetch two together */
#define POOL_RING_RUNS      4096
/* maximum number of IDs in an entry; a longer run needs several entries */
#define POOL_RING_MAX_COUNT G_MAXUINT16

typedef struct {
	_Atomic gint64 first;
	_Atomic guint64 batch;
	_Atomic guint64 before; /* number of IDs put before this run since the start */
	_Atomic guint32 count;
} PoolRingEntry;

/* As in <stdatomic.h>, with relaxed memory order. */
#define pool_load_relaxed(object)         atomic_load_explicit(object, memory_order_relaxed)
#define pool_store_relaxed(object, value) atomic_store_explicit(object, value, memory_order_relaxed)

/* Members are private. */
typedef struct {
	/* number of the run << 16 | number of IDs taken from it */
	_Alignas(POOL_LINE_BYTES) _Atomic guint64 head;
	_Alignas(POOL_LINE_BYTES) _Atomic guint64 tail;
	_Atomic guint64 put; /* number of IDs put since the start; other code may load it */
	_Alignas(POOL_LINE_BYTES) PoolRingEntry entries[POOL_RING_RUNS];
} PoolRing;

/* Consecutive IDs, beginning with first. */
typedef struct {
	gint64 first;
	guint count;
	/* batch to which the run's reply belongs; later batches have higher numbers */
	guint64 batch;
} PoolRun;

/* Only one thread at a time can put runs. Returns: %FALSE, without putting anything, if there is no
 * room for the whole run */
gboolean pool_ring_put(PoolRing *self, const PoolRun *run);

/* Takes at most @most IDs from one run; 0 to only drop runs. Drops runs of batches before @oldest,
 * and adds the number of dropped IDs to @dropped. Can be called from any thread. Returns: whether
 * IDs were taken; if not, @out_run is untouched */
gboolean pool_ring_take(PoolRing *self, guint most, guint64 oldest, PoolRun *out_run,
			guint64 *dropped);

/* Can be called from any thread. Returns: the number of IDs in the ring; concurrent puts and takes
 * may or may not be included */
guint64 pool_ring_level(const PoolRing *self);
