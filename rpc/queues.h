/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/rpc-service.h"

/* How long bytes are read and discarded after the last reply, unless the client closes the
 * connection first. Calls that are still in transit arrive during this time. */
#define QUEUES_LINGER_MS 250

/* A loop is late if it finds a deadline that passed this long ago. The process was then suspended,
 * got no CPU time, or is overloaded. */
#define QUEUES_LATE_US G_GINT64_CONSTANT(100000)

/* The event that the connections in a queue wait for. */
typedef enum {
	QUEUE_NONE,
	QUEUE_IDLE,    /* between two messages */
	QUEUE_FRAME,   /* a message has begun */
	QUEUE_WRITE,   /* replies wait for the client */
	QUEUE_CUT_OFF, /* calls wait for the connection's next turn; without a time limit */
	QUEUE_COSTLY,  /* a costly call waits for a turn; without a time limit */
	QUEUE_SINGLE,  /* a call waits for one ID */
	QUEUE_BATCH,   /* a call waits for several IDs */
	QUEUE_ASIDE,   /* a call waits for something else */
	QUEUE_LINGER,  /* the last reply was sent: further bytes are discarded */
	N_QUEUES
} Queue;

/* A connection's position in a queue. */
typedef struct {
	Queue queue; /* initially QUEUE_NONE, and the other members are undefined */
	GList link;
	gint64 entered_at_us; /* monotonic, as are the next two members */
	gint64 deadline_at_us;
	/* for a parked call: when to retry it; G_MAXINT64 to retry it after parking_wake() */
	gint64 retry_at_us;
	gboolean is_extended; /* see queues_extend_if_late() */
} QueuePlace;

/* Queues in which the connections of a loop wait. All places in one queue have the same time limit,
 * so the first place has the first deadline. An extension preserves this order, because it is not
 * longer than the time limit: see queues_extend_if_late().
 *
 * Only the loop's thread may use it.
 */
typedef struct {
	/* Code outside this module may only read these. */
	GQueue queues[N_QUEUES]; /* (element-type QueuePlace) */
	guint length;            /* number of places in all queues; usually 0 */
	/* private */
	gint64 limits_us[N_QUEUES]; /* G_MAXINT64 if none */
	gint64 (*clock_us)(void);
	gint64 poll_began_at_us;
	guint polls_left;
	gint64 polled_at_us;
	gint64 now_us; /* 0 if not read yet */
} Queues;

/* @clock_us: monotonic */
void queues_init(Queues *self, const RpcLimits *limits, gint64 (*clock_us)(void));

/* Returns the time. The clock is read once, until queues_set_time() resets it. */
gint64 queues_now_us(Queues *self);
/* Sets the time, if the caller has just read it; if 0, the next call to queues_now_us() reads the
 * clock. */
static inline void queues_set_time(Queues *self, gint64 now_us)
{
	self->now_us = now_us;
}

/* Returns whether @queue is used. A queue is not used if its time limit is turned off. */
static inline gboolean queues_has(const Queues *self, Queue queue)
{
	return self->limits_us[queue] != G_MAXINT64 || queue == QUEUE_CUT_OFF ||
	       queue == QUEUE_COSTLY;
}

void queues_leave(Queues *self, QueuePlace *place);

/* Appends @place to @queue with the full time limit. If the queue is not used (see queues_has()),
 * the place is in no queue afterwards. */
void queues_enter(Queues *self, QueuePlace *place, Queue queue);

/* Call these before and after each poll of the sockets.
 * @most_polls: number of polls after which every socket that is readable now has been reported
 * @all: whether this poll has reported all readable sockets
 * Returns: the time */
gint64 queues_begin_poll(Queues *self, guint most_polls);
void queues_end_poll(Queues *self, gboolean all);

/* Extends deadlines in @queue if the loop is late for the first one, because IDs may have been
 * available in the meantime. Each place then gets its time limit again, starting now, but at most
 * one second. A deadline is extended only once, so the longest wait is the limit, plus the lost
 * time, plus the extension. */
void queues_extend_if_late(Queues *self, Queue queue);

/* Returns: (nullable): the first place whose time limit had expired when the polls began that
 * reported every readable socket. So all bytes that arrived in time have been read, even if the
 * process was suspended in between. */
QueuePlace *queues_expired(const Queues *self, Queue queue);

/* Returns: (nullable): the first place. */
static inline QueuePlace *queues_head(const Queues *self, Queue queue)
{
	return self->queues[queue].head == NULL ? NULL : self->queues[queue].head->data;
}

/* Returns whether the time limit of @place has expired. */
gboolean queues_has_run_out(Queues *self, const QueuePlace *place);

/* Returns the first deadline of all queues; G_MAXINT64 if there is none. */
gint64 queues_first_deadline_at_us(const Queues *self);
