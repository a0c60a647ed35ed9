/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Counts values in buckets whose width grows with the value: each power of two is divided into
 * 2^LOAD_HISTOGRAM_SUB_BITS equal buckets. Values below that are counted exactly, all others to
 * within 1 / 2^LOAD_HISTOGRAM_SUB_BITS, under one per cent. The largest is kept exactly. Not
 * thread-safe: one a thread, merged at the end.
 */
#define LOAD_HISTOGRAM_SUB_BITS 7
#define LOAD_HISTOGRAM_BUCKETS  ((64 - LOAD_HISTOGRAM_SUB_BITS + 1) << LOAD_HISTOGRAM_SUB_BITS)

typedef struct {
	guint64 counts[LOAD_HISTOGRAM_BUCKETS];
	guint64 total;
	double sum; /* of the values: calls that wait long would overflow 64 bits */
	guint64 max;
} LoadHistogram; /* begins as all zeros */

void load_histogram_record(LoadHistogram *self, guint64 value);

/* Adds what @other counted. */
void load_histogram_merge(LoadHistogram *self, const LoadHistogram *other);

/**
 * load_histogram_quantile:
 * @fraction: 0 to 1; 0.99 is the 99th percentile
 *
 * Returns: the largest value of the quantile's bucket, at most the maximum; 0 if
 *   nothing was recorded
 */
guint64 load_histogram_quantile(const LoadHistogram *self, double fraction);

/* 0 if nothing was recorded. */
double load_histogram_mean(const LoadHistogram *self);

/* The largest value that bucket @index counts, from 0 to LOAD_HISTOGRAM_BUCKETS - 1. */
guint64 load_histogram_bucket_end(guint index);

/*
 * The times without a good reply. A thread keeps the long ones of its own connections; merging
 * keeps the times in which no thread had a good reply.
 *
 * A gap lasts from a good reply to the next, from the start to the first, or from the last without
 * an end. It is an outage from the first instant at which a call was wanted: to be made, due, or in
 * flight.
 */
#define LOAD_GAPS_SHORTEST_NS G_GINT64_CONSTANT(100000000)

typedef struct {
	GArray *gaps;     /* in order; NULL: one gap without beginning and end */
	gint64 good_ns;   /* of the last good reply, at first of the start */
	gint64 wanted_ns; /* of the first instant since then; G_MAXINT64: none yet */
	gint64 ended_ns;
} LoadGaps; /* CLOCK_MONOTONIC; begins as all zeros */

void load_gaps_clear(LoadGaps *self);

/* The load of a thread begins. */
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

/* The load of a thread has ended. */
void load_gaps_end(LoadGaps *self, gint64 now_ns);

/* Keeps the times that are gaps in both. */
void load_gaps_merge(LoadGaps *self, const LoadGaps *other);

typedef struct {
	guint64 count;
	gint64 total_ns;
	gint64 longest_ns;
	gboolean goes_on; /* the last one had not ended */
} LoadOutages;

/* The outages longer than @longer_than_ns, LOAD_GAPS_SHORTEST_NS or more. */
LoadOutages load_gaps_outages(const LoadGaps *self, gint64 longer_than_ns);

/*
 * The IDs of all replies, for a search for duplicates after the run. Each thread has a log, all in
 * one block of memory of a fixed size: 8 bytes per ID, and as many again for the search. Memory is
 * used as the logs fill. A full log counts the IDs that it leaves out.
 */
typedef struct {
	gint64 *ids;
	gsize length;
	gsize room;
	guint64 left_out;
} LoadIdLog;

static inline void load_id_log_add(LoadIdLog *self, gint64 id)
{
	if (self->length < self->room)
		self->ids[self->length++] = id;
	else
		self->left_out++;
}

/* (transfer full) (nullable): @n_logs logs with room for @limit IDs among them, at least one each;
 * NULL if there is no memory for so many. */
LoadIdLog *load_id_log_new_all(guint n_logs, gsize limit);
void load_id_log_free_all(LoadIdLog *logs);

typedef struct {
	guint64 checked;
	guint64 left_out;
	guint64 duplicates; /* IDs that are equal to one before */
	gint64 duplicate;   /* one of them */
} LoadIdLogVerdict;

/* The logs are empty afterwards. */
LoadIdLogVerdict load_id_log_check_all(LoadIdLog *logs, guint n_logs);

/* Why a call has no good reply. */
typedef enum {
	LOAD_ERROR_BROKEN,    /* its connection ended within a reply, or it could not be sent
				 again in time; or an idle connection ended */
	LOAD_ERROR_TIMED_OUT, /* its connection was silent for the timeout, and was ended */
	LOAD_ERROR_UNSENT,    /* it was due, but there was no connection or slot in time */
	LOAD_ERROR_EXCEPTION, /* the reply is an exception */
	LOAD_ERROR_WRONG,     /* the reply makes no sense; also all others on its connection */
	LOAD_N_ERRORS,
} LoadError;

/*
 * The results of a run. Each thread has its own; they are merged at the end. A call is measured if
 * its reply arrives in the measured time, or in an open loop, if it is due in it. Errors,
 * connections and gaps count for the whole run.
 */
typedef struct {
	guint64 calls;    /* measured, good replies */
	guint64 in_time;  /* good replies in the measured time */
	guint64 due;      /* open loop: all that were due in the measured time */
	guint64 queued;   /* open loop: due calls that waited for a slot or a connection */
	guint64 answered; /* good replies, measured or not */
	guint64 errors;   /* of all kinds, which are below */
	guint64 errors_of[LOAD_N_ERRORS];
	char *first_error;     /* (nullable) */
	guint64 sent_again;    /* calls whose connection ended, counted each time */
	char *first_end;       /* (nullable): of such a connection */
	guint64 out_of_order;  /* IDs that are not above the one before on their connection */
	guint64 made_again;    /* connections */
	guint64 refused;       /* failed attempts to connect */
	char *first_refusal;   /* (nullable) */
	LoadGaps gaps;         /* of good replies */
	gint64 received_at_ns; /* of the last bytes from a server; CLOCK_MONOTONIC */
	gint64 stopped_ns;     /* 0: it ran to its end; CLOCK_MONOTONIC */
	gint64 cpu_user_us;    /* of the threads, in the measured time */
	gint64 cpu_system_us;
	LoadHistogram latency_ns; /* of the measured calls */
	LoadHistogram lag_ns;     /* open loop: the delay of calls that had a slot */
} LoadTally;

LoadTally *load_tally_new(void);
void load_tally_free(LoadTally *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadTally, load_tally_free)

/**
 * load_tally_add_errors:
 * @message: (transfer full) (nullable): kept if it is the first
 */
void load_tally_add_errors(LoadTally *self, LoadError kind, guint64 count, char *message);

/* Adds a refused connection.
 * @message: kept if it is the first */
void load_tally_add_refusal(LoadTally *self, const char *message);

/* Notes the end of a connection whose calls are sent again.
 * @message: (transfer full): kept if it is the first */
void load_tally_note_end(LoadTally *self, char *message);

/* Adds what @other counted. */
void load_tally_merge(LoadTally *self, const LoadTally *other);
