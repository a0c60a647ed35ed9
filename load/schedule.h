/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * When the calls of an open loop are due: at fixed instants, whatever becomes of the calls before.
 * Call n is due n intervals after the start; no error adds up.
 */
typedef struct {
	gint64 start_ns;
	double interval_ns; /* between two calls */
} LoadSchedule;

/**
 * load_schedule_make:
 * @rate: calls a second, of all threads together
 * @connections: of all threads together
 * @first: the number of the first connection that this schedule is for
 * @count: how many it is for
 *
 * Returns: a share of the rate as large as that of the connections, moved so that the calls of
 *   several threads come between each other
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
 * @failures: of the connection, in a row, 1 or more: it broke, or could not be made
 * @n_servers: that it takes in turn
 * @n_connections: that share a thread
 * @draw: by chance, 0 to 1
 *
 * How long it waits before the next attempt: not at all as long as there is a server that was not
 * tried; else up to 10 ms, twice as long each time all of them failed once more, up to 100 ms, or
 * so long that a thread makes no more than 10,000 attempts a second; at least half of that.
 */
gint64 load_schedule_retry_ns(guint failures, guint n_servers, guint n_connections, double draw);
