/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/rpc-service.h"

/* Time in which bytes after the last reply are discarded, unless the client closes first: calls
 * that were under way arrive meanwhile. */
#define QUEUES_LINGER_MS 250

/* A loop is late if it finds a deadline that passed this long ago. Then the process was stopped,
 * had no CPU, or is overloaded. */
#define QUEUES_LATE_US G_GINT64_CONSTANT(100000)

/* What the connections in a queue wait for. */
typedef enum {
	QUEUE_NONE,
	QUEUE_IDLE,    /* between two messages */
	QUEUE_FRAME,   /* a message has begun */
	QUEUE_WRITE,   /* replies wait for the client */
	QUEUE_CUT_OFF, /* calls wait for its next turn; without a time limit */
	QUEUE_COSTLY,  /* a costly call waits for a turn; without a time limit */
	QUEUE_SINGLE,  /* a call waits for one ID */
	QUEUE_BATCH,   /* a call waits for several IDs */
	QUEUE_ASIDE,   /* a call waits for something else */
	QUEUE_LINGER,  /* the last reply was sent: further bytes are discarded */
	N_QUEUES
} Queue;

/* A connection's place in a queue. */
typedef struct {
	Queue queue; /* QUEUE_NONE at first: the other fields are undefined */
	GList link;
	gint64 entered_at_us; /* monotonic, like the next two */
	gint64 deadline_at_us;
	gint64 retry_at_us;   /* parked: when to try again; G_MAXINT64: after parking_wake() */
	gboolean is_extended; /* see queues_extend_if_late() */
} QueuePlace;

/*
 * Queues in which the connections of a loop wait. All places in one queue have the same time limit,
 * so the first place has the first deadline. An extension keeps this order, as it is not longer
 * than the limit: see queues_extend_if_late().
 *
 * The loop's thread only.
 */
typedef struct {
	/* private */
	gint64 limits_us[N_QUEUES]; /* G_MAXINT64: none */
	gint64 (*clock_us)(void);
	GQueue queues[N_QUEUES];
	guint length; /* of all of them */
	gint64 poll_began_at_us;
	guint polls_left;
	gint64 polled_at_us;
	gint64 now_us; /* 0: it was forgotten */
} Queues;

/* @clock_us: monotonic */
void queues_init(Queues *self, const RpcLimits *limits, gint64 (*clock_us)(void));

/* Returns the time, which is read once until it is forgotten. */
gint64 queues_now_us(Queues *self);
/* @now_us: read just now; 0: forgets the time */
static inline void queues_set_time(Queues *self, gint64 now_us)
{
	self->now_us = now_us;
}

/* Whether places can be in @queue: it has a time limit, or is one of those without. */
static inline gboolean queues_has(const Queues *self, Queue queue)
{
	return self->limits_us[queue] != G_MAXINT64 || queue == QUEUE_CUT_OFF ||
	       queue == QUEUE_COSTLY;
}

void queues_leave(Queues *self, QueuePlace *place);

/* Appends @place to @queue with the whole time limit. If the queue has no limit, the place is in no
 * queue, unless it is cut off or deferred. */
void queues_enter(Queues *self, QueuePlace *place, Queue queue);

/* The sockets are about to be polled. @all of queues_end_poll(): this poll reported all of them.
 * @most_polls: number of polls that report every socket that is readable now
 * Returns: the time */
gint64 queues_begin_poll(Queues *self, guint most_polls);
void queues_end_poll(Queues *self, gboolean all);

/* Extends deadlines in @queue if the loop is late for the first one: IDs can have come and gone
 * meanwhile. Each place then has its time limit from now on, but one second at most. A deadline is
 * extended once only, so a place waits for no more than its limit, the absence and the extension.
 */
void queues_extend_if_late(Queues *self, Queue queue);

/* Returns the first place whose time limit was over before polls began that have reported every
 * readable socket. So bytes that came in time were read, even if the process was stopped
 * meanwhile. NULL: none. */
QueuePlace *queues_expired(const Queues *self, Queue queue);

/* Returns the queue, of QueuePlace. */
static inline const GQueue *queues_in(const Queues *self, Queue queue)
{
	return &self->queues[queue];
}

/* (nullable): the first place. */
static inline QueuePlace *queues_head(const Queues *self, Queue queue)
{
	return self->queues[queue].head == NULL ? NULL : self->queues[queue].head->data;
}

/* Whether no place is in any queue, which is the usual case. */
static inline gboolean queues_are_empty(const Queues *self)
{
	return self->length == 0;
}

/* Whether the time limit of @place is over. */
gboolean queues_has_run_out(Queues *self, const QueuePlace *place);

/* Returns the first deadline of all queues; G_MAXINT64: there is none. */
gint64 queues_first_deadline_at_us(const Queues *self);
