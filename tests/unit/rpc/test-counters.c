/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/counters.h"
#include "tests/unit/unit-test.h"

TEST("/counters/sum", test_sum)
{
	g_autoptr(CounterSet) set = counter_set_new();
	Counters *one = counter_set_add(set);
	Counters *other = counter_set_add(set);

	g_assert_cmpuint(counter_set_sum(set, COUNTER_CALLS), ==, 0);
	counters_add(one, COUNTER_CALLS, 3);
	counters_add(other, COUNTER_CALLS, 4);
	counters_add(other, COUNTER_WAITS, 1);
	g_assert_cmpuint(counter_set_sum(set, COUNTER_CALLS), ==, 7);
	g_assert_cmpuint(counter_set_sum(set, COUNTER_WAITS), ==, 1);
}

TEST("/counters/methods", test_methods)
{
	for (CounterMethod method = 0; method < N_COUNTER_METHODS; method++)
		g_assert_cmpint(counter_method_of(COUNTER_METHOD_NAMES[method]), ==, method);
	g_assert_cmpint(counter_method_of("get_idea"), ==, COUNTER_OTHER_METHOD);
	g_assert_cmpint(counter_method_of(""), ==, COUNTER_OTHER_METHOD);
}

/* Each duration counts in the bucket of the first bound that is not below it. */
TEST("/counters/durations", test_durations)
{
	static const struct {
		gint64 us;
		guint bucket;
	} CASES[] = {
		{0, 0},
		{1, 0},
		{4, 0},
		{5, 1},
		{8, 1},
		{9, 2},
		{1024, 8},
		{1025, 9},
		{8388608, 21},
		{8388609, 22},
		{G_USEC_PER_SEC * G_GINT64_CONSTANT(3600), 22},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(CounterSet) set = counter_set_new();

		g_test_message("%" G_GINT64_FORMAT " us", CASES[i].us);
		counters_add_durations(counter_set_add(set), CASES[i].us, 3);
		g_assert_cmpuint(counter_set_sum(set, COUNTER_DURATIONS + CASES[i].bucket), ==, 3);
		g_assert_cmpuint(counter_set_sum(set, COUNTER_DURATION_US), ==,
				 3 * (guint64)CASES[i].us);
	}
}
