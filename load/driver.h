/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "load/connection.h"
#include "load/schedule.h"
#include "load/tally.h"

/*
 * One thread of load: an epoll loop over connections of its own.
 *
 * Closed loop: every connection has all its slots in flight, and a call is sent for every reply
 * that comes.
 *
 * Open loop: calls are due by a schedule, on the connections in turn. A call without a free slot is
 * sent when there is one, but its latency counts from when it was due. So the calls that a slow
 * server delays count in full.
 *
 * A connection that ends, or is silent for the timeout with calls in flight, is made again, to the
 * next server. If the other side ended or reset it, and not within a reply, the calls in flight are
 * sent again on the next connection, as clients do that expect restarts; their latency still counts
 * from when they were first made or due. Otherwise they are errors. Meanwhile a closed loop makes
 * no other calls on this connection; in an open loop they become due, and are sent on the next one.
 * A call that has no connection within the timeout is an error.
 *
 * After the measured time no more calls are made. Calls in flight, or due and not sent, are errors
 * unless they are answered within the timeout. The connections are closed at the end.
 */
typedef struct _LoadDriver LoadDriver;

#define LOAD_NS_PER_MS G_GINT64_CONSTANT(1000000)

typedef struct {
	const LoadWire *wire; /* borrowed */
	/* CLOCK_MONOTONIC; see LoadTally for what is measured in this time. */
	gint64 measure_from_ns;
	gint64 measure_until_ns;
	/* Closed loop: the number of calls to make; then measure_until_ns is G_MAXINT64. The load
	 * ends when all are answered or errors, or after @silence_ns without a reply, when the
	 * calls that were not made are errors. G_MAXUINT64: no limit. */
	guint64 calls;
	gint64 silence_ns;
	LoadSchedule schedule; /* interval_ns is 0 for a closed loop */
	gint64 timeout_ns;
	/* (nullable), borrowed: if it is set, the load ends at once; calls in flight or due then
	 * count neither as calls nor as errors. */
	const atomic_bool *stop;
	LoadIdLog *
		id_log; /* (nullable), borrowed: also checks that IDs increase on each connection */
} LoadDriverConfig;

/**
 * load_driver_new:
 * @servers: borrowed (element-type LoadServer): which a connection takes in turn
 * @connections: (transfer full) (element-type LoadConnection): to some of these, with
 *   load_connection_free() as free function
 *
 * Returns: (transfer full): or %NULL with an error of GIO
 */
LoadDriver *load_driver_new(GPtrArray *servers, GPtrArray *connections, GError **error);
void load_driver_free(LoadDriver *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadDriver, load_driver_free)

/* Starts the thread; a failure to start is an error in the tally. @config is copied. */
void load_driver_start(LoadDriver *self, const LoadDriverConfig *config);

/**
 * load_driver_wait:
 * @deadline_realtime: (nullable): CLOCK_REALTIME; without limit if %NULL
 *
 * Returns: %TRUE when the thread has ended
 */
gboolean load_driver_wait(LoadDriver *self, const struct timespec *deadline_realtime);

/* The results, after load_driver_wait() has returned %TRUE. */
const LoadTally *load_driver_tally(const LoadDriver *self);

/* Any thread, while it runs: calls answered and errors so far. */
guint64 load_driver_answered(const LoadDriver *self);
guint64 load_driver_errors(const LoadDriver *self);

/* CLOCK_MONOTONIC. */
gint64 load_driver_now_ns(void);
