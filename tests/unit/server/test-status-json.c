/* SPDX-License-Identifier: Apache-2.0 */
#include "server/status-json.h"
#include "tests/unit/unit-test.h"

typedef struct {
	CounterSet *set;
	Counters *counters;
	DurationWindow window;
} Fixture;

static void fixture_init(Fixture *self)
{
	*self = (Fixture){.set = counter_set_new()};
	self->counters = counter_set_add(self->set);
}

static void fixture_clear(Fixture *self)
{
	counter_set_free(self->set);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fixture, fixture_clear)

static void assert_quantile(const Fixture *self, gdouble quantile, gdouble expected_us)
{
	gdouble us;

	g_assert_true(duration_window_quantile(&self->window, self->set, quantile, &us));
	g_assert_cmpfloat_with_epsilon(us, expected_us, 1e-6);
}

static void assert_none(const Fixture *self)
{
	gdouble us = 17;

	g_assert_false(duration_window_quantile(&self->window, self->set, 0.5, &us));
	g_assert_cmpfloat(us, ==, 17);
}

/* Durations counted before the first reading do not count as recent. */
TEST("/duration-window/none", test_none)
{
	g_auto(Fixture) fixture;

	fixture_init(&fixture);
	counters_add_durations(fixture.counters, 10, 3);
	assert_none(&fixture);
	duration_window_add(&fixture.window, fixture.set);
	assert_none(&fixture);
	counters_add_durations(fixture.counters, 10, 1);
	assert_quantile(&fixture, 1, 16);
	duration_window_add(&fixture.window, fixture.set);
	assert_quantile(&fixture, 1, 16);
}

/* 100 calls of up to 4 us, 100 of up to 16 us, 200 of more than 8.4 s, and none in between. */
TEST("/duration-window/quantiles", test_quantiles)
{
	g_auto(Fixture) fixture;
	static const struct {
		gdouble quantile, us;
	} CASES[] = {
		{0.0001, 0.0016}, {0.125, 2}, {0.25, 4},
		{0.375, 12},      {0.5, 16},  {0.500001, 8388608}, /* the last bucket has no end */
		{1, 8388608},
	};

	fixture_init(&fixture);
	duration_window_add(&fixture.window, fixture.set);
	counters_add_durations(fixture.counters, 1, 100);
	counters_add_durations(fixture.counters, 9, 100);
	counters_add_durations(fixture.counters, 9 * G_USEC_PER_SEC, 200);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		assert_quantile(&fixture, CASES[i].quantile, CASES[i].us);
}

/* Slow calls are reported until the reading before them is overwritten. */
TEST("/duration-window/wrap", test_wrap)
{
	g_auto(Fixture) fixture;

	fixture_init(&fixture);
	for (guint lap = 0; lap < 3; lap++) {
		duration_window_add(&fixture.window, fixture.set);
		counters_add_durations(fixture.counters, 1000, 1);
		for (guint i = 1; i < DURATION_WINDOW_READINGS; i++) {
			duration_window_add(&fixture.window, fixture.set);
			assert_quantile(&fixture, 1, 1024);
		}
		duration_window_add(&fixture.window, fixture.set);
		assert_none(&fixture);
	}
}

TEST("/rate-history/rates", test_rates)
{
	static const struct {
		gint64 at_us;
		guint64 count;
		double rate; /* rate of the interval that ends; -1 if none ends */
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

/* The oldest are overwritten, and the order is from old to new. */
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
