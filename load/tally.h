/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Counts values in buckets whose width grows with the value: each power of two is divided into
 * 2^LOAD_HISTOGRAM_SUB_BITS equal buckets. Values below that are counted exactly, all others to
 * within 1 / 2^LOAD_HISTOGRAM_SUB_BITS, under one percent. The largest value is kept exactly. Not
 * thread-safe: each thread has its own histogram, and they are merged at the end. */
#define LOAD_HISTOGRAM_SUB_BITS 7
#define LOAD_HISTOGRAM_BUCKETS  ((64 - LOAD_HISTOGRAM_SUB_BITS + 1) << LOAD_HISTOGRAM_SUB_BITS)

typedef struct {
	guint64 counts[LOAD_HISTOGRAM_BUCKETS];
	guint64 total;
	/* sum of the values; a double, because long waits would overflow a 64-bit integer */
	double sum;
	guint64 max;
} LoadHistogram; /* initialise with zeros */

void load_histogram_record(LoadHistogram *self, guint64 value);

/* Adds the counts of @other. */
void load_histogram_merge(LoadHistogram *self, const LoadHistogram *other);

/* Returns the largest value of the quantile's bucket, but at most the maximum; 0 if nothing was
 * recorded. @fraction: 0 to 1; 0.99 is the 99th percentile */
guint64 load_histogram_quantile(const LoadHistogram *self, double fraction);

/* Returns the mean; 0 if nothing was recorded. */
double load_histogram_mean(const LoadHistogram *self);

/* Returns the largest value that bucket @index counts. @index: 0 to LOAD_HISTOGRAM_BUCKETS - 1 */
guint64 load_histogram_bucket_end(guint index);

/* The times without a good reply. Each thread records long gaps on its own connections. Merging
 * leaves only the times in which no thread had a good reply.
 *
 * A gap is the time between two good replies, from the start to the first one, or from the last one
 * to the end. An outage begins at the first instant in a gap at which a call was wanted, that is,
 * ready to be made, due, or in flight. */
#define LOAD_GAPS_SHORTEST_NS G_GINT64_CONSTANT(100000000)

typedef struct {
	GArray *gaps; /* sorted by time; NULL means a single gap that has no beginning and no end */
	gint64 good_ns; /* time of the last good reply; if there was none, time of the start */
	/* time after the last good reply at which a call was first wanted; G_MAXINT64 if none was
	 * wanted */
	gint64 wanted_ns;
	gint64 ended_ns;
} LoadGaps; /* CLOCK_MONOTONIC times; initialise with zeros */

void load_gaps_clear(LoadGaps *self);

/* Records the start of a thread's load. */
void load_gaps_begin(LoadGaps *self, gint64 now_ns);

/* Records that a call has been wanted since @since_ns. */
static inline void load_gaps_want(LoadGaps *self, gint64 since_ns)
{
	self->wanted_ns = MIN(self->wanted_ns, since_ns);
}

void load_gaps_add(LoadGaps *self, gint64 until_ns);

/* Records that there were good replies.
 * @wanted: whether more calls are in flight or due */
static inline void load_gaps_end_one(LoadGaps *self, gint64 now_ns, gboolean wanted)
{
	if (G_UNLIKELY(now_ns - self->good_ns > LOAD_GAPS_SHORTEST_NS))
		load_gaps_add(self, now_ns);
	self->good_ns = now_ns;
	self->wanted_ns = wanted ? now_ns : G_MAXINT64;
}

/* Records the end of a thread's load. */
void load_gaps_end(LoadGaps *self, gint64 now_ns);

/* Merges @other into @self: keeps only the times that are gaps in both. */
void load_gaps_merge(LoadGaps *self, const LoadGaps *other);

typedef struct {
	guint64 count;
	gint64 total_ns;
	gint64 longest_ns;
	gboolean goes_on; /* the last outage continues */
} LoadOutages;

/* Returns the outages longer than @longer_than_ns, which is LOAD_GAPS_SHORTEST_NS or more. */
LoadOutages load_gaps_outages(const LoadGaps *self, gint64 longer_than_ns);

/* The IDs of all replies, for a search for duplicates after the run. Each thread has a log. All
 * logs are in one block of memory of a fixed size: 8 bytes per ID, and the same for the search.
 * Pages are allocated as the logs fill. A full log counts the IDs that it cannot store. */
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

/* Returns: (transfer full) (nullable): @n_logs logs with room for @limit IDs in total, but at least
 * one each; NULL if there is not enough memory. */
LoadIdLog *load_id_log_new_all(guint n_logs, gsize limit);
void load_id_log_free_all(LoadIdLog *logs);

typedef struct {
	guint64 checked;
	guint64 left_out;
	guint64 duplicates; /* number of IDs that are equal to an earlier one */
	gint64 duplicate;   /* one of these IDs */
} LoadIdLogVerdict;

/* Searches the logs for duplicates, and empties them. */
LoadIdLogVerdict load_id_log_check_all(LoadIdLog *logs, guint n_logs);

/* Why a call got no good reply. */
typedef enum {
	/* the connection ended within a reply, or the call could not be sent again in time; also
	 * used for an idle connection that ended */
	LOAD_ERROR_BROKEN,
	LOAD_ERROR_TIMED_OUT, /* its connection was silent for the timeout, and was closed */
	LOAD_ERROR_UNSENT,    /* it was due, but there was no connection or slot in time */
	LOAD_ERROR_EXCEPTION, /* the reply is an exception */
	/* the reply is invalid; all other calls on its connection fail too */
	LOAD_ERROR_WRONG,
	LOAD_N_ERRORS,
} LoadError;

/* The results of a run. Each thread has its own; they are merged at the end. A call is measured if
 * its reply arrives during the measurement; in an open loop, if it is due during the measurement.
 * Errors, connections and gaps are counted during the whole run. */
typedef struct {
	guint64 calls;    /* measured calls with good replies */
	guint64 in_time;  /* good replies during the measurement */
	guint64 due;      /* open loop: number of calls that were due during the measurement */
	guint64 queued;   /* open loop: measured calls that waited for a slot or a connection */
	guint64 answered; /* number of good replies, measured or not */
	guint64 errors;   /* number of errors of all kinds; the kinds are below */
	guint64 errors_of[LOAD_N_ERRORS];
	char *first_error; /* (nullable) */
	/* number of calls sent again because their connection ended; each repetition is counted */
	guint64 sent_again;
	char *first_end; /* (nullable): how the first of these connections ended */
	/* number of IDs that are not above the previous one on their connection */
	guint64 out_of_order;
	guint64 made_again;    /* number of connections that replaced a lost one */
	guint64 refused;       /* number of failed attempts to connect */
	char *first_refusal;   /* (nullable) */
	LoadGaps gaps;         /* times without good replies */
	gint64 received_at_ns; /* CLOCK_MONOTONIC time of the last bytes from a server */
	/* CLOCK_MONOTONIC time of an early stop; 0 if the load ran to its end */
	gint64 stopped_ns;
	gint64 cpu_user_us; /* CPU time of the threads during the measurement */
	gint64 cpu_system_us;
	LoadHistogram latency_ns; /* latency of the measured calls */
	LoadHistogram lag_ns;     /* open loop: how late calls were sent although a slot was free */
} LoadTally;                      /* initialise with zeros */

void load_tally_free(LoadTally *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadTally, load_tally_free)

/* @message: (transfer full) (nullable): kept if it is the first message */
void load_tally_add_errors(LoadTally *self, LoadError kind, guint64 count, char *message);

/* Counts a refused connection. @message: kept if it is the first message */
void load_tally_add_refusal(LoadTally *self, const char *message);

/* Records the end of a connection whose calls are sent again.
 * @message: (transfer full): kept if it is the first message */
void load_tally_note_end(LoadTally *self, char *message);

/* Adds the results of @other. */
void load_tally_merge(LoadTally *self, const LoadTally *other);
