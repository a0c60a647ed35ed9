/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/queues.h"

/* Decides which parked call is tried next, and when.
 *
 * Calls for IDs wait in two queues, one for single IDs and one for batches. Each queue is served in
 * the order of arrival: only its first call is tried, and while calls wait, new calls for IDs join
 * the queue. While both queues contain calls, each batch is followed by as many single IDs as it
 * contained, so each queue gets half of the IDs. With RpcLimits.batches_apart the two queues are
 * independent.
 *
 * A call whose time limit has expired is tried one last time, even if the other queue is next.
 * After each batch of this kind, a single ID is drawn if possible.
 *
 * Calls that wait for something other than IDs are set aside: they all wait for the same event, and
 * do not delay other calls. Costly calls are deferred: the loop answers them in turns, so that
 * they do not delay other calls.
 *
 * Only the loop's thread may use it.
 */

/* Runs a pass of the connection at @place with the allowance in @pass, and queues the connection
 * again. If a call still waits, the function calls parking_park(). */
typedef void (*ParkingRun)(gpointer user_data, QueuePlace *place, RpcPass *pass);

/* Initialise it with the first three members. */
typedef struct {
	Queues *queues; /* borrowed */
	guint turn_ids; /* see RpcLimits, as for the next member */
	gboolean batches_apart;
	/* private */
	guint single_ids;     /* number of single IDs to draw before the next batch */
	gboolean behind;      /* more calls for IDs may be answerable at once */
	gboolean woken_aside; /* parking_wake() was called, and not all calls that are set aside
				 have been tried */
} Parking;

/* Returns the rules for a connection's pass. @own: the queue in which the connection is first, so
 * that its call does not wait for itself; QUEUE_NONE if it is in no queue */
static inline RpcAllowance parking_allowance(const Parking *self, Queue own)
{
	const GQueue *queues = self->queues->queues;
	guint singles = queues[QUEUE_SINGLE].length - (own == QUEUE_SINGLE);
	guint batches = queues[QUEUE_BATCH].length - (own == QUEUE_BATCH);

	return (RpcAllowance){
		.others_wait = singles + batches > 0,
		.single_may_pass = self->batches_apart && singles == 0,
		.batch_may_pass = self->batches_apart && batches == 0,
		.costly = RPC_COSTLY_NONE,
	};
}

/* Queues a connection whose pass ended with a parked call. Returns %FALSE if it already waited and
 * keeps its position, or if its call is only deferred. */
gboolean parking_park(Parking *self, QueuePlace *place, const RpcPass *pass);

static inline gboolean parking_holds(const QueuePlace *place)
{
	return place->queue == QUEUE_SINGLE || place->queue == QUEUE_BATCH ||
	       place->queue == QUEUE_ASIDE || place->queue == QUEUE_COSTLY;
}

/* Returns the number of calls that wait for IDs or are set aside, not counting deferred calls. */
static inline guint parking_n(const Parking *self)
{
	const GQueue *queues = self->queues->queues;

	return queues[QUEUE_SINGLE].length + queues[QUEUE_BATCH].length +
	       queues[QUEUE_ASIDE].length;
}

/* Makes all parked calls due, because IDs may be available, or because the event that other calls
 * wait for has occurred. */
void parking_wake(Parking *self);

/* Retries some parked calls of both kinds, and returns so that the loop can serve other
 * connections. After a costly call, no further call of its kind is tried. */
void parking_retry(Parking *self, ParkingRun run, gpointer user_data);

/* Returns whether more parked calls may be answerable at once. */
static inline gboolean parking_is_behind(const Parking *self)
{
	return self->behind || self->woken_aside;
}

/* Returns the instant at which the clock can allow the next call; 0 if no call is waiting only for
 * the clock. */
gint64 parking_retry_at_us(const Parking *self);
