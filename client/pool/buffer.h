/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/pool/ring.h"
#include "client/snowflake-pool.h"

/* The prefetch buffer of a pool: a ring of runs, and a slot for each thread that takes. A slot
 * contains a chunk of a run, which only its thread uses. So most takes access no memory that other
 * threads write. A thread that finds no IDs waits here for the refill thread.
 *
 * The buffer is in memory that a fork wipes. Zeros mean an empty buffer: no IDs, no owned slots, no
 * held locks and no waiting threads. So only the process that requested the IDs can use them: in a
 * child, the slot of its only thread is empty and unowned.
 *
 * Ageing: the refill thread gives each run the number of its batch, and sets the oldest batch that
 * may be handed out. The number is loaded with relaxed memory order, because uniqueness does not
 * depend on it: a take may see the new number slightly later. */

#define POOL_BUFFER_MAX_SLOTS 4096 /* threads beyond this number take each ID from the ring */
#define POOL_BUFFER_MAX_CHUNK 256  /* large enough to make the cost of the ring negligible */

#define POOL_WAIT_TEXT_BYTES 512
#define POOL_WAIT_NO_ANSWER  "no server has replied yet" /* used if no other reason is known */

/* No wake-up is lost. A waiting thread increments the count, and then tries to take again. The
 * refill thread puts IDs, and then reads the count. Both change the count atomically, so one of
 * them is first: either the refill thread sees the count, or the waiting thread sees the IDs. */
typedef struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	_Atomic guint waiting; /* number of waiting threads */
	/* members below: protected by the mutex */
	guint64 round; /* counts wake-ups */
	/* reason why no IDs arrive: a SnowflakeClientError, valid if there is a message */
	int failure;
	char failure_text[POOL_WAIT_TEXT_BYTES];
} PoolWait;

/* A thread's slot. Members that others read for statistics are atomic. */
typedef struct {
	_Alignas(POOL_LINE_BYTES) _Atomic gint64 next;
	_Atomic gint64 end; /* end of the chunk, one after the last ID */
	_Atomic guint64 batch;
	_Atomic guintptr owner; /* pthread_self() of the thread; 0 if none */
	_Atomic guint64 drawn;  /* number of IDs taken from the ring since the start */
	/* number of IDs from the ring that were discarded because of their age */
	_Atomic guint64 discarded;
	guint chunk; /* maximum size of the next chunk; 0 means 1 */
} PoolSlot;

typedef struct {
	/* rarely written, by the refill thread */
	_Alignas(POOL_LINE_BYTES) _Atomic guint64 oldest; /* oldest batch that may be handed out */
	/* maximum number of IDs in a chunk; 0 means 1 */
	_Atomic guint share;
	_Atomic gboolean is_started; /* a refill thread of this process fills this buffer */
	/* written by threads that find nothing or have no slot */
	_Alignas(POOL_LINE_BYTES) PoolWait wait;
	_Atomic guint64 taken;        /* number of IDs taken from the ring without a slot */
	_Atomic guint64 discarded;    /* number of IDs that these takes discarded */
	_Atomic guint64 empty_buffer; /* number of takes that found no IDs */
	_Atomic guint n_owned;        /* slots with an owner */
	_Atomic guint top; /* all slots that have ever had an owner are below this index */
	PoolRing ring;
	PoolSlot slots[POOL_BUFFER_MAX_SLOTS];
} PoolBuffer;

/* Returns: (transfer full): an empty buffer, or %NULL with UNSUPPORTED set */
PoolBuffer *pool_buffer_new(GError **error);
void pool_buffer_free(PoolBuffer *self);

/* Returns: (nullable): a slot, which now belongs to the calling thread, with the IDs that its
 * previous owner left; %NULL if no slot is free */
PoolSlot *pool_buffer_claim_slot(PoolBuffer *self);

/* Releases the slot of a thread that ends. Does nothing if the slot does not belong to the
 * thread. */
void pool_buffer_release_slot(PoolBuffer *self, PoolSlot *slot);

static inline gboolean pool_slot_is_mine(const PoolSlot *self)
{
	return pool_load_relaxed(&self->owner) == (guintptr)pthread_self();
}

/* Takes the next ID from the thread's slot. Returns: %FALSE if the slot contains no ID, or does not
 * belong to the thread */
static inline gboolean pool_slot_take(PoolSlot *self, const PoolBuffer *buffer, gint64 *out_id)
{
	gint64 next = pool_load_relaxed(&self->next);

	if (next == pool_load_relaxed(&self->end) ||
	    pool_load_relaxed(&self->batch) < pool_load_relaxed(&buffer->oldest) ||
	    !pool_slot_is_mine(self))
		return FALSE;
	pool_store_relaxed(&self->next, next + 1);
	*out_id = next;
	return TRUE;
}

/* Takes at most @most (1 or more) consecutive IDs from the thread's @slot (nullable), or from the
 * ring if the slot is empty. If @most is small, the slot gets a whole chunk. Returns: %FALSE if
 * there are no IDs */
gboolean pool_buffer_take(PoolBuffer *self, PoolSlot *slot, guint most, PoolRun *out_run);

/* Sets the oldest batch that may be handed out, and drops older runs. Must be called by the refill
 * thread. */
void pool_buffer_set_oldest(PoolBuffer *self, guint64 oldest);

/* Sets the maximum chunk size according to the fill level of the ring. Must be called by the refill
 * thread. */
void pool_buffer_update_share(PoolBuffer *self);

/* Returns the statistics that the buffer counts; the other members are 0. Can be called from any
 * thread. IDs that are taken during the call may be counted twice, or not at all. */
SnowflakePoolStatistics pool_buffer_count(const PoolBuffer *self);

/* Returns: the current round, for pool_wait_for(). From now on, new IDs wake the thread. */
guint64 pool_wait_begin(PoolWait *self);

/* Waits for a wake-up after *@round, and sets *@round to the round of that wake-up. Returns: %FALSE
 * at @deadline_us (g_get_monotonic_time()) */
gboolean pool_wait_for(PoolWait *self, guint64 *round, gint64 deadline_us);
void pool_wait_end(PoolWait *self);

/* Wakes waiting threads after IDs have been put. Must be called by the refill thread. */
void pool_wait_wake(PoolWait *self);

/* Sets the reason why no IDs arrive. Must be called by the refill thread. @text: (nullable): %NULL
 * if IDs arrive */
void pool_wait_set_failure(PoolWait *self, int failure, const char *text);

/* Sets the error of a thread that has waited for @waited_ms: this failure, or TIMEOUT if there is
 * none. */
void pool_wait_set_error(PoolWait *self, guint waited_ms, GError **error);
