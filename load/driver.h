/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "load/connection.h"
#include "load/tally.h"

/* The due times of calls in an open loop, which do not depend on earlier calls. Call n is due n
 * intervals after the start, so rounding errors do not accumulate. */
typedef struct {
	gint64 start_ns;
	double interval_ns; /* time between two calls */
} LoadSchedule;

/* Returns the schedule of @count connections, from number @first on, of @connections that make
 * @rate calls per second together. Schedules are shifted so that the calls of several threads
 * alternate. */
LoadSchedule load_schedule_make(gint64 start_ns, double rate, guint64 connections, guint64 first,
				guint64 count);

static inline gint64 load_schedule_due_ns(const LoadSchedule *self, guint64 call)
{
	return self->start_ns + (gint64)((double)call * self->interval_ns);
}

/* Returns how many calls are due in [@from_ns, @until_ns). */
guint64 load_schedule_count(const LoadSchedule *self, gint64 from_ns, gint64 until_ns);

/* Returns the backoff before the next attempt, after @failures consecutive failures of a connection
 * that tries @n_servers in turn. It is 0 until every server was tried. Then its limit is 10 ms, and
 * doubles in each round up to 100 ms. It is longer if a thread with @n_connections would otherwise
 * make more than 10,000 attempts a second. The backoff is random, between half the limit and the
 * limit.
 * @draw: random, 0 to 1 */
gint64 load_schedule_retry_ns(guint failures, guint n_servers, guint n_connections, double draw);

/* One thread that generates load: an epoll loop with its own connections.
 *
 * Closed loop: every connection keeps calls in flight in all its slots, so each reply is followed
 * by the next call.
 *
 * Open loop: a schedule determines when calls are due, on the connections in turn. If there is no
 * free slot, the call waits for one, but its latency is measured from its due time. So it includes
 * all delays that a slow server causes.
 *
 * If a connection ends, or is silent for the timeout with calls in flight, the lane connects to the
 * next server. If the other side closed or reset the connection, but not within a reply, the calls
 * in flight are sent again on the next connection, as clients would do. Their latency is still
 * measured from the time at which they were first made or due. If the connection ended in another
 * way, the calls count as errors. Until the lane is connected, a closed loop makes no other calls
 * on it; in an open loop, calls continue to become due, and are sent on the next connection. A call
 * that gets no connection within the timeout is an error.
 *
 * After the measurement, no more calls are made. Calls that are in flight, or due but not sent,
 * count as errors unless they are answered within the timeout. The connections are closed at the
 * end. */
typedef struct _LoadDriver LoadDriver;

#define LOAD_NS_PER_MS G_GINT64_CONSTANT(1000000)

typedef struct {
	const LoadWire *wire; /* borrowed */
	/* CLOCK_MONOTONIC times; see LoadTally for what is measured between them. */
	gint64 measure_from_ns;
	gint64 measure_until_ns;
	/* Closed loop: the number of calls to make; if it is limited, measure_until_ns is
	 * G_MAXINT64. The load ends when each call has been answered or counts as an error, or
	 * after @silence_ns without a reply. Calls that were not made then count as errors.
	 * G_MAXUINT64 for no limit. */
	guint64 calls;
	gint64 silence_ns;
	LoadSchedule schedule; /* interval_ns is 0 for a closed loop */
	gint64 timeout_ns;
	/* (nullable): borrowed; if it becomes true, the load ends at once. Calls that are in flight
	 * or due at this time count neither as calls nor as errors. */
	const atomic_bool *stop;
	LoadIdLog *
		/* (nullable): borrowed; if set, the driver also checks that IDs increase on each
		 * connection */
		id_log;
} LoadDriverConfig;

/* @servers: (element-type LoadServer): borrowed; after a failure, a connection uses the next one
 * @connections: (transfer full) (element-type LoadConnection): connections to some of these
 * servers; the array's free function is load_connection_free()
 * Returns: (transfer full) (nullable): a driver; %NULL with a GIOError set */
LoadDriver *load_driver_new(GPtrArray *servers, GPtrArray *connections, GError **error);
void load_driver_free(LoadDriver *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadDriver, load_driver_free)

/* Starts the thread. If this fails, the tally contains an error. @config is copied. */
void load_driver_start(LoadDriver *self, const LoadDriverConfig *config);

/* Waits until the thread has ended. */
void load_driver_wait(LoadDriver *self);

/* Returns the results, after load_driver_wait(). */
const LoadTally *load_driver_tally(const LoadDriver *self);

/* Returns the CLOCK_MONOTONIC time. */
gint64 load_driver_now_ns(void);
