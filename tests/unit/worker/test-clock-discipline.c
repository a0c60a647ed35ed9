/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/clock-discipline.h"

#include "core/clock.h"

#define MS       G_GINT64_CONSTANT(1000000)
#define SECOND   (1000 * MS)
#define HOUR     (3600 * SECOND)
#define MAX_STEP (10 * SECOND)
#define START_US 1000

/* One reading: when, and what it gives. */
typedef struct {
	gint64 at_ms;
	gint64 measured_ns; /* against an offset in force of 0 at the beginning */
	ClockVerdict verdict;
} Reading;

typedef struct {
	const char *name;
	Reading readings[8]; /* up to the first of all zeros after the first */
} Case;

static const Case CASES[] = {
	{"noise", {{0, MS - 1, CLOCK_AGREES}, {100, 1 - MS, CLOCK_AGREES}, {200, 0, CLOCK_AGREES}}},
	{"noise adds up against what is in force",
	 {{0, MS * 6 / 10, CLOCK_AGREES}, {100, MS * 12 / 10, CLOCK_STEPPED_FORWARD}}},
	{"back by the least", {{0, -MS, CLOCK_STEPPED_BACK}, {100, -MS, CLOCK_AGREES}}},
	{"back by an hour", {{0, -HOUR, CLOCK_STEPPED_BACK}, {100, -HOUR, CLOCK_AGREES}}},
	{"forward by the least", {{0, MS, CLOCK_STEPPED_FORWARD}, {100, MS, CLOCK_AGREES}}},
	{"forward by the most", {{0, MAX_STEP, CLOCK_STEPPED_FORWARD}}},
	{"forward by one more is held",
	 {{0, MAX_STEP + 1, CLOCK_JUMPED},
	  {9999, MAX_STEP + 1, CLOCK_HELD},
	  {10000, MAX_STEP + 1, CLOCK_STEPPED_FORWARD},
	  {10100, MAX_STEP + 1, CLOCK_AGREES}}},
	{"a blip leaves no mark",
	 {{0, HOUR, CLOCK_JUMPED}, {9900, HOUR, CLOCK_HELD}, {10000, 0, CLOCK_AGREES}}},
	{"two blips do not add up",
	 {{0, HOUR, CLOCK_JUMPED},
	  {6000, 0, CLOCK_AGREES},
	  {6100, HOUR, CLOCK_JUMPED},
	  {16000, HOUR, CLOCK_HELD},
	  {16100, HOUR, CLOCK_STEPPED_FORWARD}}},
	{"another jump begins anew",
	 {{0, HOUR, CLOCK_JUMPED},
	  {9000, 2 * HOUR, CLOCK_JUMPED},
	  {10000, 2 * HOUR, CLOCK_HELD},
	  {19000, 2 * HOUR, CLOCK_STEPPED_FORWARD}}},
	{"noise does not begin it anew",
	 {{0, HOUR, CLOCK_JUMPED},
	  {5000, HOUR + MS - 1, CLOCK_HELD},
	  {10000, HOUR - MS + 1, CLOCK_STEPPED_FORWARD}}},
	{"from held to a small step",
	 {{0, HOUR, CLOCK_JUMPED}, {1000, SECOND, CLOCK_STEPPED_FORWARD}}},
	{"from held to a step back",
	 {{0, HOUR, CLOCK_JUMPED},
	  {1000, -SECOND, CLOCK_STEPPED_BACK},
	  {2000, HOUR, CLOCK_JUMPED}}},
};

static gboolean is_last(const Case *one, guint i)
{
	const Reading *next = &one->readings[i + 1];

	return i + 1 == G_N_ELEMENTS(one->readings) || (next->at_ms == 0 && next->measured_ns == 0);
}

static void test_cases(void)
{
	for (guint c = 0; c < G_N_ELEMENTS(CASES); c++) {
		ClockDiscipline discipline = {0};
		gint64 offset_ns = 0;

		for (guint i = 0;; i++) {
			const Reading *reading = &CASES[c].readings[i];
			ClockVerdict verdict =
				clock_discipline_judge(&discipline, offset_ns, reading->measured_ns,
						       MAX_STEP, START_US + reading->at_ms * 1000);

			g_test_message("%s, reading %u", CASES[c].name, i);
			g_assert_cmpint(verdict, ==, reading->verdict);
			if (verdict == CLOCK_STEPPED_BACK || verdict == CLOCK_STEPPED_FORWARD)
				offset_ns = reading->measured_ns;
			if (is_last(&CASES[c], i))
				break;
		}
	}
}

/* Not even a step that is larger than noise is believed, but noise still is no jump. */
static void test_no_step_allowed(void)
{
	ClockDiscipline discipline = {0};

	g_assert_cmpint(clock_discipline_judge(&discipline, 0, MS - 1, 0, START_US), ==,
			CLOCK_AGREES);
	g_assert_cmpint(clock_discipline_judge(&discipline, 0, MS, 0, START_US), ==, CLOCK_JUMPED);
	g_assert_cmpint(
		clock_discipline_judge(&discipline, 0, MS, 0, START_US + CLOCK_DISCIPLINE_HOLD_US),
		==, CLOCK_STEPPED_FORWARD);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/clock-discipline/cases", test_cases);
	g_test_add_func("/clock-discipline/no-step-allowed", test_no_step_allowed);
	return g_test_run();
}
