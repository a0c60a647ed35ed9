/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/ring.h"

/* The head is a number of a run, followed by OFFSET_BITS that count the IDs taken from it. */
#define OFFSET_BITS 16
#define OFFSET_MASK ((1u << OFFSET_BITS) - 1)

G_STATIC_ASSERT((POOL_RING_RUNS & (POOL_RING_RUNS - 1)) == 0);
G_STATIC_ASSERT(POOL_RING_MAX_COUNT < 1 << OFFSET_BITS);
G_STATIC_ASSERT(ATOMIC_LLONG_LOCK_FREE == 2);

gboolean pool_ring_put(PoolRing *self, const PoolRun *run)
{
	guint64 head = atomic_load_explicit(&self->head, memory_order_acquire);
	guint64 tail = pool_load_relaxed(&self->tail);
	guint64 put = pool_load_relaxed(&self->put);
	guint entries = (run->count + POOL_RING_MAX_COUNT - 1) / POOL_RING_MAX_COUNT;

	if (tail + entries - (head >> OFFSET_BITS) > POOL_RING_RUNS)
		return FALSE;
	for (guint done = 0, count; done < run->count; done += count) {
		count = MIN(run->count - done, POOL_RING_MAX_COUNT);

		PoolRingEntry *entry = &self->entries[tail++ % POOL_RING_RUNS];

		pool_store_relaxed(&entry->first, run->first + done);
		pool_store_relaxed(&entry->batch, run->batch);
		pool_store_relaxed(&entry->before, put + done);
		pool_store_relaxed(&entry->count, count);
	}
	pool_store_relaxed(&self->put, put + run->count);
	atomic_store_explicit(&self->tail, tail, memory_order_release);
	return TRUE;
}

gboolean pool_ring_take(PoolRing *self, guint most, guint64 oldest, PoolRun *out_run,
			guint64 *dropped)
{
	guint64 head = atomic_load_explicit(&self->head, memory_order_acquire);

	while ((head >> OFFSET_BITS) != atomic_load_explicit(&self->tail, memory_order_acquire)) {
		const PoolRingEntry *entry = &self->entries[(head >> OFFSET_BITS) % POOL_RING_RUNS];
		PoolRun run = {
			.first = pool_load_relaxed(&entry->first) + (head & OFFSET_MASK),
			.batch = pool_load_relaxed(&entry->batch),
		};
		guint left = pool_load_relaxed(&entry->count) - (head & OFFSET_MASK);
		gboolean is_old = run.batch < oldest;
		guint64 rest;

		if (!is_old && most == 0)
			return FALSE;
		run.count = is_old ? left : MIN(left, most);
		rest = head + run.count;
		if (run.count == left)
			rest = ((head >> OFFSET_BITS) + 1) << OFFSET_BITS;
		/* on failure, head becomes the current value */
		if (!atomic_compare_exchange_weak_explicit(
			    &self->head, &head, rest, memory_order_acq_rel, memory_order_acquire))
			continue;
		if (!is_old) {
			*out_run = run;
			return TRUE;
		}
		*dropped += run.count;
		head = atomic_load_explicit(&self->head, memory_order_acquire);
	}
	return FALSE;
}

guint64 pool_ring_level(const PoolRing *self)
{
	for (;;) {
		guint64 head = atomic_load_explicit(&self->head, memory_order_acquire);
		guint64 number = head >> OFFSET_BITS;

		if (number == atomic_load_explicit(&self->tail, memory_order_acquire))
			return 0;

		guint64 put = atomic_load_explicit(&self->put, memory_order_acquire);
		guint64 before = atomic_load_explicit(
			&self->entries[number % POOL_RING_RUNS].before, memory_order_acquire);

		/* otherwise the entry may already contain a different run */
		if (pool_load_relaxed(&self->head) == head)
			return put - before - (head & OFFSET_MASK);
	}
}
