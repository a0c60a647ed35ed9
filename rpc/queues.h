/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/rpc-limits.h"

/* How long what comes behind the last reply is read away, unless the client ends it: time for what
 * was under way to arrive. */
#define QUEUES_LINGER_MS 250

/* Each has one time limit. */
typedef enum {
	QUEUE_NONE,
	QUEUE_IDLE,    /* between two messages */
	QUEUE_FRAME,   /* a message has begun */
	QUEUE_WRITE,   /* replies wait for the client */
	QUEUE_CUT_OFF, /* calls wait for its next turn; without a time limit */
	QUEUE_SINGLE,  /* a call waits for one ID */
	QUEUE_BATCH,   /* a call waits for several IDs */
	QUEUE_ASIDE,   /* a call waits for something else */
	QUEUE_LINGER,  /* it has had its last reply: what still comes is read away */
	N_QUEUES
} Queue;

/* A place in a queue, part of whoever waits. */
typedef struct {
	Queue queue; /* QUEUE_NONE at first, where the rest means nothing */
	GList link;
	gint64 deadline_us; /* monotonic */
	gint64 retry_us; /* parked: when the clock may allow it; G_MAXINT64: not by the clock alone
			  */
} QueuePlace;

/*
 * Where the connections of a loop wait. All who stand in one queue have the
 * same time limit, so the first in it is the first to run out, and there is
 * nothing to sort.
 *
 * Those who wait for IDs stand in two queues, for one ID and for several, and
 * only one of them draws next. While there is somebody in both, a batch is
 * followed by as many single IDs as it had, and those by the next batch: each
 * gets half.
 *
 * Its loop's thread only.
 */
typedef struct {
	/* private */
	gint64 limits_us[N_QUEUES]; /* G_MAXINT64: none */
	guint turn_ids;
	gint64 (*clock_us)(void);
	GQueue queues[N_QUEUES];
	guint length; /* of all of them */
	gint64 look_began_us;
	guint looks_left;
	gint64 looked_us;
	gint64 now_us;    /* 0: nobody has asked since queues_forget_time() */
	guint single_ids; /* that may be drawn before the next batch */
} Queues;

/* @clock_us: monotonic */
void queues_init(Queues *self, const RpcLimits *limits, gint64 (*clock_us)(void));

/* The time, read once until it is forgotten. */
gint64 queues_now_us(Queues *self);
void queues_forget_time(Queues *self);

void queues_leave(Queues *self, QueuePlace *place);

/* Puts it at the end of @queue, with the whole time limit before it. Who is idle, or anything else
 * but cut off, without a limit, stands nowhere. */
void queues_enter(Queues *self, QueuePlace *place, Queue queue);

/**
 * queues_begin_look:
 * @most_looks: after as many everybody who has something to say now has been heard
 *
 * The sockets are about to be looked at. queues_end_look() says whether that told of all.
 *
 * Returns: the time
 */
gint64 queues_begin_look(Queues *self, guint most_looks);
void queues_end_look(Queues *self, gboolean all);

/* The first in it whose time limit had run out when a look began that has told of all: what had
 * come by then has been read, also if the process was stopped meanwhile. NULL: none. */
QueuePlace *queues_expired(const Queues *self, Queue queue);

/* The first in it, or NULL. */
static inline QueuePlace *queues_head(const Queues *self, Queue queue)
{
	return self->queues[queue].head == NULL ? NULL : self->queues[queue].head->data;
}

/* Whether nobody waits for anything, as most times. */
static inline gboolean queues_are_empty(const Queues *self)
{
	return self->length == 0;
}

/* How many wait for IDs. */
static inline guint queues_waiting_for_ids(const Queues *self)
{
	return self->queues[QUEUE_SINGLE].length + self->queues[QUEUE_BATCH].length;
}

/* Whether its time limit has run out. */
gboolean queues_has_run_out(Queues *self, const QueuePlace *place);

/* Whether it may try again now, or its time limit has run out. It is parked. */
gboolean queues_is_due(Queues *self, const QueuePlace *place);

/* What those who wait for IDs wait for may be there: all of them are due. */
void queues_wake(Queues *self);

/* When the first time limit runs out; G_MAXINT64: none does. */
gint64 queues_first_deadline_us(const Queues *self);

/* Who draws next of those who wait for IDs, or is told that there are none; NULL: nobody waits. */
QueuePlace *queues_next_for_ids(Queues *self);

/* How many IDs it may draw before it is the turn of others. It stands in a queue for IDs. */
guint queues_quota(const Queues *self, const QueuePlace *place);

/* One from @queue has drawn so many. */
void queues_note_drawn(Queues *self, Queue queue, guint ids);
