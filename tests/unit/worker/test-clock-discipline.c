/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clock-discipline.h"

#include "core/clock.h"
#include "tests/unit/unit-test.h"

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

TEST("/clock-discipline/cases", test_cases)
{
	for (guint c = 0; c < G_N_ELEMENTS(CASES); c++) {
		ClockDiscipline discipline = {0};
		gint64 offset_ns = 0;

		for (guint i = 0;; i++) {
			const Reading *reading = &CASES[c].readings[i];
			ClockVerdict verdict = clock_discipline_judge(
				&discipline, &(ClockReading){
						     .now_us = START_US + reading->at_ms * 1000,
						     .offset_ns = offset_ns,
						     .measured_ns = reading->measured_ns,
						     .max_skew_ns = MAX_STEP,
					     });

			g_test_message("%s, reading %u", CASES[c].name, i);
			g_assert_cmpint(verdict, ==, reading->verdict);
			if (verdict == CLOCK_STEPPED_BACK || verdict == CLOCK_STEPPED_FORWARD)
				offset_ns = reading->measured_ns;
			if (is_last(&CASES[c], i))
				break;
		}
	}
}

/* With a registry that has a clock, read to a second around @clock_ns, which may move. */
typedef struct {
	gint64 at_ms;
	gint64 measured_ns;
	gint64 clock_ns;
	ClockVerdict verdict;
} ReferredReading;

static const struct {
	const char *name;
	guint n_readings;
	ReferredReading readings[6];
} REFERRED[] = {
	{"noise", 2, {{0, MS - 1, 0, CLOCK_AGREES}, {100, 1 - MS, 0, CLOCK_AGREES}}},
	{"noise, however far the registry's clock is",
	 3,
	 {{0, MS - 1, HOUR, CLOCK_AGREES},
	  {100, 0, -HOUR, CLOCK_AGREES},
	  {200, 0, 0, CLOCK_AGREES}}},
	{"forward by the most", 1, {{0, MAX_STEP + SECOND, 0, CLOCK_STEPPED_FORWARD}}},
	{"back by the most", 1, {{0, -MAX_STEP - SECOND, 0, CLOCK_STEPPED_BACK}}},
	{"forward by one more is held, for as long as it takes",
	 5,
	 {{0, MAX_STEP + SECOND + 1, 0, CLOCK_JUMPED},
	  {100, MAX_STEP + SECOND + 1, 0, CLOCK_HELD},
	  {100000, MAX_STEP + SECOND + 1, 0, CLOCK_HELD},
	  {100100, MAX_STEP + SECOND + 1, 1, CLOCK_STEPPED_FORWARD},
	  {100200, MAX_STEP + SECOND + 1, 1, CLOCK_AGREES}}},
	{"so is back by one more",
	 4,
	 {{0, -MAX_STEP - SECOND - 1, 0, CLOCK_JUMPED},
	  {100000, -MAX_STEP - SECOND - 1, 0, CLOCK_HELD},
	  {100100, -MAX_STEP - SECOND - 1, -1, CLOCK_STEPPED_BACK},
	  {100200, -MAX_STEP - SECOND - 1, -1, CLOCK_AGREES}}},
	{"an hour that the registry confirms", 1, {{0, HOUR, HOUR, CLOCK_STEPPED_FORWARD}}},
	{"an hour back that it confirms", 1, {{0, -HOUR, -HOUR, CLOCK_STEPPED_BACK}}},
	{"a blip leaves no mark",
	 4,
	 {{0, HOUR, 0, CLOCK_JUMPED},
	  {60000, HOUR, 0, CLOCK_HELD},
	  {60100, 0, 0, CLOCK_AGREES},
	  {60200, HOUR, 0, CLOCK_JUMPED}}},
	{"a blip back neither",
	 3,
	 {{0, -HOUR, 0, CLOCK_JUMPED}, {60000, -HOUR, 0, CLOCK_HELD}, {60100, 0, 0, CLOCK_AGREES}}},
	{"another jump is another one",
	 3,
	 {{0, HOUR, 0, CLOCK_JUMPED},
	  {100, 2 * HOUR, 0, CLOCK_JUMPED},
	  {200, 2 * HOUR, 0, CLOCK_HELD}}},
	{"from held to a step that is confirmed",
	 2,
	 {{0, HOUR, 0, CLOCK_JUMPED}, {1000, SECOND, 0, CLOCK_STEPPED_FORWARD}}},
	{"a small step, further away from a clock that differs, is held",
	 2,
	 {{0, SECOND, -MAX_STEP - SECOND, CLOCK_JUMPED},
	  {100, -SECOND, -MAX_STEP - SECOND, CLOCK_STEPPED_BACK}}},
	{"and one towards it that does not reach it", 1, {{0, SECOND, HOUR, CLOCK_JUMPED}}},
};

TEST("/clock-discipline/referred", test_referred)
{
	for (guint c = 0; c < G_N_ELEMENTS(REFERRED); c++) {
		ClockDiscipline discipline = {0};
		gint64 offset_ns = 0;

		for (guint i = 0; i < REFERRED[c].n_readings; i++) {
			const ReferredReading *one = &REFERRED[c].readings[i];
			const ClockReading reading = {
				.now_us = START_US + one->at_ms * 1000,
				.offset_ns = offset_ns,
				.measured_ns = one->measured_ns,
				.max_skew_ns = MAX_STEP,
				.clock = {TRUE, one->clock_ns - SECOND, one->clock_ns + SECOND},
			};

			g_test_message("%s, reading %u", REFERRED[c].name, i);
			g_assert_cmpint(clock_discipline_judge(&discipline, &reading), ==,
					one->verdict);
			if (one->verdict == CLOCK_STEPPED_BACK ||
			    one->verdict == CLOCK_STEPPED_FORWARD)
				offset_ns = one->measured_ns;
		}
	}
}

/* What was held for want of a registry's clock is judged by it as soon as there is one. */
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
		g_assert_cmpint(clock_discipline_ahead_ns(&AHEAD[i].clock, AHEAD[i].offset_ns), ==,
				AHEAD[i].ahead_ns);
}

/* Not even a step that is larger than noise is believed, but noise still is no jump. */
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
