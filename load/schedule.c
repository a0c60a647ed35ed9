/* SPDX-License-Identifier: Apache-2.0 */
#include "load/schedule.h"

LoadSchedule load_schedule_make(gint64 start_ns, double rate, guint64 connections, guint64 first,
				guint64 count)
{
	double interval_ns = 1e9 / rate * (double)connections / (double)count;

	return (LoadSchedule){
		.start_ns = start_ns + (gint64)(interval_ns * (double)first / (double)connections),
		.interval_ns = interval_ns,
	};
}

/* The number of the first call that is due at @time_ns or later. */
static guint64 first_call_at(const LoadSchedule *self, gint64 time_ns)
{
	guint64 call;

	if (time_ns <= self->start_ns)
		return 0;
	call = (guint64)((double)(time_ns - self->start_ns) / self->interval_ns);
	/* to the next whole number, and past what rounding did */
	while (load_schedule_due_ns(self, call) < time_ns)
		call++;
	return call;
}

guint64 load_schedule_count(const LoadSchedule *self, gint64 from_ns, gint64 until_ns)
{
	return first_call_at(self, until_ns) - first_call_at(self, from_ns);
}

#define NS_PER_MS     G_GINT64_CONSTANT(1000000)
#define FIRST_NS      (10 * NS_PER_MS)
#define LONGEST_NS    (100 * NS_PER_MS)
#define NS_A_TRY      (NS_PER_MS / 10)
#define MAX_DOUBLINGS 8 /* of the first: beyond any longest */

gint64 load_schedule_retry_ns(guint failures, guint n_servers, guint n_connections, double draw)
{
	guint rounds = failures / n_servers;
	gint64 longest_ns = MAX(LONGEST_NS, n_connections * NS_A_TRY);
	gint64 pause_ns;

	if (failures % n_servers != 0)
		return 0;
	pause_ns = rounds <= MAX_DOUBLINGS ? MIN(FIRST_NS << (rounds - 1), longest_ns) : longest_ns;
	return (gint64)((double)pause_ns * (1 + draw) / 2);
}
