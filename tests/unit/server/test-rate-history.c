/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rate-history.h"
#include "tests/unit/unit-test.h"

TEST("/rate-history/rates", test_rates)
{
	static const struct {
		gint64 at_us;
		guint64 count;
		double rate; /* of the interval that ends; -1: none does */
	} CASES[] = {
		{1000000, 5, -1},           {3000000, 205, 100},
		{3000000, 305, -1}, /* no time has passed */
		{3500000, 305, 0},          {3500001, 306, 1000000},
		{4500001, 4000000306, 4e9},
	};
	RateHistory history = {0};
	guint n = 0;

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		rate_history_add(&history, CASES[i].at_us, CASES[i].count);
		n += CASES[i].rate >= 0;
		g_assert_cmpuint(history.n, ==, n);
		if (CASES[i].rate >= 0)
			g_assert_cmpfloat(rate_history_get(&history, n - 1), ==, CASES[i].rate);
	}
	g_assert_cmpfloat(rate_history_get(&history, 0), ==, 100);
}

/* The oldest make room, and come first. */
TEST("/rate-history/full", test_full)
{
	RateHistory history = {0};
	guint64 count = 0;

	for (guint i = 0; i <= RATE_HISTORY_INTERVALS + 7; i++)
		rate_history_add(&history, (i + 1) * G_USEC_PER_SEC, count += i);
	g_assert_cmpuint(history.n, ==, RATE_HISTORY_INTERVALS);
	for (guint i = 0; i < history.n; i++)
		g_assert_cmpfloat(rate_history_get(&history, i), ==, i + 8);
}
