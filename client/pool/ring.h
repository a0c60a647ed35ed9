/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

/*
 * Runs of IDs between the one thread that puts them and any number of threads that take parts of
 * them, without a lock. Memory of zeros is an empty ring; it has no pointers, so that it may lie in
 * memory that a fork wipes.
 *
 * Whoever takes moves the head, which says the number of the run that is taken from, and how much
 * of it is gone. Whoever puts moves the tail, the number of the run that is put next. Numbers count
 * up from 0 and never come back: 48 bits last for 8 years at a million runs a second. Entry number
 * % POOL_RING_RUNS has the run.
 *
 * Why each ID is taken once, whatever the threads do:
 *
 * 1. A compare-and-swap on the head reads the value that its own write replaces. No value of the
 *    head comes twice. So of all that read one value, one wins, and it alone has those IDs.
 * 2. The winner has read a whole run. It read the tail (acquire) above the number of the run; the
 *    tail was stored (release) after the entry was. It did not read an older tail than the head
 *    needs: whoever moved the head to this run had read such a tail before its swap (release), and
 *    the head was read with acquire.
 * 3. The winner has not read a later run in the same entry, with which the entry may be overwritten
 *    while it reads. That is done after the putting thread has read (acquire) a head beyond the
 * run. Such a head comes after the winner's swap (release) in the order of the head's values, and
 * by swaps alone; so the swap, and the reading before it, happened before the overwriting. Of
 *    whoever reads something else the swap fails.
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
	guint64 batch; /* what they came with; batches that came later have higher numbers */
} PoolRun;

/**
 * pool_ring_put:
 *
 * For one thread at a time.
 *
 * Returns: %FALSE if there is no room for all of it: then it is not put
 */
gboolean pool_ring_put(PoolRing *self, const PoolRun *run);

/**
 * pool_ring_take:
 * @most: IDs to take; 0: none, only drop
 * @oldest: runs of older batches are dropped on the way
 * @out_run: (out): untouched if nothing is taken
 * @dropped: (inout): what is dropped is added
 *
 * For any thread. What is taken is from one run.
 *
 * Returns: whether there is something
 */
gboolean pool_ring_take(PoolRing *self, guint most, guint64 oldest, PoolRun *out_run,
			guint64 *dropped);

/* For any thread: how many IDs are in it. What is put or taken meanwhile may or may not count. */
guint64 pool_ring_level(const PoolRing *self);

/* For any thread: how many IDs were put since the start. */
guint64 pool_ring_put_ids(const PoolRing *self);
