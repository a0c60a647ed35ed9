/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/queues.h"

/*
 * Decides which parked call is tried next, and when.
 *
 * Calls for IDs wait in two queues, one for single IDs and one for batches.
 * Each queue is served in the order of arrival: only its first call is tried,
 * and while calls wait, new calls for IDs wait after them. While both queues
 * have calls, a batch is followed by as many single IDs as it had, and these by
 * the next batch, so each queue gets half of the IDs. With RpcLimits.batches_apart
 * the two queues are independent.
 *
 * A call whose time limit is over is tried a last time, even if the other queue
 * is next. While single IDs can be drawn, one follows each such batch.
 *
 * Calls that wait for something else stand aside: all of them wait for the same
 * event, and no other call waits for them. Costly calls are deferred: the loop
 * gives them turns, so that they do not delay other calls.
 *
 * The loop's thread only.
 */

/* Runs a pass of the connection at @place with the allowance in @pass, and queues the connection
 * again: with parking_park() if a call waits. */
typedef void (*ParkingRun)(gpointer user_data, QueuePlace *place, RpcPass *pass);

typedef struct {
	/* private */
	Queues *queues;
	guint turn_ids;
	gboolean batches_apart;
	guint single_ids;     /* that may be drawn before the next batch */
	gboolean behind;      /* more calls for IDs can be answered at once */
	gboolean woken_aside; /* parking_wake() was called, and not all calls aside were tried */
} Parking;

/* @queues: borrowed. @turn_ids, @batches_apart: see RpcLimits */
void parking_init(Parking *self, Queues *queues, guint turn_ids, gboolean batches_apart);

/* Returns the rules of a pass of a connection. @own: the queue that it is first in, so that its
 * call does not wait after itself; QUEUE_NONE: it does not wait */
static inline RpcAllowance parking_allowance(const Parking *self, Queue own)
{
	guint singles = queues_in(self->queues, QUEUE_SINGLE)->length - (own == QUEUE_SINGLE);
	guint batches = queues_in(self->queues, QUEUE_BATCH)->length - (own == QUEUE_BATCH);

	return (RpcAllowance){
		.others_wait = singles + batches > 0,
		.single_may_pass = self->batches_apart && singles == 0,
		.batch_may_pass = self->batches_apart && batches == 0,
		.costly = RPC_COSTLY_NONE,
	};
}

/* Queues a connection whose pass ended with a parked call. Returns %FALSE if it already waited and
 * keeps its place, or if its call is only deferred. */
gboolean parking_park(Parking *self, QueuePlace *place, const RpcPass *pass);

static inline gboolean parking_holds(const QueuePlace *place)
{
	return place->queue == QUEUE_SINGLE || place->queue == QUEUE_BATCH ||
	       place->queue == QUEUE_ASIDE || place->queue == QUEUE_COSTLY;
}

/* Number of calls that wait for IDs or aside, without deferred ones. */
static inline guint parking_n(const Parking *self)
{
	return queues_in(self->queues, QUEUE_SINGLE)->length +
	       queues_in(self->queues, QUEUE_BATCH)->length +
	       queues_in(self->queues, QUEUE_ASIDE)->length;
}

/* IDs, or what calls aside wait for, can be there: all parked calls are due. */
void parking_wake(Parking *self);

/* Tries parked calls again, those aside and those for IDs: some of each, but none of a kind after a
 * costly call, so that the loop serves other connections. */
void parking_retry(Parking *self, ParkingRun run, gpointer user_data);

/* Whether more parked calls can be answered at once. */
static inline gboolean parking_is_behind(const Parking *self)
{
	return self->behind || self->woken_aside;
}

/* Returns when the clock can allow the next call; 0: no call waits for the clock alone. */
gint64 parking_retry_at_us(const Parking *self);
