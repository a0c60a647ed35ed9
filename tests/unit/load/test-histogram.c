/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include "load/tally.h"
#include "tests/unit/unit-test.h"

/* Around each power of two, a quantile is at least the value, and at most the documented error
 * above it. */
TEST("/load-histogram/error-bound", test_error_bound)
{
	static const gint64 offsets[] = {-1, 0, 1};

	for (guint bit = 0; bit < 64; bit++) {
		for (gsize i = 0; i < G_N_ELEMENTS(offsets); i++) {
			guint64 value = (G_GUINT64_CONSTANT(1) << bit) + (guint64)offsets[i];
			g_autofree LoadHistogram *histogram = g_new0(LoadHistogram, 1);
			guint64 quantile;

			load_histogram_record(histogram, value);
			g_assert_cmpuint(histogram->max, ==, value);
			g_assert_cmpuint(load_histogram_quantile(histogram, 0.5), ==, value);

			/* do not use the exact maximum */
			histogram->max = G_MAXUINT64;
			quantile = load_histogram_quantile(histogram, 0.5);
			g_assert_cmpuint(quantile, >=, value);
			g_assert_cmpuint(quantile - value, <=, value >> LOAD_HISTOGRAM_SUB_BITS);
		}
	}
}

TEST("/load-histogram/ends", test_ends)
{
	g_autofree LoadHistogram *histogram = g_new0(LoadHistogram, 1);

	/* no value yet */
	g_assert_cmpuint(load_histogram_quantile(histogram, 0.5), ==, 0);
	g_assert_cmpuint(load_histogram_quantile(histogram, 1), ==, 0);
	load_histogram_record(histogram, 1);
	load_histogram_record(histogram, G_MAXUINT64);
	g_assert_cmpuint(load_histogram_quantile(histogram, 0.5), ==, 1);
	g_assert_cmpuint(load_histogram_quantile(histogram, 1), ==, G_MAXUINT64);
}

/* 1 to 100 are exact: below 2^LOAD_HISTOGRAM_SUB_BITS each value has its own bucket. */
TEST("/load-histogram/quantiles", test_quantiles)
{
	static const struct {
		double fraction;
		guint64 value;
	} cases[] = {
		{0, 1},    {0.001, 1}, {0.01, 1},    {0.011, 2},
		{0.5, 50}, {0.99, 99}, {0.991, 100}, {1, 100},
	};
	g_autofree LoadHistogram *histogram = g_new0(LoadHistogram, 1);

	for (guint value = 100; value > 0; value--)
		load_histogram_record(histogram, value);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		g_assert_cmpuint(load_histogram_quantile(histogram, cases[i].fraction), ==,
				 cases[i].value);
}

TEST("/load-histogram/merge", test_merge)
{
	g_autofree LoadHistogram *fast = g_new0(LoadHistogram, 1);
	g_autofree LoadHistogram *slow = g_new0(LoadHistogram, 1);

	for (guint i = 0; i < 90; i++)
		load_histogram_record(fast, 10);
	for (guint i = 0; i < 10; i++)
		load_histogram_record(slow, 1000000);
	load_histogram_merge(fast, slow);
	g_assert_cmpuint(fast->total, ==, 100);
	g_assert_cmpuint(fast->max, ==, 1000000);
	g_assert_cmpuint(load_histogram_quantile(fast, 0.9), ==, 10);
	g_assert_cmpuint(load_histogram_quantile(fast, 0.91), ==, 1000000);
}

TEST("/load-histogram/mean", test_mean)
{
	g_autofree LoadHistogram *histogram = g_new0(LoadHistogram, 1);

	g_assert_cmpfloat(load_histogram_mean(histogram), ==, 0);
	load_histogram_record(histogram, 1000000);
	load_histogram_record(histogram, 1000001);
	g_assert_cmpfloat(load_histogram_mean(histogram), ==, 1000000.5);

	/* the sum exceeds 64 bits */
	load_histogram_record(histogram, G_MAXUINT64);
	load_histogram_record(histogram, G_MAXUINT64);
	g_assert_cmpfloat(load_histogram_mean(histogram), >, 9e18);
}

/* There is no gap between buckets: the value after the end of one is in the next. */
TEST("/load-histogram/bucket-ends", test_bucket_ends)
{
	for (guint i = 0; i + 1 < LOAD_HISTOGRAM_BUCKETS; i++) {
		g_autofree LoadHistogram *histogram = g_new0(LoadHistogram, 1);

		load_histogram_record(histogram, load_histogram_bucket_end(i));
		load_histogram_record(histogram, load_histogram_bucket_end(i) + 1);
		g_assert_cmpuint(histogram->counts[i], ==, 1);
		g_assert_cmpuint(histogram->counts[i + 1], ==, 1);
	}
	g_assert_cmpuint(load_histogram_bucket_end(LOAD_HISTOGRAM_BUCKETS - 1), ==, G_MAXUINT64);
}
