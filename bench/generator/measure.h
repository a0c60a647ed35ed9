/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/generator/subjects.h"

#define MEASURE_MAX_THREADS 2

/* One case to measure. */
typedef struct {
	const char *name;
	SubjectKind subject;
	guint n_threads;   /* 1 to MEASURE_MAX_THREADS; each has its own CPU if there are enough */
	guint batch;       /* 1 to SUBJECT_MAX_BATCH */
	guint n_thousands; /* thousands of IDs that each thread takes; a multiple of batch / 1000 */
} MeasureCase;

/**
 * measure_ns_per_id:
 *
 * Takes IDs from a new subject with all threads at once. Then the same threads take some more
 * without timing, to check that the IDs of a thread increase if they should, and that all are
 * different. If a check fails, the program ends with a message.
 *
 * Returns: the time from the start to the end of the last thread, in ns, divided by all IDs
 */
double measure_ns_per_id(const MeasureCase *self);
