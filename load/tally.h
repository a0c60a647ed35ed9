/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "load/gaps.h"
#include "load/histogram.h"

/* Why a call was not answered well. */
typedef enum {
	LOAD_ERROR_BROKEN,    /* its connection ended within a reply; or between two, and it could
				 not be sent again in time; or an idle one did */
	LOAD_ERROR_TIMED_OUT, /* nothing came on its connection for the timeout, which ended that */
	LOAD_ERROR_UNSENT,    /* it was due, and there was no connection, or no slot, in time */
	LOAD_ERROR_EXCEPTION, /* that is what it was answered with */
	LOAD_ERROR_WRONG,     /* a reply that makes no sense; it and the others on the connection */
	LOAD_N_ERRORS,
} LoadError;

/*
 * What a run came to. A thread keeps one of its own; they are merged at the end. Calls are measured
 * whose reply comes in the measured time, or in an open loop, those that are due in it. Errors,
 * connections and gaps are those of the whole run.
 */
typedef struct {
	guint64 calls;    /* measured, good replies */
	guint64 in_time;  /* good replies that came in the measured time */
	guint64 due;      /* open loop: all that were due in the measured time */
	guint64 queued;   /* open loop: of these, that had to wait for a slot or for a connection */
	guint64 answered; /* good replies, measured or not */
	guint64 errors;   /* of all kinds, which are below */
	guint64 errors_of[LOAD_N_ERRORS];
	char *first_error;     /* (nullable) */
	guint64 sent_again;    /* calls whose connection ended, each as often as that happened */
	char *first_end;       /* (nullable): of such a connection */
	guint64 out_of_order;  /* IDs that are not above the one before on their connection */
	guint64 made_again;    /* connections */
	guint64 refused;       /* attempts to make one, again or for the first time */
	char *first_refusal;   /* (nullable) */
	LoadGaps gaps;         /* of good replies */
	gint64 longest_gap_ns; /* on one connection, while calls were wanted there */
	gint64 last_heard_ns;  /* when anything came from a server; CLOCK_MONOTONIC */
	gint64 stopped_ns;     /* 0: it ran to its end; CLOCK_MONOTONIC */
	gint64 cpu_user_us;    /* of the threads, in the measured time */
	gint64 cpu_system_us;
	LoadHistogram latency_ns; /* of the measured calls */
	LoadHistogram lag_ns;     /* open loop: how late calls were sent that had a slot */
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

/* Notes how a connection ended whose calls are to be sent again.
 * @message: (transfer full): kept if it is the first */
void load_tally_note_end(LoadTally *self, char *message);

/* Adds what @other counted. */
void load_tally_merge(LoadTally *self, const LoadTally *other);
