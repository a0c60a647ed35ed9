/* SPDX-License-Identifier: Apache-2.0 */
#include "server/duration-window.h"

typedef struct {
	CounterSet *set;
	Counters *counters;
	DurationWindow window;
} Fixture;

static void set_up(Fixture *self, gconstpointer unused G_GNUC_UNUSED)
{
	self->set = counter_set_new();
	self->counters = counter_set_add(self->set);
}

static void tear_down(Fixture *self, gconstpointer unused G_GNUC_UNUSED)
{
	counter_set_free(self->set);
}

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

/* What was counted before the first reading is not of late. */
static void test_none(Fixture *self, gconstpointer unused G_GNUC_UNUSED)
{
	counters_add_durations(self->counters, 10, 3);
	assert_none(self);
	duration_window_add(&self->window, self->set);
	assert_none(self);
	counters_add_durations(self->counters, 10, 1);
	assert_quantile(self, 1, 16);
	duration_window_add(&self->window, self->set);
	assert_quantile(self, 1, 16);
}

/* 100 calls of up to 4 us, 100 of up to 16, 200 of more than 8.4 s; nothing between them. */
static void test_quantiles(Fixture *self, gconstpointer unused G_GNUC_UNUSED)
{
	static const struct {
		gdouble quantile, us;
	} CASES[] = {
		{0.0001, 0.0016}, {0.125, 2}, {0.25, 4},
		{0.375, 12},      {0.5, 16},  {0.500001, 8388608}, /* the last bucket has no end */
		{1, 8388608},
	};

	duration_window_add(&self->window, self->set);
	counters_add_durations(self->counters, 1, 100);
	counters_add_durations(self->counters, 9, 100);
	counters_add_durations(self->counters, 9 * G_USEC_PER_SEC, 200);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		assert_quantile(self, CASES[i].quantile, CASES[i].us);
}

/* Slow calls are told of until the reading before them makes room. */
static void test_wrap(Fixture *self, gconstpointer unused G_GNUC_UNUSED)
{
	for (guint lap = 0; lap < 3; lap++) {
		duration_window_add(&self->window, self->set);
		counters_add_durations(self->counters, 1000, 1);
		for (guint i = 1; i < DURATION_WINDOW_READINGS; i++) {
			duration_window_add(&self->window, self->set);
			assert_quantile(self, 1, 1024);
		}
		duration_window_add(&self->window, self->set);
		assert_none(self);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/duration-window/none", Fixture, NULL, set_up, test_none, tear_down);
	g_test_add("/duration-window/quantiles", Fixture, NULL, set_up, test_quantiles, tear_down);
	g_test_add("/duration-window/wrap", Fixture, NULL, set_up, test_wrap, tear_down);
	return g_test_run();
}
