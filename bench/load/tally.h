/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/load/histogram.h"

/*
 * What a run came to. A thread keeps one of its own; they are merged at the end. Calls, IDs,
 * latency and CPU time are those of the measured time only; errors are those of the whole run.
 */
typedef struct {
	guint64 calls; /* good replies */
	guint64 ids;
	guint64 answered; /* calls before and after the measured time included */
	guint64 errors;
	guint64 out_of_order; /* IDs that are not above the one before on their connection */
	char *first_error;    /* (nullable) */
	gint64 cpu_user_us;   /* of the load generator's threads */
	gint64 cpu_system_us;
	Histogram latency_ns;
} Tally;

Tally *tally_new(void);
void tally_free(Tally *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Tally, tally_free)

/**
 * tally_add_errors:
 * @message: (transfer full): kept if it is the first
 */
void tally_add_errors(Tally *self, guint64 count, char *message);

/* Adds what @other counted. */
void tally_merge(Tally *self, const Tally *other);
