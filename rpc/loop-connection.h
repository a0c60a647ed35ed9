/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "rpc/connection-table.h"
#include "rpc/connection.h"
#include "rpc/parking.h"
#include "rpc/poller.h"

/*
 * A connection, and where its loop has it. What every pass needs stands
 * together, in 64 bytes: with thousands of connections a pass begins with the
 * memory that it does not find in the caches.
 */
typedef struct {
	Connection connection;
	guint32 events;     /* what epoll watches for */
	guint waits : 1;    /* for the server, as the connection table has it */
	guint is_local : 1; /* the connection table must know when it is active */
	QueuePlace place;
	ConnectionEntry *entry; /* NULL: none */
	GList all_link;         /* in the loop's queue of all */
	gint64 frame_until_us; /* of a message in hand that has outlasted turns; 0: there is none */
} LoopConnection;

G_STATIC_ASSERT(offsetof(LoopConnection, place.queue) + sizeof(Queue) -
			offsetof(LoopConnection, connection.fd) <=
		64);

/* Whose place it is; NULL: nobody's. */
static inline LoopConnection *loop_connection_at(QueuePlace *place)
{
	return place == NULL ? NULL
			     : G_STRUCT_MEMBER_P(place, -(glong)offsetof(LoopConnection, place));
}

/* One waits for what is not there yet, or it has had its last reply. */
static inline gboolean loop_connection_takes_no_calls(const LoopConnection *self)
{
	return parking_holds(&self->place) || self->place.queue == QUEUE_LINGER;
}

static inline void loop_connection_watch(LoopConnection *self, int poller, guint32 events)
{
	if (self->events == events)
		return;
	self->events = events;
	poller_change(poller, self->connection.fd, self, events);
}

/* One that waits for the server is silent too, but not idle. */
static inline void loop_connection_set_waits(LoopConnection *self, gboolean waits)
{
	if (self->waits == (guint)waits)
		return;
	self->waits = (guint)waits;
	connection_entry_set_waits(self->entry, waits);
}

/* Where it waits after a pass, if it is not parked, and goes on. */
static inline Queue loop_connection_queue(const LoopConnection *self, ConnectionState state)
{
	if (state == CONNECTION_WRITING)
		return QUEUE_WRITE;
	if (state == CONNECTION_CUT_OFF)
		return QUEUE_CUT_OFF;
	return self->connection.in != NULL || self->connection.in_record ? QUEUE_FRAME : QUEUE_IDLE;
}
