/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/queues.h"

static gint64 limit_us(gint64 limit_ms)
{
	return limit_ms == 0 ? G_MAXINT64 : limit_ms * 1000;
}

void queues_init(Queues *self, const RpcLimits *limits, gint64 (*clock_us)(void))
{
	gint64 max_wait_us = limits->max_wait_ms * 1000; /* here, 0 means no wait */

	*self = (Queues){
		.limits_us =
			{
				[QUEUE_IDLE] = limit_us(limits->idle_timeout_ms),
				[QUEUE_FRAME] = limit_us(limits->frame_timeout_ms),
				[QUEUE_WRITE] = limit_us(limits->write_timeout_ms),
				[QUEUE_CUT_OFF] = G_MAXINT64,
				[QUEUE_COSTLY] = G_MAXINT64,
				[QUEUE_SINGLE] = max_wait_us,
				[QUEUE_BATCH] = max_wait_us,
				[QUEUE_ASIDE] = max_wait_us,
				[QUEUE_LINGER] = limit_us(QUEUES_LINGER_MS),
			},
		.clock_us = clock_us,
	};
}

gint64 queues_now_us(Queues *self)
{
	if (self->now_us == 0)
		self->now_us = self->clock_us();
	return self->now_us;
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
	if (!queues_has(self, queue))
		return;
	place->queue = queue;
	place->link.data = place;
	place->entered_at_us = queues_now_us(self);
	place->is_extended = FALSE;
	place->deadline_at_us = limit == G_MAXINT64 ? limit : place->entered_at_us + limit;
	g_queue_push_tail_link(&self->queues[queue], &place->link);
	self->length++;
}

gboolean queues_has_run_out(Queues *self, const QueuePlace *place)
{
	return queues_now_us(self) >= place->deadline_at_us;
}

gint64 queues_begin_poll(Queues *self, guint most_polls)
{
	gint64 now = self->clock_us();

	if (self->poll_began_at_us == 0) {
		self->poll_began_at_us = now;
		self->polls_left = most_polls;
	}
	return now;
}

void queues_end_poll(Queues *self, gboolean all)
{
	if (!all && self->polls_left-- > 1)
		return;
	self->polled_at_us = self->poll_began_at_us;
	self->poll_began_at_us = 0;
}

void queues_extend_if_late(Queues *self, Queue queue)
{
	gint64 now_us = queues_now_us(self);
	gint64 until_us = now_us + MIN(self->limits_us[queue], G_TIME_SPAN_SECOND);
	const QueuePlace *head = queues_head(self, queue);

	if (head == NULL || now_us - head->deadline_at_us < QUEUES_LATE_US)
		return;
	for (GList *link = self->queues[queue].head; link != NULL; link = link->next) {
		QueuePlace *place = link->data;

		if (place->deadline_at_us >= until_us)
			break;
		if (!place->is_extended)
			place->deadline_at_us = until_us;
		place->is_extended = TRUE;
	}
}

QueuePlace *queues_expired(const Queues *self, Queue queue)
{
	QueuePlace *head = queues_head(self, queue);

	return head != NULL && head->deadline_at_us <= self->polled_at_us ? head : NULL;
}

gint64 queues_first_deadline_at_us(const Queues *self)
{
	gint64 first_us = G_MAXINT64;

	for (guint queue = QUEUE_NONE + 1; queue < N_QUEUES; queue++) {
		const QueuePlace *head = queues_head(self, queue);

		if (head != NULL)
			first_us = MIN(first_us, head->deadline_at_us);
	}
	return first_us;
}
