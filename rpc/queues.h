/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/rpc-service.h"

/* How long what comes after the last reply is read away, unless the client ends it: time for what
 * was under way to arrive. */
#define QUEUES_LINGER_MS 250

/* A loop is late if it finds a deadline that passed this long ago. Then the process was stopped,
 * had no CPU, or is overloaded. */
#define QUEUES_LATE_US G_GINT64_CONSTANT(100000)

/* What those who stand in it wait for. */
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
	QUEUE_LINGER,  /* it has had its last reply: what still comes is read away */
	N_QUEUES
} Queue;

/* A place in a queue, part of whoever waits. */
typedef struct {
	Queue queue; /* QUEUE_NONE at first, where the rest means nothing */
	GList link;
	gint64 since_us; /* monotonic, like the next two */
	gint64 deadline_us;
	gint64 retry_us; /* parked: when to try again; G_MAXINT64: the clock alone does not tell */
	gboolean is_extended; /* see queues_extend_if_late() */
} QueuePlace;

/*
 * Where the connections of a loop wait. All places in one queue have the same
 * time limit, so the first place has the first deadline. An extension keeps
 * this order, as it is not longer than the limit: see queues_extend_if_late().
 *
 * Its loop's thread only.
 */
typedef struct {
	/* private */
	gint64 limits_us[N_QUEUES]; /* G_MAXINT64: none */
	gint64 (*clock_us)(void);
	GQueue queues[N_QUEUES];
	guint length; /* of all of them */
	gint64 look_began_us;
	guint looks_left;
	gint64 looked_us;
	gint64 now_us; /* 0: nobody has asked since queues_forget_time() */
} Queues;

/* @clock_us: monotonic */
void queues_init(Queues *self, const RpcLimits *limits, gint64 (*clock_us)(void));

/* The time, read once until it is forgotten. */
gint64 queues_now_us(Queues *self);
void queues_forget_time(Queues *self);
/* It was read just now. */
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

/* Extends deadlines in @queue if the loop is late for the first one: IDs can have come and gone
 * meanwhile. Each place then has its time limit from now on, but one second at most. A deadline is
 * extended once only, so a place waits for no more than its limit, the absence and the extension.
 */
void queues_extend_if_late(Queues *self, Queue queue);

/* The first in it whose time limit had run out when a look began that has told of all: what had
 * come by then has been read, also if the process was stopped meanwhile. NULL: none. */
QueuePlace *queues_expired(const Queues *self, Queue queue);

/* Those who stand in it: of QueuePlace. */
static inline const GQueue *queues_in(const Queues *self, Queue queue)
{
	return &self->queues[queue];
}

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

/* Whether its time limit has run out. */
gboolean queues_has_run_out(Queues *self, const QueuePlace *place);

/* When the first time limit runs out; G_MAXINT64: none does. */
gint64 queues_first_deadline_us(const Queues *self);
