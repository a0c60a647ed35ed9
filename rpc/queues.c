/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/queues.h"

static gint64 limit_us(gint64 limit_ms)
{
	return limit_ms == 0 ? G_MAXINT64 : limit_ms * 1000;
}

void queues_init(Queues *self, const RpcLimits *limits, gint64 (*clock_us)(void))
{
	gint64 max_wait_us = limits->max_wait_ms * 1000; /* here 0 is no wait at all */

	*self = (Queues){
		.limits_us =
			{
				[QUEUE_IDLE] = limit_us(limits->idle_timeout_ms),
				[QUEUE_FRAME] = limit_us(limits->frame_timeout_ms),
				[QUEUE_WRITE] = limit_us(limits->write_timeout_ms),
				[QUEUE_CUT_OFF] = G_MAXINT64,
				[QUEUE_SINGLE] = max_wait_us,
				[QUEUE_BATCH] = max_wait_us,
				[QUEUE_ASIDE] = max_wait_us,
				[QUEUE_LINGER] = limit_us(QUEUES_LINGER_MS),
			},
		.turn_ids = limits->turn_ids,
		.clock_us = clock_us,
	};
}

gint64 queues_now_us(Queues *self)
{
	if (self->now_us == 0)
		self->now_us = self->clock_us();
	return self->now_us;
}

void queues_forget_time(Queues *self)
{
	self->now_us = 0;
}

void queues_leave(Queues *self, QueuePlace *place)
{
	if (place->queue == QUEUE_NONE)
		return;
	g_queue_unlink(&self->queues[place->queue], &place->link);
	place->queue = QUEUE_NONE;
	self->length--;
}

void queues_enter(Queues *self, QueuePlace *place, Queue queue)
{
	gint64 limit = self->limits_us[queue];

	queues_leave(self, place);
	if (limit == G_MAXINT64 && queue != QUEUE_CUT_OFF)
		return;
	place->queue = queue;
	place->link.data = place;
	place->deadline_us = limit == G_MAXINT64 ? limit : queues_now_us(self) + limit;
	g_queue_push_tail_link(&self->queues[queue], &place->link);
	self->length++;
}

gboolean queues_has_run_out(Queues *self, const QueuePlace *place)
{
	return queues_now_us(self) >= place->deadline_us;
}

gint64 queues_begin_look(Queues *self, guint most_looks)
{
	gint64 now = self->clock_us();

	if (self->look_began_us == 0) {
		self->look_began_us = now;
		self->looks_left = most_looks;
	}
	return now;
}

void queues_end_look(Queues *self, gboolean all)
{
	if (!all && self->looks_left-- > 1)
		return;
	self->looked_us = self->look_began_us;
	self->look_began_us = 0;
}

QueuePlace *queues_expired(const Queues *self, Queue queue)
{
	QueuePlace *head = queues_head(self, queue);

	return head != NULL && head->deadline_us <= self->looked_us ? head : NULL;
}

gboolean queues_is_due(Queues *self, const QueuePlace *place)
{
	return queues_now_us(self) >= MIN(place->retry_us, place->deadline_us);
}

void queues_wake(Queues *self)
{
	static const Queue FOR_IDS[] = {QUEUE_SINGLE, QUEUE_BATCH};

	for (gsize i = 0; i < G_N_ELEMENTS(FOR_IDS); i++)
		for (GList *link = self->queues[FOR_IDS[i]].head; link != NULL; link = link->next)
			((QueuePlace *)link->data)->retry_us = queues_now_us(self);
}

gint64 queues_first_deadline_us(const Queues *self)
{
	gint64 first_us = G_MAXINT64;

	for (guint queue = QUEUE_NONE + 1; queue < N_QUEUES; queue++) {
		const QueuePlace *head = queues_head(self, queue);

		if (head != NULL)
			first_us = MIN(first_us, head->deadline_us);
	}
	return first_us;
}

QueuePlace *queues_next_for_ids(Queues *self)
{
	QueuePlace *single = queues_head(self, QUEUE_SINGLE);
	QueuePlace *batch = queues_head(self, QUEUE_BATCH);

	if (single == NULL || batch == NULL)
		return single == NULL ? batch : single;
	if (queues_has_run_out(self, single) || queues_has_run_out(self, batch))
		return single->deadline_us <= batch->deadline_us ? single : batch;
	return self->single_ids > 0 ? single : batch;
}

guint queues_quota(const Queues *self, const QueuePlace *place)
{
	if (place->queue == QUEUE_SINGLE && self->queues[QUEUE_BATCH].length > 0)
		return MAX(self->single_ids, 1);
	return self->turn_ids;
}

void queues_note_drawn(Queues *self, Queue queue, guint ids)
{
	if (queue == QUEUE_BATCH)
		self->single_ids = MIN(self->single_ids + ids, self->turn_ids);
	else
		self->single_ids -= MIN(self->single_ids, ids);
}
