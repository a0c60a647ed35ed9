/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/ring.h"

#define OFFSET_BITS 16

G_STATIC_ASSERT((POOL_RING_RUNS & (POOL_RING_RUNS - 1)) == 0);
G_STATIC_ASSERT(POOL_RING_MAX_COUNT < 1 << OFFSET_BITS);
G_STATIC_ASSERT(ATOMIC_LLONG_LOCK_FREE == 2);

static guint64 number_of(guint64 head)
{
	return head >> OFFSET_BITS;
}

static guint offset_of(guint64 head)
{
	return head & ((1u << OFFSET_BITS) - 1);
}

gboolean pool_ring_put(PoolRing *self, const PoolRun *run)
{
	guint64 head = atomic_load_explicit(&self->head, memory_order_acquire);
	guint64 tail = pool_ring_load_relaxed(&self->tail);
	guint64 put = pool_ring_load_relaxed(&self->put);
	guint entries = (run->count + POOL_RING_MAX_COUNT - 1) / POOL_RING_MAX_COUNT;

	if (tail + entries - number_of(head) > POOL_RING_RUNS)
		return FALSE;
	for (guint done = 0, count; done < run->count; done += count) {
		count = MIN(run->count - done, POOL_RING_MAX_COUNT);

		PoolRingEntry *entry = &self->entries[tail++ % POOL_RING_RUNS];

		atomic_store_explicit(&entry->first, run->first + done, memory_order_relaxed);
		atomic_store_explicit(&entry->batch, run->batch, memory_order_relaxed);
		atomic_store_explicit(&entry->before, put + done, memory_order_relaxed);
		atomic_store_explicit(&entry->count, count, memory_order_relaxed);
	}
	atomic_store_explicit(&self->put, put + run->count, memory_order_relaxed);
	atomic_store_explicit(&self->tail, tail, memory_order_release);
	return TRUE;
}

gboolean pool_ring_take(PoolRing *self, guint most, guint64 oldest, PoolRun *out_run,
			guint64 *dropped)
{
	guint64 head = atomic_load_explicit(&self->head, memory_order_acquire);

	while (number_of(head) != atomic_load_explicit(&self->tail, memory_order_acquire)) {
		const PoolRingEntry *entry = &self->entries[number_of(head) % POOL_RING_RUNS];
		PoolRun run = {
			.first = atomic_load_explicit(&entry->first, memory_order_relaxed) +
				 offset_of(head),
			.batch = pool_ring_load_relaxed(&entry->batch),
		};
		guint left =
			atomic_load_explicit(&entry->count, memory_order_relaxed) - offset_of(head);
		gboolean is_old = run.batch < oldest;
		guint64 rest;

		if (!is_old && most == 0)
			return FALSE;
		run.count = is_old ? left : MIN(left, most);
		rest = head + run.count;
		if (run.count == left)
			rest = (number_of(head) + 1) << OFFSET_BITS;
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
		guint64 number = number_of(head);

		if (number == atomic_load_explicit(&self->tail, memory_order_acquire))
			return 0;

		guint64 put = atomic_load_explicit(&self->put, memory_order_acquire);
		guint64 before = atomic_load_explicit(
			&self->entries[number % POOL_RING_RUNS].before, memory_order_acquire);

		/* otherwise the entry may already contain a different run */
		if (pool_ring_load_relaxed(&self->head) == head)
			return put - before - offset_of(head);
	}
}

guint64 pool_ring_put_ids(const PoolRing *self)
{
	return pool_ring_load_relaxed(&self->put);
}
