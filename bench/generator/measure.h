/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/generator/subjects.h"

#define MEASURE_MAX_THREADS 2

/* One thing to measure. */
typedef struct {
	const char *name;
	SubjectKind subject;
	guint n_threads; /* 1 to MEASURE_MAX_THREADS, each on a CPU of its own as far as they go */
	guint batch;     /* 1 to SUBJECT_MAX_BATCH */
	guint n_thousands; /* of IDs that each thread takes, a multiple of batch / 1000 */
} MeasureCase;

/**
 * measure_ns_per_id:
 *
 * Takes IDs with all the threads at once, from a new subject. Then, untimed, the same threads
 * take some more, and it is seen that those of a thread increase if they should, and that no two
 * are alike. If they are not, the program ends with a message.
 *
 * Returns: the time from the start to the end of the last thread, in ns, divided by all IDs
 */
double measure_ns_per_id(const MeasureCase *self);
