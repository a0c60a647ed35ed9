/* SPDX-License-Identifier: Apache-2.0 */
#include "load/driver.h"
#include "tests/unit/unit-test.h"

#define START G_GINT64_CONSTANT(1000000000000)
#define DAY   (86400 * G_GINT64_CONSTANT(1000000000))

TEST("/load-schedule/due", calls_are_due_at_fixed_instants)
{
	static const struct {
		double rate;
		guint64 call;
		gint64 due_ns; /* after the start */
	} cases[] = {
		{1, 0, 0},
		{1, 1, 1000000000},
		{100000, 1, 10000},
		{100000, 100000, 1000000000},
		{3, 3, 1000000000},
		{3, 1, 333333333},
		/* no error accumulates in a day */
		{100000, G_GUINT64_CONSTANT(8640000000), DAY},
		{3, 259200, DAY},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		LoadSchedule schedule = load_schedule_make(START, cases[i].rate, 16, 0, 16);
		gint64 due_ns = load_schedule_due_ns(&schedule, cases[i].call) - START;

		g_assert_cmpint(ABS(due_ns - cases[i].due_ns), <=, 1);
	}
}

/* Threads with 10 and 6 of 16 connections have these shares of the rate, and do not call at the
 * same time. */
TEST("/load-schedule/threads", threads_share_the_rate)
{
	LoadSchedule first = load_schedule_make(START, 1600, 16, 0, 10);
	LoadSchedule second = load_schedule_make(START, 1600, 16, 10, 6);

	g_assert_cmpuint(load_schedule_count(&first, START, START + DAY), ==, 86400 * 1000);
	g_assert_cmpuint(load_schedule_count(&second, START, START + DAY), ==, 86400 * 600);
	g_assert_cmpint(load_schedule_due_ns(&first, 0), ==, START);
	g_assert_cmpint(load_schedule_due_ns(&second, 0), >, START);
}

TEST("/load-schedule/count", the_beginning_counts_and_the_end_does_not)
{
	static const struct {
		gint64 from_ns;
		gint64 until_ns;
		guint64 count;
	} cases[] = {
		{-5, 0, 0},   {-5, 1, 1},   {0, 1000, 1},    {0, 1001, 2},
		{1, 1000, 0}, {1, 1001, 1}, {1000, 5000, 4}, {0, 1000000, 1000},
	};
	LoadSchedule schedule = load_schedule_make(START, 1e6, 1, 0, 1);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		g_assert_cmpuint(load_schedule_count(&schedule, START + cases[i].from_ns,
						     START + cases[i].until_ns),
				 ==, cases[i].count);
}
