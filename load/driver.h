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
 * Open loop: calls are due by a schedule, on the connections in turn. One that finds no slot free
 * is sent when there is one, and its latency still counts from when it was due: so a server that
 * stalls, or is too slow, is not spared the calls that it kept from being sent.
 *
 * A connection that ends, or on which nothing comes for the timeout though calls are in flight, is
 * made again, to the next of the servers. If it was ended, or reset, by the other side, and not
 * within a reply, the calls in flight are sent again on the next connection, as clients do who know
 * that servers are restarted; their latency still counts from when they were first made, or due.
 * Else they are errors. A closed loop makes no other calls on it meanwhile. In an open loop they
 * are due as ever, and sent when there is a connection. A call that is to be sent, for the first
 * time or again, and has no connection within the timeout from then, is an error.
 *
 * After the measured time no more calls are made. Those in flight, or due and not sent, have the
 * timeout to be answered; a call that is not is an error. The connections are closed at the end.
 */
typedef struct _LoadDriver LoadDriver;

#define LOAD_NS_PER_MS G_GINT64_CONSTANT(1000000)

typedef struct {
	const LoadWire *wire; /* borrowed */
	/* CLOCK_MONOTONIC; see LoadTally for what is measured in this time. */
	gint64 measure_from_ns;
	gint64 measure_until_ns;
	/* Closed loop: so many are made, and when they are answered, or are errors, it is over;
	 * measure_until_ns is G_MAXINT64 then. When nothing comes for @silence_ns it is over, too,
	 * and those that were not made are errors. Else this is G_MAXUINT64. */
	guint64 calls;
	gint64 silence_ns;
	LoadSchedule schedule; /* interval_ns is 0 for a closed loop */
	gint64 timeout_ns;
	/* (nullable), borrowed: when it is set it is over at once; what is in flight, or due, is
	 * then neither a call nor an error. */
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

/* Starts the thread; that it does not start is an error in the tally. @config is copied. */
void load_driver_start(LoadDriver *self, const LoadDriverConfig *config);

/**
 * load_driver_wait:
 * @deadline_realtime: (nullable): CLOCK_REALTIME; for ever if %NULL
 *
 * Returns: %TRUE when the thread has ended
 */
gboolean load_driver_wait(LoadDriver *self, const struct timespec *deadline_realtime);

/* Once load_driver_wait() has returned %TRUE: what it came to. */
const LoadTally *load_driver_tally(const LoadDriver *self);

/* Any thread, while it runs: calls answered and errors so far. */
guint64 load_driver_answered(const LoadDriver *self);
guint64 load_driver_errors(const LoadDriver *self);

/* CLOCK_MONOTONIC. */
gint64 load_driver_now_ns(void);
