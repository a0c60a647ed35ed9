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
 * Returns: the largest value of the bucket that the quantile lies in, at most the maximum; 0 if
 *   nothing was recorded
 */
guint64 load_histogram_quantile(const LoadHistogram *self, double fraction);

/* 0 if nothing was recorded. */
double load_histogram_mean(const LoadHistogram *self);

/* The largest value that bucket @index counts, from 0 to LOAD_HISTOGRAM_BUCKETS - 1. */
guint64 load_histogram_bucket_end(guint index);
