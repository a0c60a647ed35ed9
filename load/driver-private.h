/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "load/driver.h"

/*
 * The driver's inside. driver.c has the thread, the calls and the replies; driver-lanes.c, whose
 * functions are below, loses connections and makes them again.
 */

typedef enum {
	LOAD_LANE_LOST,       /* there is no connection */
	LOAD_LANE_CONNECTING, /* there is one that is being made */
	LOAD_LANE_UP,
} LoadLaneState;

/* A connection, or what is to become one again, and its share of an open loop: every n_lanes-th
 * call of the schedule. */
typedef struct {
	LoadConnection *connection; /* NULL: LOST */
	LoadLaneState state;
	gboolean watches_write;
	guint64 next_call; /* to be sent here */
	guint64 waiting;   /* calls that are due and were not sent */
	GArray *again; /* not UP: since when, the oldest first, calls that were in flight when the
			  connection ended */
	gint64 wanted_ns; /* the first instant since a good reply at which a call was wanted */
	gint64 heard_ns; /* something last, or a call sent when none was in flight, or CONNECTING */
	gint64 retry_ns; /* LOST: when to connect */
	guint server;    /* of the driver's: where to, or where it is */
	guint failures;  /* in a row: it broke, or could not be made */
} LoadLane;

typedef enum {
	LOAD_PHASE_WARM_UP,
	LOAD_PHASE_MEASURE,
	LOAD_PHASE_DRAIN, /* no more calls are made */
	LOAD_PHASE_OVER,
} LoadPhase;

struct _LoadDriver {
	LoadDriverConfig config;
	GPtrArray *servers; /* borrowed; of LoadServer */
	LoadLane *lanes;
	guint n_lanes;
	LoadConnectionBuffer buffer;
	pthread_t thread;
	gboolean started;
	int epoll_fd;
	LoadPhase phase;
	gint64 now_ns;       /* when the clock was last read */
	gint64 polled_ns;    /* what had come by then has been served */
	gint64 looked_ns;    /* at all lanes, last */
	gint64 next_look_ns; /* at all lanes */
	gint64 last_heard_ns;
	guint64 calls_left; /* closed loop: to be made */
	guint64 next_due;   /* open loop: the next call of the schedule */
	gint64 next_due_ns;
	guint64 in_flight; /* on all connections, or to be sent again */
	guint64 waiting;   /* of all lanes */
	LoadTally *tally;
	/* What the tally says, for other threads. */
	_Atomic guint64 answered;
	_Atomic guint64 errors;
};

/* %FALSE with an error of GIO. @events: of epoll */
gboolean load_lane_watch(LoadDriver *self, LoadLane *lane, int operation, guint32 events,
			 GError **error);

/* Ends the connection, which is made again. If @why is G_IO_ERROR_CONNECTION_CLOSED, which a reset
 * is, too, and it was not within a reply, the calls that it has in flight are to be sent again.
 * Else they are errors, of a kind that @why tells: G_IO_ERROR_TIMED_OUT, G_IO_ERROR_INVALID_DATA,
 * or else that it broke. */
void load_lane_lose(LoadDriver *self, LoadLane *lane, const GError *why);

/* What was being made can be written to. %FALSE with an error of GIO: it is lost. */
gboolean load_lane_finish(LoadDriver *self, LoadLane *lane, GError **error);

/* Between two polls, when next_look_ns has come: makes lost connections again, and ends those on
 * which nothing comes. */
void load_lane_look_at_all(LoadDriver *self);

/* So many of the calls that are to be sent again, the oldest, are errors. */
void load_lane_give_up(LoadDriver *self, LoadLane *lane, guint count);

/* A connection that was lost, or was just made again, has calls that are due, or to be sent again:
 * those that are beyond their time are errors. */
void load_lane_expire(LoadDriver *self, LoadLane *lane);
