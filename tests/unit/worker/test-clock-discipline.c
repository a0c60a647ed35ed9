/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clock-discipline.h"

#include "core/clock.h"
#include "tests/unit/unit-test.h"

#define MS       G_GINT64_CONSTANT(1000000)
#define SECOND   (1000 * MS)
#define HOUR     (3600 * SECOND)
#define MAX_STEP (10 * SECOND)
#define START_US 1000

/* One reading: its time and the expected result. */
typedef struct {
	gint64 at_ms;
	gint64 measured_ns; /* relative to the initial offset of 0 */
	ClockVerdict verdict;
	gint64 clock_ns; /* clock of the registry, if any, with an uncertainty of a second */
} Reading;

typedef struct {
	const char *name;
	Reading readings[8]; /* ends before the first that is all zeros, but has at least one */
} Case;

static const Case CASES[] = {
	{"noise",
	 {{0, MS - 1, CLOCK_AGREES, 0}, {100, 1 - MS, CLOCK_AGREES, 0}, {200, 0, CLOCK_AGREES, 0}}},
	{"noise adds up against what is in force",
	 {{0, MS * 6 / 10, CLOCK_AGREES, 0}, {100, MS * 12 / 10, CLOCK_STEPPED_FORWARD, 0}}},
	{"back by the smallest step",
	 {{0, -MS, CLOCK_STEPPED_BACK, 0}, {100, -MS, CLOCK_AGREES, 0}}},
	{"back by an hour", {{0, -HOUR, CLOCK_STEPPED_BACK, 0}, {100, -HOUR, CLOCK_AGREES, 0}}},
	{"forward by the smallest step",
	 {{0, MS, CLOCK_STEPPED_FORWARD, 0}, {100, MS, CLOCK_AGREES, 0}}},
	{"forward by the largest step", {{0, MAX_STEP, CLOCK_STEPPED_FORWARD, 0}}},
	{"forward by one more is held",
	 {{0, MAX_STEP + 1, CLOCK_JUMPED, 0},
	  {9999, MAX_STEP + 1, CLOCK_HELD, 0},
	  {10000, MAX_STEP + 1, CLOCK_STEPPED_FORWARD, 0},
	  {10100, MAX_STEP + 1, CLOCK_AGREES, 0}}},
	{"a blip leaves no mark",
	 {{0, HOUR, CLOCK_JUMPED, 0}, {9900, HOUR, CLOCK_HELD, 0}, {10000, 0, CLOCK_AGREES, 0}}},
	{"two blips do not add up",
	 {{0, HOUR, CLOCK_JUMPED, 0},
	  {6000, 0, CLOCK_AGREES, 0},
	  {6100, HOUR, CLOCK_JUMPED, 0},
	  {16000, HOUR, CLOCK_HELD, 0},
	  {16100, HOUR, CLOCK_STEPPED_FORWARD, 0}}},
	{"another jump starts the wait again",
	 {{0, HOUR, CLOCK_JUMPED, 0},
	  {9000, 2 * HOUR, CLOCK_JUMPED, 0},
	  {10000, 2 * HOUR, CLOCK_HELD, 0},
	  {19000, 2 * HOUR, CLOCK_STEPPED_FORWARD, 0}}},
	{"noise does not start the wait again",
	 {{0, HOUR, CLOCK_JUMPED, 0},
	  {5000, HOUR + MS - 1, CLOCK_HELD, 0},
	  {10000, HOUR - MS + 1, CLOCK_STEPPED_FORWARD, 0}}},
	{"from held to a small step",
	 {{0, HOUR, CLOCK_JUMPED, 0}, {1000, SECOND, CLOCK_STEPPED_FORWARD, 0}}},
	{"from held to a step back",
	 {{0, HOUR, CLOCK_JUMPED, 0},
	  {1000, -SECOND, CLOCK_STEPPED_BACK, 0},
	  {2000, HOUR, CLOCK_JUMPED, 0}}},
};

static gboolean is_last(const Case *one, guint i)
{
	const Reading *next = &one->readings[i + 1];

	return i + 1 == G_N_ELEMENTS(one->readings) || (next->at_ms == 0 && next->measured_ns == 0);
}

/* Cases with a registry that has a clock, which can move. */
static const Case REFERRED[] = {
	{"noise", {{0, MS - 1, CLOCK_AGREES, 0}, {100, 1 - MS, CLOCK_AGREES, 0}}},
	{"noise, however far the registry's clock is",
	 {{0, MS - 1, CLOCK_AGREES, HOUR},
	  {100, 0, CLOCK_AGREES, -HOUR},
	  {200, 0, CLOCK_AGREES, 0}}},
	{"forward by the largest step", {{0, MAX_STEP + SECOND, CLOCK_STEPPED_FORWARD, 0}}},
	{"back by the largest step", {{0, -MAX_STEP - SECOND, CLOCK_STEPPED_BACK, 0}}},
	{"forward by one more is held, for as long as it takes",
	 {{0, MAX_STEP + SECOND + 1, CLOCK_JUMPED, 0},
	  {100, MAX_STEP + SECOND + 1, CLOCK_HELD, 0},
	  {100000, MAX_STEP + SECOND + 1, CLOCK_HELD, 0},
	  {100100, MAX_STEP + SECOND + 1, CLOCK_STEPPED_FORWARD, 1},
	  {100200, MAX_STEP + SECOND + 1, CLOCK_AGREES, 1}}},
	{"so is back by one more",
	 {{0, -MAX_STEP - SECOND - 1, CLOCK_JUMPED, 0},
	  {100000, -MAX_STEP - SECOND - 1, CLOCK_HELD, 0},
	  {100100, -MAX_STEP - SECOND - 1, CLOCK_STEPPED_BACK, -1},
	  {100200, -MAX_STEP - SECOND - 1, CLOCK_AGREES, -1}}},
	{"an hour that the registry confirms", {{0, HOUR, CLOCK_STEPPED_FORWARD, HOUR}}},
	{"an hour back that the registry confirms", {{0, -HOUR, CLOCK_STEPPED_BACK, -HOUR}}},
	{"a blip leaves no mark",
	 {{0, HOUR, CLOCK_JUMPED, 0},
	  {60000, HOUR, CLOCK_HELD, 0},
	  {60100, 0, CLOCK_AGREES, 0},
	  {60200, HOUR, CLOCK_JUMPED, 0}}},
	{"a blip back neither",
	 {{0, -HOUR, CLOCK_JUMPED, 0}, {60000, -HOUR, CLOCK_HELD, 0}, {60100, 0, CLOCK_AGREES, 0}}},
	{"another jump is another one",
	 {{0, HOUR, CLOCK_JUMPED, 0},
	  {100, 2 * HOUR, CLOCK_JUMPED, 0},
	  {200, 2 * HOUR, CLOCK_HELD, 0}}},
	{"from held to a step that is confirmed",
	 {{0, HOUR, CLOCK_JUMPED, 0}, {1000, SECOND, CLOCK_STEPPED_FORWARD, 0}}},
	{"a small step, further away from a clock that differs, is held",
	 {{0, SECOND, CLOCK_JUMPED, -MAX_STEP - SECOND},
	  {100, -SECOND, CLOCK_STEPPED_BACK, -MAX_STEP - SECOND}}},
	{"a small step towards such a clock is held, too", {{0, SECOND, CLOCK_JUMPED, HOUR}}},
};

static void check_case(const Case *one, gboolean has_clock)
{
	ClockDiscipline discipline = {0};
	gint64 offset_ns = 0;

	for (guint i = 0;; i++) {
		const Reading *reading = &one->readings[i];
		ClockVerdict verdict = clock_discipline_judge(
			&discipline, &(ClockReading){
					     .now_us = START_US + reading->at_ms * 1000,
					     .offset_ns = offset_ns,
					     .measured_ns = reading->measured_ns,
					     .max_skew_ns = MAX_STEP,
					     .clock = {has_clock, reading->clock_ns - SECOND,
						       reading->clock_ns + SECOND},
				     });

		g_test_message("%s, reading %u", one->name, i);
		g_assert_cmpint(verdict, ==, reading->verdict);
		if (verdict == CLOCK_STEPPED_BACK || verdict == CLOCK_STEPPED_FORWARD)
			offset_ns = reading->measured_ns;
		if (is_last(one, i))
			break;
	}
}

TEST("/clock-discipline/cases", test_cases)
{
	for (guint c = 0; c < G_N_ELEMENTS(CASES); c++)
		check_case(&CASES[c], FALSE);
	for (guint c = 0; c < G_N_ELEMENTS(REFERRED); c++)
		check_case(&REFERRED[c], TRUE);
}

/* A step that was undecided without a clock of the registry is decided as soon as that clock is
 * known. */
TEST("/clock-discipline/clock-becomes-known", test_clock_becomes_known)
{
	ClockDiscipline discipline = {0};
	ClockReading reading = {.now_us = START_US, .measured_ns = HOUR, .max_skew_ns = MAX_STEP};

	g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==, CLOCK_JUMPED);
	reading.clock = (RegistryClock){TRUE, 0, 0};
	reading.now_us += CLOCK_DISCIPLINE_HOLD_US;
	g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==, CLOCK_HELD);
	reading.clock = (RegistryClock){TRUE, HOUR, HOUR};
	g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==, CLOCK_STEPPED_FORWARD);
}

TEST("/clock-discipline/ahead", test_ahead)
{
	static const struct {
		RegistryClock clock;
		gint64 offset_ns, ahead_ns;
	} AHEAD[] = {
		{{FALSE, 0, 0}, HOUR, 0}, {{TRUE, -5, 5}, 0, 0},  {{TRUE, -5, 5}, 5, 0},
		{{TRUE, -5, 5}, 6, 1},    {{TRUE, -5, 5}, -5, 0}, {{TRUE, -5, 5}, -6, -1},
		{{TRUE, 7, 7}, 7, 0},     {{TRUE, 7, 7}, 17, 10}, {{TRUE, 7, 7}, -3, -10},
	};

	for (guint i = 0; i < G_N_ELEMENTS(AHEAD); i++)
		g_assert_cmpint(registry_clock_ahead_ns(&AHEAD[i].clock, AHEAD[i].offset_ns), ==,
				AHEAD[i].ahead_ns);
}

/* No step is accepted, not even one larger than noise, but noise is still not reported as a jump.
 */
TEST("/clock-discipline/no-step-allowed", test_no_step_allowed)
{
	ClockDiscipline discipline = {0};
	ClockReading reading = {.now_us = START_US, .measured_ns = MS - 1};

	g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==, CLOCK_AGREES);
	reading.measured_ns = MS;
	g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==, CLOCK_JUMPED);
	reading.now_us += CLOCK_DISCIPLINE_HOLD_US;
	g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==, CLOCK_STEPPED_FORWARD);
}
