/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/pool/ring.h"
#include "client/pool/wait.h"

/*
 * What a pool has in hand: a ring of runs, and for each thread that takes a slot with a chunk of
 * one, which is the thread's own. So most takes touch nothing that another thread writes.
 *
 * It lies in memory that a fork wipes, and zeros are a hand with nothing in it, no slot taken and
 * no lock held. So what is in hand belongs to the process that fetched it, whether or not anybody
 * sees to it: a child finds the slot of its only thread empty, and nobody's.
 *
 * Ageing: whoever fetches numbers what it puts by batches, and says which is the oldest that may be
 * handed out. Relaxed, as it is no matter of uniqueness: a take may be as late to hear of it as the
 * processor is.
 */

#define POOL_HAND_MAX_SLOTS 4096 /* threads beyond these take each ID from the ring */
#define POOL_HAND_MAX_CHUNK 256  /* IDs: at which the ring's cost is lost in that of the takes */

/* A thread's. What others read for statistics is atomic. */
typedef struct {
	_Alignas(POOL_LINE_BYTES) _Atomic gint64 next;
	_Atomic gint64 end; /* after the last ID */
	_Atomic guint64 batch;
	_Atomic guintptr owner; /* pthread_self() of the thread; 0: nobody */
	_Atomic guint64 drawn;  /* from the ring, since the start */
	_Atomic guint64 thrown; /* away of that, for their age */
	guint chunk;            /* how many the next chunk may have; 0: as 1 */
} PoolSlot;

typedef struct {
	/* written by the thread that fetches, now and then */
	_Alignas(POOL_LINE_BYTES) _Atomic guint64 oldest; /* batch that may be handed out */
	_Atomic guint share;         /* of what is in hand, for one chunk; 0: as 1 */
	_Atomic gboolean is_started; /* somebody fetches for this hand, in this process */
	/* by threads that find nothing, or have no slot */
	_Alignas(POOL_LINE_BYTES) PoolWait wait;
	_Atomic guint64 taken;  /* from the ring, not by way of a slot */
	_Atomic guint64 thrown; /* away on the way to something younger */
	_Atomic guint64 dry;    /* takes that have found nothing */
	_Atomic guint owned;    /* slots that are a thread's */
	_Atomic guint top;      /* slots that were ever taken: those below this one */
	PoolRing ring;
	PoolSlot slots[POOL_HAND_MAX_SLOTS];
} PoolHand;

typedef struct {
	guint64 in_hand;
	guint64 taken;
	guint64 thrown;
} PoolHandCount;

/* Returns: (transfer full): a hand with nothing in it, or %NULL with UNSUPPORTED set */
PoolHand *pool_hand_new(GError **error);
void pool_hand_free(PoolHand *self);

/* The thread's own slot from now on; %NULL if there are no more. What the thread before has left in
 * it is handed out first. */
PoolSlot *pool_hand_claim(PoolHand *self);

/* At the end of a thread. Does nothing if the slot is not the thread's. */
void pool_hand_release(PoolHand *self, PoolSlot *slot);

static inline gboolean pool_slot_is_mine(const PoolSlot *self)
{
	return atomic_load_explicit(&self->owner, memory_order_relaxed) == (guintptr)pthread_self();
}

/* The next ID of the thread's slot. %FALSE if there is none, or the slot is not the thread's. */
static inline gboolean pool_slot_take(PoolSlot *self, const PoolHand *hand, gint64 *out_id)
{
	gint64 next = atomic_load_explicit(&self->next, memory_order_relaxed);

	if (next == atomic_load_explicit(&self->end, memory_order_relaxed) ||
	    atomic_load_explicit(&self->batch, memory_order_relaxed) <
		    atomic_load_explicit(&hand->oldest, memory_order_relaxed) ||
	    !pool_slot_is_mine(self))
		return FALSE;
	atomic_store_explicit(&self->next, next + 1, memory_order_relaxed);
	*out_id = next;
	return TRUE;
}

/**
 * pool_hand_take:
 * @slot: (nullable): the thread's own
 * @most: 1 or more
 * @out_run: (out): IDs that follow each other, @most at most
 *
 * What the slot has, or else of the ring. Of few a whole chunk goes into the slot.
 *
 * Returns: %FALSE if there is nothing
 */
gboolean pool_hand_take(PoolHand *self, PoolSlot *slot, guint most, PoolRun *out_run);

/* For the thread that fetches. Says how old batches may be, and drops older runs. */
void pool_hand_age(PoolHand *self, guint64 oldest);

/* Likewise: by what is in the ring, how much of it a thread may put by. */
void pool_hand_share(PoolHand *self);

/* For any thread. What others take meanwhile may count twice, or not. */
PoolHandCount pool_hand_count(const PoolHand *self);
