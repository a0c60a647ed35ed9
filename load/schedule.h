/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * When the calls of an open loop are due: at fixed instants, independent of earlier calls. Call n
 * is due n intervals after the start, so rounding errors do not accumulate.
 */
typedef struct {
	gint64 start_ns;
	double interval_ns; /* between two calls */
} LoadSchedule;

/**
 * load_schedule_make:
 * @rate: calls a second, of all threads together
 * @connections: of all threads together
 * @first: the number of this schedule's first connection
 * @count: of this schedule's connections
 *
 * Returns: a schedule with the share of the rate for these connections, shifted so that the calls
 * of several threads alternate
 */
LoadSchedule load_schedule_make(gint64 start_ns, double rate, guint64 connections, guint64 first,
				guint64 count);

static inline gint64 load_schedule_due_ns(const LoadSchedule *self, guint64 call)
{
	return self->start_ns + (gint64)((double)call * self->interval_ns);
}

/* How many calls are due in [@from_ns, @until_ns). */
guint64 load_schedule_count(const LoadSchedule *self, gint64 from_ns, gint64 until_ns);

/**
 * load_schedule_retry_ns:
 * @failures: of the connection, in a row, 1 or more: it failed, or could not be made
 * @n_servers: the servers that it tries in turn
 * @n_connections: the connections of the thread
 * @draw: random, 0 to 1
 *
 * Returns the backoff before the next attempt: 0 while a server was not tried. After all servers
 * failed, up to 10 ms, doubled each round up to 100 ms, or to the time with which a thread makes
 * 10,000 attempts a second; at least half of that.
 */
gint64 load_schedule_retry_ns(guint failures, guint n_servers, guint n_connections, double draw);
