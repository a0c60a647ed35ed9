/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/parking.h"

/* Of parked connections that may be answered at once, before others are looked at. */
#define MAX_RETRIES 16

void parking_init(Parking *self, Queues *queues, guint turn_ids, gboolean batches_apart)
{
	*self = (Parking){
		.queues = queues,
		.turn_ids = turn_ids,
		.batches_apart = batches_apart,
	};
}

gboolean parking_park(Parking *self, QueuePlace *place, const RpcVerdict *verdict)
{
	Queue for_ids = verdict->ids > 1 ? QUEUE_BATCH : QUEUE_SINGLE;
	Queue queue = verdict->aside ? QUEUE_ASIDE : for_ids;

	if (verdict->deferred) {
		queues_enter(self->queues, place, QUEUE_COSTLY);
		return FALSE;
	}

	/* the time it begins to wait, not that of the last look at the clock: the process may have
	 * been stopped in between */
	queues_forget_time(self->queues);
	place->retry_us = verdict->wait_ns == 0
				  ? G_MAXINT64
				  : queues_now_us(self->queues) + verdict->wait_ns / 1000 + 1;
	if (place->queue == queue && !verdict->answered)
		return FALSE;
	queues_enter(self->queues, place, queue);
	return TRUE;
}

void parking_wake(Parking *self)
{
	static const Queue FOR_IDS[] = {QUEUE_SINGLE, QUEUE_BATCH};

	self->woken_aside = TRUE;
	for (gsize i = 0; i < G_N_ELEMENTS(FOR_IDS); i++)
		for (GList *link = queues_in(self->queues, FOR_IDS[i])->head; link != NULL;
		     link = link->next)
			((QueuePlace *)link->data)->retry_us = queues_now_us(self->queues);
}

static gint64 due_us(const QueuePlace *place)
{
	return MIN(place->retry_us, place->deadline_us);
}

/* Returns the call for IDs that is tried next; NULL: none waits. */
static QueuePlace *next_for_ids(const Parking *self)
{
	QueuePlace *single = queues_head(self->queues, QUEUE_SINGLE);
	QueuePlace *batch = queues_head(self->queues, QUEUE_BATCH);
	gboolean has_run_out;

	if (single == NULL || batch == NULL)
		return single == NULL ? batch : single;
	has_run_out =
		queues_has_run_out(self->queues, single) || queues_has_run_out(self->queues, batch);
	if (!self->batches_apart && !has_run_out)
		return self->single_ids > 0 ? single : batch;
	/* many batches whose time limit is over must not delay single IDs */
	if (self->single_ids > 0 && single->retry_us <= queues_now_us(self->queues))
		return single;
	if (self->batches_apart)
		return due_us(single) <= due_us(batch) ? single : batch;
	return single->deadline_us <= batch->deadline_us ? single : batch;
}

/* Returns the same call if there can be IDs for it by now, or if its time limit is over. */
static QueuePlace *next_due(const Parking *self)
{
	QueuePlace *next = next_for_ids(self);

	if (next == NULL || queues_now_us(self->queues) < due_us(next))
		return NULL;
	return next;
}

/* How many IDs it may draw before it is the turn of others. */
static guint quota(const Parking *self, const QueuePlace *place)
{
	if (place->queue == QUEUE_ASIDE)
		return 0;
	if (place->queue == QUEUE_SINGLE && !self->batches_apart &&
	    queues_head(self->queues, QUEUE_BATCH) != NULL)
		return MAX(self->single_ids, 1);
	return self->turn_ids;
}

/* Counts a refused batch as one ID, so that a single ID follows it. */
static void note_drawn(Parking *self, Queue queue, const RpcVerdict *verdict, guint ids)
{
	if (queue == QUEUE_BATCH && verdict->answered)
		ids = MAX(ids, 1);
	if (queue == QUEUE_BATCH)
		self->single_ids = MIN(self->single_ids + ids, self->turn_ids);
	else
		self->single_ids -= MIN(self->single_ids, ids);
}

/* Of @singles and @batches, which wait, and draw before whoever asks. */
static RpcAllowance allowance_behind(const Parking *self, guint singles, guint batches)
{
	return (RpcAllowance){
		.others_wait = singles + batches > 0,
		.single_may_pass = self->batches_apart && singles == 0,
		.batch_may_pass = self->batches_apart && batches == 0,
		.costly = RPC_COSTLY_NONE,
	};
}

RpcAllowance parking_allowance(const Parking *self)
{
	return allowance_behind(self, queues_in(self->queues, QUEUE_SINGLE)->length,
				queues_in(self->queues, QUEUE_BATCH)->length);
}

/* Tries the call again that waits there. */
static const RpcVerdict *retry(Parking *self, QueuePlace *place, ParkingPass pass,
			       gpointer user_data)
{
	Queue queue = place->queue;
	guint singles = queues_in(self->queues, QUEUE_SINGLE)->length;
	guint batches = queues_in(self->queues, QUEUE_BATCH)->length;
	RpcAllowance allowance = allowance_behind(self, singles - (queue == QUEUE_SINGLE),
						  batches - (queue == QUEUE_BATCH));
	const RpcVerdict *verdict;

	allowance.costly = RPC_COSTLY_ONE;
	allowance.quota = quota(self, place);
	queues_extend_if_late(self->queues, queue);
	allowance.last_chance = queues_has_run_out(self->queues, place);
	verdict = pass(user_data, place, &allowance);
	note_drawn(self, queue, verdict, (guint)MIN(verdict->drawn, allowance.quota));
	return verdict;
}

static void retry_for_ids(Parking *self, ParkingPass pass, gpointer user_data)
{
	QueuePlace *next = next_due(self);
	gboolean costly = FALSE;

	for (guint tries = 0; next != NULL && !costly && tries < MAX_RETRIES; tries++) {
		costly = retry(self, next, pass, user_data)->costly;
		next = next_due(self);
	}
	self->behind = next != NULL;
}

/* Returns the first call aside if it can be answered by now, or if its time limit is over. */
static QueuePlace *next_aside(const Parking *self)
{
	QueuePlace *head = queues_head(self->queues, QUEUE_ASIDE);

	if (head == NULL || (!self->woken_aside && !queues_has_run_out(self->queues, head)))
		return NULL;
	return head;
}

static void retry_aside(Parking *self, ParkingPass pass, gpointer user_data)
{
	QueuePlace *next = next_aside(self);
	gboolean costly = FALSE;

	for (guint tries = 0; next != NULL && !costly && tries < MAX_RETRIES; tries++) {
		const RpcVerdict *verdict = retry(self, next, pass, user_data);

		costly = verdict->costly;
		if (verdict->parked && !verdict->answered) /* it is not there for the others */
			self->woken_aside = FALSE;
		next = next_aside(self);
	}
	self->woken_aside = next != NULL;
}

void parking_retry(Parking *self, ParkingPass pass, gpointer user_data)
{
	retry_aside(self, pass, user_data);
	retry_for_ids(self, pass, user_data);
}

gint64 parking_retry_us(const Parking *self)
{
	const QueuePlace *next = next_for_ids(self);

	return next == NULL || next->retry_us == G_MAXINT64 ? 0 : next->retry_us;
}
