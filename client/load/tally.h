/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/load/histogram.h"

/*
 * What a run came to. A thread keeps one of its own; they are merged at the end. Calls are measured
 * whose reply comes in the measured time, or in an open loop, those that are due in it. Errors are
 * those of the whole run.
 */
typedef struct {
	guint64 calls;    /* measured, good replies */
	guint64 in_time;  /* good replies that came in the measured time */
	guint64 due;      /* open loop: all that were due in the measured time */
	guint64 queued;   /* open loop: of these, that were sent when a slot became free */
	guint64 answered; /* good replies, measured or not */
	guint64 errors;
	guint64 out_of_order; /* IDs that are not above the one before on their connection */
	char *first_error;    /* (nullable) */
	gint64 last_heard_ns; /* when anything came from a server; CLOCK_MONOTONIC */
	gint64 cpu_user_us;   /* of the threads, in the measured time */
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
void load_tally_add_errors(LoadTally *self, guint64 count, char *message);

/* Adds what @other counted. */
void load_tally_merge(LoadTally *self, const LoadTally *other);
