/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The times without a good reply. A thread keeps those of its own connections that are long enough
 * to matter; merged, they are those in which no thread had one.
 *
 * A gap lasts from a good reply to the next, or from the start to the first, or from the last for
 * ever. It is an outage from its first instant at which a call was wanted, which is one that is to
 * be made, is due or in flight.
 */
#define LOAD_GAPS_SHORTEST_NS G_GINT64_CONSTANT(100000000)

typedef struct {
	GArray *gaps;     /* in order; NULL: one gap that has no beginning and no end */
	gint64 good_ns;   /* of the last good reply, at first of the start */
	gint64 wanted_ns; /* of the first instant since then; G_MAXINT64: none yet */
	gint64 ended_ns;
} LoadGaps; /* CLOCK_MONOTONIC; begins as all zeros */

void load_gaps_clear(LoadGaps *self);

/* A thread's begin so. */
void load_gaps_begin(LoadGaps *self, gint64 now_ns);

/* A call is wanted. */
static inline void load_gaps_want(LoadGaps *self, gint64 since_ns)
{
	self->wanted_ns = MIN(self->wanted_ns, since_ns);
}

void load_gaps_add(LoadGaps *self, gint64 until_ns);

/* There were good replies.
 * @wanted: whether calls are still in flight, or due */
static inline void load_gaps_end_one(LoadGaps *self, gint64 now_ns, gboolean wanted)
{
	if (G_UNLIKELY(now_ns - self->good_ns > LOAD_GAPS_SHORTEST_NS))
		load_gaps_add(self, now_ns);
	self->good_ns = now_ns;
	self->wanted_ns = wanted ? now_ns : G_MAXINT64;
}

/* The thread has ended. */
void load_gaps_end(LoadGaps *self, gint64 now_ns);

/* Leaves the times that are gaps of both. */
void load_gaps_merge(LoadGaps *self, const LoadGaps *other);

typedef struct {
	guint64 count;
	gint64 total_ns;
	gint64 longest_ns;
	gboolean goes_on; /* the last one was not over at the end */
} LoadOutages;

/* Those that are longer than @longer_than_ns, which is LOAD_GAPS_SHORTEST_NS or more. */
LoadOutages load_gaps_outages(const LoadGaps *self, gint64 longer_than_ns);
