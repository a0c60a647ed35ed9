/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/buffer.h"

#include "client/snowflake-client.h"
#include "common/fork-guard.h"
#include "core/clock.h"

#define SHARES_OF_A_THREAD 4

PoolBuffer *pool_buffer_new(GError **error)
{
	g_autoptr(GError) why = NULL;
	PoolBuffer *self = fork_guard_new_memory(sizeof(*self), &why);

	if (self == NULL)
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED, why->message);
	return self;
}

void pool_buffer_free(PoolBuffer *self)
{
	fork_guard_free_memory(self, sizeof(*self));
}

PoolSlot *pool_buffer_claim_slot(PoolBuffer *self)
{
	guint top;

	if (pool_load_relaxed(&self->n_owned) >= POOL_BUFFER_MAX_SLOTS)
		return NULL;
	for (guint i = 0; i < POOL_BUFFER_MAX_SLOTS; i++) {
		PoolSlot *slot = &self->slots[i];
		guintptr none = 0;

		/* acquire, so that the IDs of the slot's last owner are visible */
		if (pool_load_relaxed(&slot->owner) == none &&
		    atomic_compare_exchange_strong_explicit(
			    &slot->owner, &none, (guintptr)pthread_self(), memory_order_acquire,
			    memory_order_relaxed)) {
			atomic_fetch_add_explicit(&self->n_owned, 1, memory_order_relaxed);
			top = pool_load_relaxed(&self->top);
			while (top < i + 1 && !atomic_compare_exchange_weak_explicit(
						      &self->top, &top, i + 1, memory_order_relaxed,
						      memory_order_relaxed))
				;
			return slot;
		}
	}
	return NULL;
}

void pool_buffer_release_slot(PoolBuffer *self, PoolSlot *slot)
{
	if (!pool_slot_is_mine(slot))
		return;
	atomic_fetch_sub_explicit(&self->n_owned, 1, memory_order_relaxed);
	atomic_store_explicit(&slot->owner, 0, memory_order_release);
}

static guint64 slot_left(const PoolSlot *slot)
{
	gint64 next = pool_load_relaxed(&slot->next);
	gint64 end = pool_load_relaxed(&slot->end);

	return (guint64)MAX(end - next, 0); /* negative if the position changes in the meantime */
}

static guint take_from_slot(PoolSlot *slot, guint most, PoolRun *out_run)
{
	gint64 next = pool_load_relaxed(&slot->next);
	guint count = (guint)MIN(slot_left(slot), most);

	if (count > 0)
		*out_run = (PoolRun){next, count, pool_load_relaxed(&slot->batch)};
	pool_store_relaxed(&slot->next, next + count);
	return count;
}

static gboolean take_from_ring(PoolBuffer *self, guint most, PoolRun *out_run)
{
	guint64 dropped = 0;
	guint64 oldest = pool_load_relaxed(&self->oldest);
	gboolean taken = pool_ring_take(&self->ring, most, oldest, out_run, &dropped);

	if (dropped > 0)
		atomic_fetch_add_explicit(&self->discarded, dropped, memory_order_relaxed);
	return taken;
}

gboolean pool_buffer_take(PoolBuffer *self, PoolSlot *slot, guint most, PoolRun *out_run)
{
	guint share = pool_load_relaxed(&self->share);
	guint64 left;

	if (slot == NULL) {
		if (!take_from_ring(self, most, out_run))
			return FALSE;
		atomic_fetch_add_explicit(&self->taken, out_run->count, memory_order_relaxed);
		return TRUE;
	}
	left = slot_left(slot);
	if (left > 0 && pool_load_relaxed(&slot->batch) < pool_load_relaxed(&self->oldest)) {
		/* only one thread changes it */
		pool_store_relaxed(&slot->discarded, pool_load_relaxed(&slot->discarded) + left);
		pool_store_relaxed(&slot->next, pool_load_relaxed(&slot->end));
		/* the last chunk became too old, so start with small chunks again */
		slot->chunk = 0;
	}
	if (take_from_slot(slot, most, out_run))
		return TRUE;
	/* chunk sizes double as long as chunks are used up in time */
	slot->chunk = CLAMP(slot->chunk * 2, 1, POOL_BUFFER_MAX_CHUNK);
	if (!take_from_ring(self, MAX(most, CLAMP(share, 1, slot->chunk)), out_run))
		return FALSE;
	pool_store_relaxed(&slot->next, out_run->first);
	pool_store_relaxed(&slot->end, out_run->first + out_run->count);
	pool_store_relaxed(&slot->batch, out_run->batch);
	pool_store_relaxed(&slot->drawn, pool_load_relaxed(&slot->drawn) + out_run->count);
	take_from_slot(slot, most, out_run);
	return TRUE;
}

void pool_buffer_set_oldest(PoolBuffer *self, guint64 oldest)
{
	PoolRun none;

	pool_store_relaxed(&self->oldest, oldest);
	take_from_ring(self, 0, &none);
}

void pool_buffer_update_share(PoolBuffer *self)
{
	guint64 level = pool_ring_level(&self->ring);
	guint slots = pool_load_relaxed(&self->top);
	guint64 share = level / SHARES_OF_A_THREAD / MAX(slots, 1);

	pool_store_relaxed(&self->share, (guint)MIN(share, POOL_BUFFER_MAX_CHUNK));
}

SnowflakePoolStatistics pool_buffer_count(const PoolBuffer *self)
{
	SnowflakePoolStatistics count = {
		.empty_buffer = pool_load_relaxed(&self->empty_buffer),
		.prefetched = pool_ring_level(&self->ring),
		.taken = pool_load_relaxed(&self->taken),
		.discarded = pool_load_relaxed(&self->discarded),
	};
	guint64 oldest = pool_load_relaxed(&self->oldest);
	guint top = pool_load_relaxed(&self->top);

	for (guint i = 0; i < top; i++) {
		const PoolSlot *slot = &self->slots[i];
		guint64 left = slot_left(slot);
		gboolean is_old = pool_load_relaxed(&slot->batch) < oldest;

		count.taken += pool_load_relaxed(&slot->drawn) -
			       pool_load_relaxed(&slot->discarded) - left;
		count.prefetched += is_old ? 0 : left;
		count.discarded += pool_load_relaxed(&slot->discarded) + (is_old ? left : 0);
	}
	return count;
}

/* Waiting */

guint64 pool_wait_begin(PoolWait *self)
{
	pthread_mutex_lock(&self->mutex);

	guint64 begun = self->round;

	atomic_fetch_add(&self->waiting, 1);
	pthread_mutex_unlock(&self->mutex);
	return begun;
}

gboolean pool_wait_for(PoolWait *self, guint64 *round, gint64 deadline_us)
{
	int code = 0;

	pthread_mutex_lock(&self->mutex);
	while (self->round == *round && code == 0)
		code = clock_wait_until(&self->changed, &self->mutex, deadline_us);

	gboolean woken = self->round != *round;

	*round = self->round;
	pthread_mutex_unlock(&self->mutex);
	return woken;
}

void pool_wait_end(PoolWait *self)
{
	atomic_fetch_sub(&self->waiting, 1);
}

void pool_wait_wake(PoolWait *self)
{
	if (atomic_fetch_add(&self->waiting, 0) == 0)
		return;
	pthread_mutex_lock(&self->mutex);
	self->round++;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

void pool_wait_set_failure(PoolWait *self, int failure, const char *text)
{
	pthread_mutex_lock(&self->mutex);
	self->failure = failure;
	g_strlcpy(self->failure_text, text != NULL ? text : "", sizeof(self->failure_text));
	pthread_mutex_unlock(&self->mutex);
}

void pool_wait_set_error(PoolWait *self, guint waited_ms, GError **error)
{
	pthread_mutex_lock(&self->mutex);

	gboolean is_known = *self->failure_text != '\0';

	g_set_error(error, SNOWFLAKE_CLIENT_ERROR,
		    is_known ? self->failure : SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
		    "no prefetched ID, and no ID arrived within %u ms: %s", waited_ms,
		    is_known ? self->failure_text : POOL_WAIT_NO_ANSWER);
	pthread_mutex_unlock(&self->mutex);
}
