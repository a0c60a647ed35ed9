/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/generator/subjects.h"

#define MEASURE_MAX_THREADS 2

/* A case to measure. */
typedef struct {
	const char *name;
	SubjectKind subject;
	/* 1 to MEASURE_MAX_THREADS; each thread has its own CPU if there are enough CPUs */
	guint n_threads;
	guint batch; /* 1 to SUBJECT_MAX_BATCH */
	/* number of IDs that each thread takes, in thousands; a multiple of batch / 1000 */
	guint n_thousands;
} MeasureCase;

/**
 * measure_ns_per_id:
 *
 * Takes IDs from a new subject with all threads at once. Then the same threads take more IDs
 * without timing, to check that the IDs of each thread increase if they should, and that all IDs
 * are different. If a check fails, the program ends with a message.
 *
 * Returns: the time from the start to the end of the last thread, in ns, divided by all IDs
 */
double measure_ns_per_id(const MeasureCase *self);
