/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/hand.h"

#include "client/snowflake-client.h"
#include "common/wiped-memory.h"

#define SHARES_OF_A_THREAD 4

PoolHand *pool_hand_new(GError **error)
{
	g_autoptr(GError) why = NULL;
	PoolHand *self = wiped_memory_new(sizeof(*self), &why);

	if (self == NULL)
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED, why->message);
	return self;
}

void pool_hand_free(PoolHand *self)
{
	wiped_memory_free(self, sizeof(*self));
}

static void raise_top(PoolHand *self, guint top)
{
	guint seen = atomic_load_explicit(&self->top, memory_order_relaxed);

	while (seen < top &&
	       !atomic_compare_exchange_weak_explicit(&self->top, &seen, top, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

static gboolean claim(PoolSlot *slot)
{
	guintptr nobody = 0;

	if (atomic_load_explicit(&slot->owner, memory_order_relaxed) != nobody)
		return FALSE;
	/* acquire: what the thread before has left */
	return atomic_compare_exchange_strong_explicit(&slot->owner, &nobody,
						       (guintptr)pthread_self(),
						       memory_order_acquire, memory_order_relaxed);
}

PoolSlot *pool_hand_claim(PoolHand *self)
{
	if (atomic_load_explicit(&self->owned, memory_order_relaxed) >= POOL_HAND_MAX_SLOTS)
		return NULL;
	for (guint i = 0; i < POOL_HAND_MAX_SLOTS; i++) {
		if (claim(&self->slots[i])) {
			atomic_fetch_add_explicit(&self->owned, 1, memory_order_relaxed);
			raise_top(self, i + 1);
			return &self->slots[i];
		}
	}
	return NULL;
}

void pool_hand_release(PoolHand *self, PoolSlot *slot)
{
	if (!pool_slot_is_mine(slot))
		return;
	atomic_fetch_sub_explicit(&self->owned, 1, memory_order_relaxed);
	atomic_store_explicit(&slot->owner, 0, memory_order_release);
}

static guint64 load(const _Atomic guint64 *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static guint64 slot_left(const PoolSlot *slot)
{
	gint64 next = atomic_load_explicit(&slot->next, memory_order_relaxed);
	gint64 end = atomic_load_explicit(&slot->end, memory_order_relaxed);

	return (guint64)MAX(end - next, 0); /* of a slot that changes meanwhile */
}

/* By the only thread that changes it. */
static void add(_Atomic guint64 *value, guint64 n)
{
	atomic_store_explicit(value, load(value) + n, memory_order_relaxed);
}

static void fill(PoolSlot *slot, const PoolRun *run)
{
	atomic_store_explicit(&slot->next, run->first, memory_order_relaxed);
	atomic_store_explicit(&slot->end, run->first + run->count, memory_order_relaxed);
	atomic_store_explicit(&slot->batch, run->batch, memory_order_relaxed);
	add(&slot->drawn, run->count);
}

/* Throws away what is too old. A thread that could not use its chunk in time begins with a small
 * one again. */
static void age_slot(PoolSlot *slot, guint64 oldest)
{
	guint64 left = slot_left(slot);

	if (left == 0 || load(&slot->batch) >= oldest)
		return;
	add(&slot->thrown, left);
	atomic_store_explicit(&slot->next, atomic_load_explicit(&slot->end, memory_order_relaxed),
			      memory_order_relaxed);
	slot->chunk = 0;
}

static guint take_from_slot(PoolSlot *slot, guint most, PoolRun *out_run)
{
	gint64 next = atomic_load_explicit(&slot->next, memory_order_relaxed);
	guint count = (guint)MIN(slot_left(slot), most);

	if (count > 0)
		*out_run = (PoolRun){next, count, load(&slot->batch)};
	atomic_store_explicit(&slot->next, next + count, memory_order_relaxed);
	return count;
}

/* Twice as many as the time before, while they are used up. */
static guint next_chunk(PoolHand *self, PoolSlot *slot)
{
	guint share = atomic_load_explicit(&self->share, memory_order_relaxed);

	slot->chunk = CLAMP(slot->chunk * 2, 1, POOL_HAND_MAX_CHUNK);
	return CLAMP(share, 1, slot->chunk);
}

static gboolean take_from_ring(PoolHand *self, guint most, PoolRun *out_run)
{
	guint64 dropped = 0;
	guint64 oldest = load(&self->oldest);
	gboolean taken = pool_ring_take(&self->ring, most, oldest, out_run, &dropped);

	if (dropped > 0)
		atomic_fetch_add_explicit(&self->thrown, dropped, memory_order_relaxed);
	return taken;
}

gboolean pool_hand_take(PoolHand *self, PoolSlot *slot, guint most, PoolRun *out_run)
{
	guint chunk = 1;

	if (slot != NULL) {
		age_slot(slot, load(&self->oldest));
		if (take_from_slot(slot, most, out_run))
			return TRUE;
		chunk = next_chunk(self, slot);
	}
	if (!take_from_ring(self, MAX(most, chunk), out_run))
		return FALSE;
	if (slot != NULL) {
		fill(slot, out_run);
		take_from_slot(slot, most, out_run);
	} else {
		atomic_fetch_add_explicit(&self->taken, out_run->count, memory_order_relaxed);
	}
	return TRUE;
}

void pool_hand_age(PoolHand *self, guint64 oldest)
{
	PoolRun none;

	atomic_store_explicit(&self->oldest, oldest, memory_order_relaxed);
	take_from_ring(self, 0, &none);
}

void pool_hand_share(PoolHand *self)
{
	guint64 level = pool_ring_level(&self->ring);
	guint slots = atomic_load_explicit(&self->top, memory_order_relaxed);
	guint64 share = level / SHARES_OF_A_THREAD / MAX(slots, 1);

	atomic_store_explicit(&self->share, (guint)MIN(share, POOL_HAND_MAX_CHUNK),
			      memory_order_relaxed);
}

PoolHandCount pool_hand_count(const PoolHand *self)
{
	PoolHandCount count = {
		.in_hand = pool_ring_level(&self->ring),
		.taken = load(&self->taken),
		.thrown = load(&self->thrown),
	};
	guint64 oldest = load(&self->oldest);

	guint top = atomic_load_explicit(&self->top, memory_order_relaxed);

	for (guint i = 0; i < top; i++) {
		const PoolSlot *slot = &self->slots[i];
		guint64 left = slot_left(slot);
		gboolean is_old = load(&slot->batch) < oldest;

		count.taken += load(&slot->drawn) - load(&slot->thrown) - left;
		count.in_hand += is_old ? 0 : left;
		count.thrown += load(&slot->thrown) + (is_old ? left : 0);
	}
	return count;
}
