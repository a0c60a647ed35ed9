/* SPDX-License-Identifier: Apache-2.0 */

/* Ticks that begin at another sequence than 0. */
#include "core/generator.h"

#include "tests/unit/core/draws.h"
#include "tests/unit/unit-test.h"

#define TICK_SIZE 4096 /* IDs in a tick of Twitter's layout */

/* A generator whose ticks begin in @range, with a lease from T0 on. */
static void init_in(Draws *draws, guint range, gint64 max_ahead_ms, gint64 end_tick)
{
	const GeneratorPolicy policy = {.max_ahead_ms = max_ahead_ms,
					.sequence_start_range = range,
					.max_batch = G_MAXUINT};

	draws_init(draws, &LAYOUT_TWITTER, &policy);
	draws_publish(draws, 2, T0_TICK, end_tick);
}

TEST("/generator-start/range", test_range)
{
	static const guint ranges[] = {1, 2, 16, 4096, G_MAXUINT};

	for (gsize i = 0; i < G_N_ELEMENTS(ranges); i++) {
		const guint limit = MIN(ranges[i], TICK_SIZE);
		guint lowest = G_MAXUINT, highest = 0;
		g_auto(Draws) draws;

		init_in(&draws, ranges[i], 10, layout_max_tick(&LAYOUT_TWITTER));
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

TEST("/generator-start/not-after-a-carry", test_not_after_a_carry)
{
	for (int i = 0; i < 100; i++) {
		g_auto(Draws) draws;

		init_in(&draws, TICK_SIZE, 10, layout_max_tick(&LAYOUT_TWITTER));

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
TEST("/generator-start/not-ahead", test_not_ahead)
{
	for (int i = 0; i < 100; i++) {
		g_auto(Draws) draws;

		init_in(&draws, TICK_SIZE, 10, layout_max_tick(&LAYOUT_TWITTER));
		draws_publish(&draws, 2, T0_TICK + 1, layout_max_tick(&LAYOUT_TWITTER));
		draws_expect(&draws, T0_TICK + 1, 0);
	}
}

TEST("/generator-start/continues", test_continues)
{
	static const struct {
		gint64 ms;
		guint count;
		guint tick, sequence; /* of its last ID, after T0 */
	} steps[] = {
		{0, 1, 0, 0},    {0, 1, 0, 1},       {1, 1, 1, 2},    {1, 4090, 1, 4092},
		{2, 1, 2, 4093}, {3, 2, 3, 4095}, /* to the end of the tick */
		{4, 1, 4, 0},    {5, 4094, 5, 4094}, {7, 1, 7, 4095}, {7, 1, 8, 0}, /* a carry */
		{7, 10, 8, 10},  {8, 1, 8, 11}, /* the clock has caught up */
		{9, 1, 9, 12},   {5, 1, 9, 13}, /* it stepped back */
		{10, 1, 10, 14},
	};
	g_auto(Draws) draws;

	init_in(&draws, GENERATOR_SEQUENCE_CONTINUES, 10, layout_max_tick(&LAYOUT_TWITTER));
	for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
		draws_set_ms(&draws, steps[i].ms);
		if (steps[i].count > 1)
			draws_run(&draws, steps[i].count - 1);
		draws_expect(&draws, T0_TICK + steps[i].tick, steps[i].sequence);
	}
}

/* A tick may begin at its end. What follows waits for the next, as ever. */
TEST("/generator-start/continues-without-ahead", test_continues_without_ahead)
{
	g_auto(Draws) draws;

	init_in(&draws, GENERATOR_SEQUENCE_CONTINUES, 0, layout_max_tick(&LAYOUT_TWITTER));
	draws_run(&draws, TICK_SIZE - 1);
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, TICK_SIZE - 1);
	draws_expect_refusal(&draws, 1, DRAW_WAIT, MS, 0);
	draws_set_ms(&draws, 2);
	draws_run(&draws, TICK_SIZE);
	draws_set_ms(&draws, 3);
	draws_expect(&draws, T0_TICK + 3, 0);
	/* not at 1, which would leave too little */
	draws_set_ms(&draws, 4);
	draws_run(&draws, TICK_SIZE);
	draws_expect_refusal(&draws, 1, DRAW_WAIT, MS, 0);
}

#define N_SPREAD   20000
#define MOST_PARTS 64

/* Pearson's chi-square test: of @n classes that are even by chance the statistic has a mean of
 * n - 1 and a variance of 2 (n - 1). Seven standard deviations above the mean is no chance. */
static gboolean is_even(const guint *counts, guint n, guint total)
{
	double expected = (double)total / n;
	double excess = -(double)(n - 1);

	for (guint i = 0; i < n; i++)
		excess += (counts[i] - expected) * (counts[i] - expected) / expected;
	return excess < 0 || excess * excess < 7 * 7 * 2 * (n - 1);
}

static void draw_slowly(guint range, gint64 *ids)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(1);
	gint64 ms = 0;
	g_auto(Draws) draws;

	g_random_set_seed(1);
	init_in(&draws, range, 10, layout_max_tick(&LAYOUT_TWITTER));
	for (guint i = 0; i < N_SPREAD; i++) {
		ms += g_rand_int_range(rand, 1, 200);
		draws_set_ms(&draws, ms);
		ids[i] = draws_id(&draws);
	}
}

/* At 10 IDs a second, no two in a tick: whoever divides a table by ID modulo k finds parts of one
 * size, unless every tick begins at 0 and k is even. The seeds are fixed. */
TEST("/generator-start/spread", test_spread)
{
	static const struct {
		guint range;
		gboolean even; /* of an even number of parts */
	} cases[] = {{GENERATOR_SEQUENCE_CONTINUES, TRUE}, {TICK_SIZE, TRUE}, {1, FALSE}};
	g_autofree gint64 *ids = g_new(gint64, N_SPREAD);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		draw_slowly(cases[i].range, ids);
		for (guint n_parts = 2; n_parts <= MOST_PARTS; n_parts++) {
			guint counts[MOST_PARTS] = {0};

			for (guint j = 0; j < N_SPREAD; j++)
				counts[ids[j] % n_parts]++;

			g_test_message("start in %u, %u parts", cases[i].range, n_parts);
			g_assert_cmpint(is_even(counts, n_parts, N_SPREAD), ==,
					cases[i].even || n_parts % 2 == 1);
		}
	}
}

/* No start takes more than what room there is: it never refuses what could have been had. */
TEST("/generator-start/leaves-room", test_leaves_room)
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
		for (int j = 0; j < 100; j++) {
			g_auto(Draws) draws;

			init_in(&draws, TICK_SIZE, cases[i].max_ahead_ms, cases[i].end_tick);

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
