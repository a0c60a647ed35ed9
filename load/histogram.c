/* SPDX-License-Identifier: Apache-2.0 */
#include "load/histogram.h"

#include <math.h>

#define SUB_BUCKETS (1u << LOAD_HISTOGRAM_SUB_BITS)

/* A value keeps its highest LOAD_HISTOGRAM_SUB_BITS + 1 bits, of which the first is always set; how
 * many were shifted out says which power of two it is. */
static guint bucket_of(guint64 value)
{
	guint shift;

	if (value < SUB_BUCKETS)
		return (guint)value;
	shift = 63 - LOAD_HISTOGRAM_SUB_BITS - (guint)__builtin_clzll(value);
	return (shift << LOAD_HISTOGRAM_SUB_BITS) + (guint)(value >> shift);
}

guint64 load_histogram_bucket_end(guint index)
{
	guint shift;

	if (index < SUB_BUCKETS)
		return index;
	shift = (index >> LOAD_HISTOGRAM_SUB_BITS) - 1;
	/* the last bucket ends at 2^64 - 1: the sum wraps to 0 before it becomes that */
	return ((guint64)(index - (shift << LOAD_HISTOGRAM_SUB_BITS) + 1) << shift) - 1;
}

void load_histogram_record(LoadHistogram *self, guint64 value)
{
	self->counts[bucket_of(value)]++;
	self->total++;
	self->sum += (double)value;
	self->max = MAX(self->max, value);
}

void load_histogram_merge(LoadHistogram *self, const LoadHistogram *other)
{
	for (guint i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++)
		self->counts[i] += other->counts[i];
	self->total += other->total;
	self->sum += other->sum;
	self->max = MAX(self->max, other->max);
}

guint64 load_histogram_quantile(const LoadHistogram *self, double fraction)
{
	guint64 rank = MAX((guint64)ceil(fraction * (double)self->total), 1);
	guint64 seen = 0;

	for (guint i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++) {
		seen += self->counts[i];
		if (seen >= rank)
			return MIN(load_histogram_bucket_end(i), self->max);
	}
	return self->max;
}

double load_histogram_mean(const LoadHistogram *self)
{
	return self->total > 0 ? self->sum / (double)self->total : 0;
}
