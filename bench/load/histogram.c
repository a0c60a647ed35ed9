/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/histogram.h"

#include <math.h>

#define SUB_BUCKETS (1u << HISTOGRAM_SUB_BITS)

/* A value keeps its highest HISTOGRAM_SUB_BITS + 1 bits, of which the first is always set; how many
 * were shifted out says which power of two it is. */
static guint bucket_of(guint64 value)
{
	guint shift;

	if (value < SUB_BUCKETS)
		return (guint)value;
	shift = 63 - HISTOGRAM_SUB_BITS - (guint)__builtin_clzll(value);
	return (shift << HISTOGRAM_SUB_BITS) + (guint)(value >> shift);
}

static guint64 last_value_of(guint bucket)
{
	guint shift;

	if (bucket < SUB_BUCKETS)
		return bucket;
	shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
	/* the last bucket ends at 2^64 - 1: the sum wraps to 0 before it becomes that */
	return ((guint64)(bucket - (shift << HISTOGRAM_SUB_BITS) + 1) << shift) - 1;
}

void histogram_record(Histogram *self, guint64 value)
{
	self->counts[bucket_of(value)]++;
	self->total++;
	self->max = MAX(self->max, value);
}

void histogram_merge(Histogram *self, const Histogram *other)
{
	for (guint i = 0; i < HISTOGRAM_BUCKETS; i++)
		self->counts[i] += other->counts[i];
	self->total += other->total;
	self->max = MAX(self->max, other->max);
}

guint64 histogram_quantile(const Histogram *self, double fraction)
{
	guint64 rank = MAX((guint64)ceil(fraction * (double)self->total), 1);
	guint64 seen = 0;

	for (guint i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += self->counts[i];
		if (seen >= rank)
			return MIN(last_value_of(i), self->max);
	}
	return self->max;
}
