/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Counts values in buckets whose width grows with the value: each power of two is divided into
 * 2^HISTOGRAM_SUB_BITS equal buckets. Values below that are counted exactly, all others to within
 * 1 / 2^HISTOGRAM_SUB_BITS, under one per cent. The largest is kept exactly. Not thread-safe: one a
 * thread, merged at the end.
 */
#define HISTOGRAM_SUB_BITS 7
#define HISTOGRAM_BUCKETS  ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

typedef struct {
	guint64 counts[HISTOGRAM_BUCKETS];
	guint64 total;
	guint64 max;
} Histogram; /* begins as all zeros */

void histogram_record(Histogram *self, guint64 value);

/* Adds what @other counted. */
void histogram_merge(Histogram *self, const Histogram *other);

/**
 * histogram_quantile:
 * @fraction: 0 to 1; 0.99 is the 99th percentile
 *
 * Returns: the largest value of the bucket that the quantile lies in, at most the maximum; 0 if
 *   nothing was recorded
 */
guint64 histogram_quantile(const Histogram *self, double fraction);
