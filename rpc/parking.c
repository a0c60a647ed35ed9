/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/parking.h"

/* The maximum number of parked connections that are tried before other connections are served. */
#define MAX_RETRIES 16

gboolean parking_park(Parking *self, QueuePlace *place, const RpcPass *pass)
{
	static const Queue QUEUES[] = {
		[RPC_WAIT_SINGLE] = QUEUE_SINGLE,
		[RPC_WAIT_BATCH] = QUEUE_BATCH,
		[RPC_WAIT_ASIDE] = QUEUE_ASIDE,
		[RPC_WAIT_TURN] = QUEUE_COSTLY,
	};
	Queue queue = QUEUES[pass->wait.what_for];

	if (queue == QUEUE_COSTLY) {
		queues_enter(self->queues, place, queue);
		return FALSE;
	}

	/* the wait begins now, not at the last reading of the clock, because the process may have
	 * been suspended since */
	queues_set_time(self->queues, 0);
	place->retry_at_us = pass->wait.wait_ns == 0
				     ? G_MAXINT64
				     : queues_now_us(self->queues) + pass->wait.wait_ns / 1000 + 1;
	if (place->queue == queue && pass->n_answered == 0)
		return FALSE;
	queues_enter(self->queues, place, queue);
	return TRUE;
}

void parking_wake(Parking *self)
{
	static const Queue FOR_IDS[] = {QUEUE_SINGLE, QUEUE_BATCH};

	self->woken_aside = TRUE;
	for (gsize i = 0; i < G_N_ELEMENTS(FOR_IDS); i++)
		for (GList *link = self->queues->queues[FOR_IDS[i]].head; link != NULL;
		     link = link->next)
			((QueuePlace *)link->data)->retry_at_us = queues_now_us(self->queues);
}

static gint64 due_us(const QueuePlace *place)
{
	return MIN(place->retry_at_us, place->deadline_at_us);
}

/* Returns the ID call that should be retried next; NULL if no call is waiting. */
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
	/* a large number of expired batches must not delay single IDs */
	if (self->single_ids > 0 && single->retry_at_us <= queues_now_us(self->queues))
		return single;
	if (self->batches_apart)
		return due_us(single) <= due_us(batch) ? single : batch;
	return single->deadline_at_us <= batch->deadline_at_us ? single : batch;
}

/* Returns the ID call to retry next, if IDs may be available for it or its time limit has
 * expired. */
static QueuePlace *next_due(const Parking *self)
{
	QueuePlace *next = next_for_ids(self);

	if (next == NULL || queues_now_us(self->queues) < due_us(next))
		return NULL;
	return next;
}

/* Retries the call that waits at @place. */
static RpcPass retry_call(Parking *self, QueuePlace *place, ParkingRun run, gpointer user_data)
{
	Queue queue = place->queue;
	RpcPass pass = {.allowance = parking_allowance(self, queue)};
	guint drawn;

	pass.allowance.costly = RPC_COSTLY_ONE;
	if (queue == QUEUE_SINGLE && !self->batches_apart &&
	    queues_head(self->queues, QUEUE_BATCH) != NULL)
		pass.allowance.quota = MAX(self->single_ids, 1);
	else if (queue != QUEUE_ASIDE)
		pass.allowance.quota = self->turn_ids;
	queues_extend_if_late(self->queues, queue);
	pass.allowance.last_chance = queues_has_run_out(self->queues, place);
	run(user_data, place, &pass);

	drawn = (guint)MIN(pass.n_drawn, pass.allowance.quota);
	if (queue == QUEUE_BATCH && pass.n_answered > 0)
		/* at least 1, so that a single ID also follows a refused batch */
		drawn = MAX(drawn, 1);
	if (queue == QUEUE_BATCH)
		self->single_ids = MIN(self->single_ids + drawn, self->turn_ids);
	else
		self->single_ids -= MIN(self->single_ids, drawn);
	return pass;
}

/* Returns the first call that was set aside, if it may be answered now or its time limit has
 * expired. */
static QueuePlace *next_aside(const Parking *self)
{
	QueuePlace *head = queues_head(self->queues, QUEUE_ASIDE);

	if (head == NULL || (!self->woken_aside && !queues_has_run_out(self->queues, head)))
		return NULL;
	return head;
}

void parking_retry(Parking *self, ParkingRun run, gpointer user_data)
{
	QueuePlace *next = next_aside(self);
	RpcPass pass = {0};

	for (guint tries = 0; next != NULL && !pass.was_costly && tries < MAX_RETRIES; tries++) {
		pass = retry_call(self, next, run, user_data);
		/* if the first call must wait longer, so must the others */
		if (pass.wait.what_for != RPC_WAIT_NONE && pass.n_answered == 0)
			self->woken_aside = FALSE;
		next = next_aside(self);
	}
	self->woken_aside = next != NULL;

	pass = (RpcPass){0};
	next = next_due(self);
	for (guint tries = 0; next != NULL && !pass.was_costly && tries < MAX_RETRIES; tries++) {
		pass = retry_call(self, next, run, user_data);
		next = next_due(self);
	}
	self->behind = next != NULL;
}

gint64 parking_retry_at_us(const Parking *self)
{
	const QueuePlace *next = next_for_ids(self);

	return next == NULL || next->retry_at_us == G_MAXINT64 ? 0 : next->retry_at_us;
}
