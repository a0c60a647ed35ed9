/* SPDX-License-Identifier: Apache-2.0 */

/* Ticks that begin at a random sequence. */
#include "core/generator.h"

#include "tests/unit/core/draws.h"

#define TICK_SIZE 4096 /* IDs in a tick of Twitter's layout */

static GeneratorPolicy random_start(guint range, gint64 max_ahead_ms)
{
	return (GeneratorPolicy){.max_ahead_ms = max_ahead_ms,
				 .sequence_start_range = range,
				 .max_batch = G_MAXUINT};
}

static void test_range(void)
{
	static const guint ranges[] = {0, 1, 2, 16, 4096, G_MAXUINT};

	for (gsize i = 0; i < G_N_ELEMENTS(ranges); i++) {
		const GeneratorPolicy policy = random_start(ranges[i], 10);
		const guint limit = CLAMP(ranges[i], 1, TICK_SIZE);
		guint lowest = G_MAXUINT, highest = 0;
		g_auto(Draws) draws;

		draws_init(&draws, &LAYOUT_TWITTER, &policy);
		draws_publish(&draws, 2, T0_TICK, layout_max_tick(&LAYOUT_TWITTER));
		for (int ms = 0; ms < 2000; ms += 2) {
			draws_set_ms(&draws, ms);

			LayoutParts first = layout_decode(&LAYOUT_TWITTER, draws_id(&draws));

			g_assert_cmpint(first.time_ms, ==, T0_MS + ms);
			g_assert_cmpuint(first.sequence, <, limit);
			lowest = MIN(lowest, first.sequence);
			highest = MAX(highest, first.sequence);
			/* the second of the tick follows it, if only by a carry */
			draws_expect(&draws, T0_TICK + ms + (first.sequence + 1) / TICK_SIZE,
				     (first.sequence + 1) % TICK_SIZE);
		}
		/* of 1000 ticks some begin in the lowest eighth and some in the highest: all but
		 * certain */
		g_assert_cmpuint(lowest, <=, limit / 8);
		g_assert_cmpuint(highest, >=, limit - 1 - limit / 8);
	}
}

static void test_not_after_a_carry(void)
{
	const GeneratorPolicy policy = random_start(TICK_SIZE, 10);

	for (int i = 0; i < 100; i++) {
		g_auto(Draws) draws;

		draws_init(&draws, &LAYOUT_TWITTER, &policy);
		draws_publish(&draws, 2, T0_TICK, layout_max_tick(&LAYOUT_TWITTER));

		LayoutParts first = layout_decode(&LAYOUT_TWITTER, draws_id(&draws));

		/* to the end of the tick, and over it */
		if (first.sequence < TICK_SIZE - 1)
			draws_run(&draws, TICK_SIZE - 1 - first.sequence);
		draws_expect(&draws, T0_TICK + 1, 0);
		draws_set_ms(&draws, 1);
		draws_expect(&draws, T0_TICK + 1, 1);
	}
}

/* Nor where the lease begins ahead of the clock: it is not the clock that begins that tick. */
static void test_not_ahead(void)
{
	const GeneratorPolicy policy = random_start(TICK_SIZE, 10);

	for (int i = 0; i < 100; i++) {
		g_auto(Draws) draws;

		draws_init(&draws, &LAYOUT_TWITTER, &policy);
		draws_publish(&draws, 2, T0_TICK + 1, layout_max_tick(&LAYOUT_TWITTER));
		draws_expect(&draws, T0_TICK + 1, 0);
	}
}

/* A random start takes only what room there is: it never refuses what could have been had. */
static void test_leaves_room(void)
{
	static const struct {
		gint64 max_ahead_ms;
		gint64 end_tick;
		guint count;
	} cases[] = {
		{0, T0_TICK + 1000, TICK_SIZE},   {10, T0_TICK + 1000, 11 * TICK_SIZE},
		{10, T0_TICK, TICK_SIZE},         {10, T0_TICK, TICK_SIZE - 1},
		{10, T0_TICK + 1, 2 * TICK_SIZE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const GeneratorPolicy policy = random_start(TICK_SIZE, cases[i].max_ahead_ms);

		for (int j = 0; j < 100; j++) {
			g_auto(Draws) draws;

			draws_init(&draws, &LAYOUT_TWITTER, &policy);
			draws_publish(&draws, 2, T0_TICK, cases[i].end_tick);

			IdRun run = draws_run(&draws, cases[i].count);

			g_assert_cmpuint(run.first_cursor, >=, (guint64)T0_TICK << 12);
			g_assert_cmpuint(
				run.first_cursor + run.count, <=,
				(guint64)(MIN(cases[i].end_tick, T0_TICK + cases[i].max_ahead_ms) +
					  1)
					<< 12);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *path;
		GTestFunc test;
	} tests[] = {
		{"/generator-start/range", test_range},
		{"/generator-start/not-after-a-carry", test_not_after_a_carry},
		{"/generator-start/not-ahead", test_not_ahead},
		{"/generator-start/leaves-room", test_leaves_room},
	};

	g_test_init(&argc, &argv, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add_func(tests[i].path, tests[i].test);
	return g_test_run();
}
