/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

/*
 * Runs of IDs from the one thread that puts them to any number of threads that take parts of them,
 * without a lock. Memory of zeros is an empty ring. It has no pointers, so that it can be in memory
 * that a fork wipes.
 *
 * A take moves the head: the number of the run that is taken from, and how much of it is gone. A
 * put moves the tail: the number of the next run. Numbers count up from 0 and never come back: 48
 * bits last for 8 years at a million runs a second. Entry number % POOL_RING_RUNS has the run.
 *
 * Why each ID is taken once, whatever the threads do:
 *
 * 1. A compare-and-swap on the head reads the value that its own write replaces. No value of the
 *    head comes twice. So of all threads that read one value one wins, and it alone has those IDs.
 * 2. The winner has read a whole run. It read the tail (acquire) above the number of the run; the
 *    tail was stored (release) after the entry was. It did not read an older tail than the head
 *    needs: the thread that moved the head to this run had read such a tail before its swap
 *    (release), and the head was read with acquire.
 * 3. The winner has not read a later run in the same entry, which can overwrite the entry during
 * the read. The entry is overwritten after the putting thread has read (acquire) a head beyond the
 *    run. Such a head comes after the winner's swap (release) in the order of the head's values,
 * and by swaps alone; so the swap, and the read before it, happened before the overwriting. If a
 *    thread reads anything else, its swap fails.
 *
 * The fields of an entry are atomic so that reading one that is overwritten is no race, and relaxed
 * because 2 and 3 order them.
 */

#define POOL_LINE_BYTES     128 /* of the cache: two lines, which some processors fetch together */
#define POOL_RING_RUNS      4096
#define POOL_RING_MAX_COUNT G_MAXUINT16 /* of an entry; a longer run is put as several */

typedef struct {
	_Atomic gint64 first;
	_Atomic guint64 batch;
	_Atomic guint64 before; /* how many IDs were put before this run, since the start */
	_Atomic guint32 count;
} PoolRingEntry;

static inline guint64 pool_ring_load_relaxed(const _Atomic guint64 *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* Members are private. */
typedef struct {
	_Alignas(POOL_LINE_BYTES) _Atomic guint64 head; /* number of the run << 16 | taken of it */
	_Alignas(POOL_LINE_BYTES) _Atomic guint64 tail;
	_Atomic guint64 put; /* IDs, since the start */
	_Alignas(POOL_LINE_BYTES) PoolRingEntry entries[POOL_RING_RUNS];
} PoolRing;

/* IDs first, first + 1 and so on. */
typedef struct {
	gint64 first;
	guint count;
	guint64 batch; /* of the reply that they came with; later batches have higher numbers */
} PoolRun;

/**
 * pool_ring_put:
 *
 * For one thread at a time.
 *
 * Returns: %FALSE if there is no room for all of the run; then none of it is put
 */
gboolean pool_ring_put(PoolRing *self, const PoolRun *run);

/**
 * pool_ring_take:
 * @most: IDs to take; 0: none, only drop
 * @oldest: runs of older batches are dropped on the way
 * @out_run: (out): untouched if nothing is taken
 * @dropped: (inout): the number of dropped IDs is added
 *
 * Any thread. Takes from one run.
 *
 * Returns: whether IDs were taken
 */
gboolean pool_ring_take(PoolRing *self, guint most, guint64 oldest, PoolRun *out_run,
			guint64 *dropped);

/* Any thread. Returns: the number of IDs in it; those put or taken meanwhile may or may not count
 */
guint64 pool_ring_level(const PoolRing *self);

/* Any thread. Returns: the number of IDs that were put since the start */
guint64 pool_ring_put_ids(const PoolRing *self);
