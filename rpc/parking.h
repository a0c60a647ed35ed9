/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/queues.h"
#include "rpc/rpc-allowance.h"

/*
 * What becomes of calls that wait. Those for IDs are answered in the order in
 * which they came, single ones and batches each in theirs: only one of them
 * tries again, and a call for IDs on any other connection goes behind. While
 * both wait, a batch is followed by as many single IDs as it had, and those by
 * the next batch: each gets half; unless batches come from elsewhere: then the
 * two queues have nothing to do with each other. A call whose time limit has
 * run out is tried a last time, whoever's turn it is; but batches whose limits
 * have run out do not follow each other while a single ID may be there. Calls
 * that wait for something else wait for the same, all of them, and stand aside:
 * nobody waits behind them. Costly calls wait for their turn, which the loop
 * gives them: it does not let them hold up other calls.
 *
 * Its loop's thread only.
 */

/* Runs a pass of whoever stands at @place, and settles what he waits for then: parking_park(), if a
 * call was parked, or another queue. Returns what came of it. */
typedef const RpcVerdict *(*ParkingPass)(gpointer user_data, QueuePlace *place,
					 const RpcAllowance *allowance);

typedef struct {
	/* private */
	Queues *queues;
	guint turn_ids;
	gboolean batches_apart;
	guint single_ids;     /* that may be drawn before the next batch */
	gboolean behind;      /* more of those who wait for IDs may be answered at once */
	gboolean woken_aside; /* what others wait for may be there, and not all have tried again */
} Parking;

/* @queues: borrowed. @turn_ids, @batches_apart: see RpcLimits */
void parking_init(Parking *self, Queues *queues, guint turn_ids, gboolean batches_apart);

/* What is allowed in a pass of a connection that does not wait. */
RpcAllowance parking_allowance(const Parking *self);

/* After a pass that ended with a parked call. %FALSE: it has waited before, and keeps its place; or
 * it waits for no more than its turn. */
gboolean parking_park(Parking *self, QueuePlace *place, const RpcVerdict *verdict);

static inline gboolean parking_holds(const QueuePlace *place)
{
	return place->queue == QUEUE_SINGLE || place->queue == QUEUE_BATCH ||
	       place->queue == QUEUE_ASIDE || place->queue == QUEUE_COSTLY;
}

/* How many wait for IDs. */
static inline guint parking_waiting_for_ids(const Parking *self)
{
	return queues_in(self->queues, QUEUE_SINGLE)->length +
	       queues_in(self->queues, QUEUE_BATCH)->length;
}

/* How many wait, for whatever it is but their turn. */
static inline guint parking_n(const Parking *self)
{
	return parking_waiting_for_ids(self) + queues_in(self->queues, QUEUE_ASIDE)->length;
}

/* What they wait for may be there: all are due. */
void parking_wake(Parking *self);

/* Those try again whose turn it is, one after the other; some of them at most, before others are
 * looked at, and none after a costly call: of calls for IDs, and of those aside. */
void parking_retry(Parking *self, ParkingPass pass, gpointer user_data);

/* Whether more may be answered at once. */
static inline gboolean parking_is_behind(const Parking *self)
{
	return self->behind || self->woken_aside;
}

/* When the clock may allow what the next one waits for; 0: nobody waits for the clock alone. */
gint64 parking_retry_us(const Parking *self);
