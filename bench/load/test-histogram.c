/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include "bench/load/histogram.h"

static void test_empty(void)
{
	g_autofree Histogram *histogram = g_new0(Histogram, 1);

	g_assert_cmpuint(histogram_quantile(histogram, 0.5), ==, 0);
	g_assert_cmpuint(histogram_quantile(histogram, 1), ==, 0);
}

/* Around every power of two: never below the value, never more than the promised error above. */
static void test_error_bound(void)
{
	static const gint64 offsets[] = {-1, 0, 1};

	for (guint bit = 0; bit < 64; bit++) {
		for (gsize i = 0; i < G_N_ELEMENTS(offsets); i++) {
			guint64 value = (G_GUINT64_CONSTANT(1) << bit) + (guint64)offsets[i];
			g_autofree Histogram *histogram = g_new0(Histogram, 1);
			guint64 quantile;

			histogram_record(histogram, value);
			g_assert_cmpuint(histogram->max, ==, value);
			g_assert_cmpuint(histogram_quantile(histogram, 0.5), ==, value);

			/* without the exact maximum to help */
			histogram->max = G_MAXUINT64;
			quantile = histogram_quantile(histogram, 0.5);
			g_assert_cmpuint(quantile, >=, value);
			g_assert_cmpuint(quantile - value, <=, value >> HISTOGRAM_SUB_BITS);
		}
	}
}

static void test_largest(void)
{
	g_autofree Histogram *histogram = g_new0(Histogram, 1);

	histogram_record(histogram, 1);
	histogram_record(histogram, G_MAXUINT64);
	g_assert_cmpuint(histogram_quantile(histogram, 0.5), ==, 1);
	g_assert_cmpuint(histogram_quantile(histogram, 1), ==, G_MAXUINT64);
}

/* 1 to 100 are exact: below 2^HISTOGRAM_SUB_BITS each value has a bucket of its own. */
static void test_quantiles(void)
{
	static const struct {
		double fraction;
		guint64 value;
	} cases[] = {
		{0, 1},    {0.001, 1}, {0.01, 1},    {0.011, 2},
		{0.5, 50}, {0.99, 99}, {0.991, 100}, {1, 100},
	};
	g_autofree Histogram *histogram = g_new0(Histogram, 1);

	for (guint value = 100; value > 0; value--)
		histogram_record(histogram, value);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		g_assert_cmpuint(histogram_quantile(histogram, cases[i].fraction), ==,
				 cases[i].value);
}

static void test_merge(void)
{
	g_autofree Histogram *fast = g_new0(Histogram, 1);
	g_autofree Histogram *slow = g_new0(Histogram, 1);

	for (guint i = 0; i < 90; i++)
		histogram_record(fast, 10);
	for (guint i = 0; i < 10; i++)
		histogram_record(slow, 1000000);
	histogram_merge(fast, slow);
	g_assert_cmpuint(fast->total, ==, 100);
	g_assert_cmpuint(fast->max, ==, 1000000);
	g_assert_cmpuint(histogram_quantile(fast, 0.9), ==, 10);
	g_assert_cmpuint(histogram_quantile(fast, 0.91), ==, 1000000);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/histogram/empty", test_empty);
	g_test_add_func("/histogram/error-bound", test_error_bound);
	g_test_add_func("/histogram/largest", test_largest);
	g_test_add_func("/histogram/quantiles", test_quantiles);
	g_test_add_func("/histogram/merge", test_merge);
	return g_test_run();
}
