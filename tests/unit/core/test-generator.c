/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generator.h"

#include "tests/unit/core/draws.h"
#include "tests/unit/unit-test.h"

#define TICK_SIZE 4096 /* IDs in a tick of Twitter's layout */

static const Layout uid_generator = {.epoch_ms = 1474300800000,
				     .tick_ms = 1000,
				     .time_bits = 29,
				     .datacenter_bits = 0,
				     .worker_bits = 21,
				     .sequence_bits = 13};

static const Layout *const layouts[] = {
	&LAYOUT_TWITTER,
	&uid_generator,
	&(const Layout){0, 1, 41, 0, 0, 22},
	&(const Layout){0, 1, 41, 22, 0, 0},
	&(const Layout){1600000000000, 100, 32, 0, 0, 31},
};

TEST("/generator/runs", test_runs)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = 2000, .sequence_start_range = 1, .max_batch = 3000};

	for (gsize i = 0; i < G_N_ELEMENTS(layouts); i++) {
		const Layout *layout = layouts[i];
		const guint datacenter_id = (1u << layout->datacenter_bits) - 1;
		const guint worker_id = (1u << layout->worker_bits) - 1;
		g_auto(Draws) draws;
		gint64 last_id = 0;

		g_assert_true(layout_check(layout, NULL));
		draws_init(&draws, layout, &policy);
		draws.lease = lease_new(layout, datacenter_id, worker_id,
					layout_tick_at(layout, T0_MS), layout_max_tick(layout));
		generator_publish(draws.generator, draws.lease);
		for (guint count = 1; count <= MIN(1000, generator_max_batch(draws.generator));
		     count *= 3) {
			IdRun run = draws_run(&draws, count);

			for (guint j = 0; j < count; j++) {
				LayoutParts parts = layout_decode(layout, id_run_get(&run, j));
				gint64 id;

				g_assert_true(layout_encode(layout, &parts, &id, NULL));
				g_assert_cmpint(id, ==, id_run_get(&run, j));
				g_assert_cmpint(id, >, last_id);
				g_assert_cmpuint(parts.datacenter_id, ==, datacenter_id);
				g_assert_cmpuint(parts.worker_id, ==, worker_id);
				last_id = id;
			}
			g_assert_cmpuint(lease_last_cursor(draws.lease), ==,
					 run.first_cursor + count - 1);
		}
	}
}

/* A run that crosses into the next tick keeps worker and datacenter as they are. */
TEST("/generator/carry", test_carry)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 10);
	draws_run(&draws, TICK_SIZE - 2);

	IdRun run = draws_run(&draws, 5);

	for (guint i = 0; i < run.count; i++) {
		LayoutParts parts = layout_decode(&LAYOUT_TWITTER, id_run_get(&run, i));

		g_assert_cmpint(parts.time_ms, ==, T0_MS + (i >= 2));
		g_assert_cmpuint(parts.sequence, ==, (TICK_SIZE - 2 + i) % TICK_SIZE);
		g_assert_cmpuint(parts.datacenter_id, ==, 1);
		g_assert_cmpuint(parts.worker_id, ==, 2);
	}
	/* the clock arrives in a tick that was begun by the carry: it goes on there */
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, 3);
	draws_set_ms(&draws, 2);
	draws_expect(&draws, T0_TICK + 2, 0);
}

TEST("/generator/sequence-runs-out", test_sequence_runs_out)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 10);
	draws.clock.now_ns += 300000;
	draws_run(&draws, 11 * TICK_SIZE - 2);
	draws_expect_refusal(&draws, 3, DRAW_WAIT, MS - 300000, 0);
	draws_run(&draws, 2);
	draws_expect_refusal(&draws, 1, DRAW_WAIT, MS - 300000, 0);
	draws_expect_refusal(&draws, TICK_SIZE, DRAW_WAIT, MS - 300000, 0);
	draws_expect_refusal(&draws, TICK_SIZE + 1, DRAW_WAIT, 2 * MS - 300000, 0);

	/* one nanosecond too early, and then not */
	draws.clock.now_ns += MS - 300000 - 1;
	draws_expect_refusal(&draws, 1, DRAW_WAIT, 1, 0);
	draws.clock.now_ns += 1;
	draws_expect(&draws, T0_TICK + 11, 0);
}

/* The largest batch can be had whatever was drawn before, after the wait that the refusal names. */
TEST("/generator/wait-is-enough", test_wait_is_enough)
{
	static const guint drawn_before[] = {1, 2, TICK_SIZE, TICK_SIZE + 1, 11 * TICK_SIZE};

	for (gsize i = 0; i < G_N_ELEMENTS(drawn_before); i++) {
		g_auto(Draws) draws;
		IdRun run;
		DrawRefusal refusal;

		draws_init_ready(&draws, 10);
		draws_run(&draws, drawn_before[i]);

		guint count = generator_max_batch(draws.generator);

		g_assert_cmpuint(count, ==, 11 * TICK_SIZE);
		g_assert_cmpint(generator_draw(draws.generator, count, &run, &refusal), ==,
				DRAW_WAIT);
		draws.clock.now_ns += refusal.wait_ns - 1;
		draws_expect_refusal(&draws, count, DRAW_WAIT, 1, 0);
		draws.clock.now_ns += 1;
		draws_run(&draws, count);
	}
}

TEST("/generator/max-batch", test_max_batch)
{
	const struct {
		const Layout *layout;
		gint64 max_ahead_ms;
		guint wanted;
		guint got;
	} cases[] = {
		{&LAYOUT_TWITTER, 0, G_MAXUINT, 4096},
		{&LAYOUT_TWITTER, 0, 10000, 4096},
		{&LAYOUT_TWITTER, 1, 10000, 8192},
		{&LAYOUT_TWITTER, 10, 10000, 10000},
		{&LAYOUT_TWITTER, 10, 1, 1},
		{&uid_generator, 999, 10000, 8192},
		{&uid_generator, 1000, 10000, 10000},
		{&uid_generator, 2999, G_MAXUINT, 3 * 8192},
		{&(const Layout){0, 1000, 32, 0, 0, 31}, 60000, G_MAXUINT, G_MAXUINT},
		{&(const Layout){0, 1, 41, 22, 0, 0}, 0, 10000, 1},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const GeneratorPolicy policy = {.max_ahead_ms = cases[i].max_ahead_ms,
						.sequence_start_range = 1,
						.max_batch = cases[i].wanted};
		g_auto(Draws) draws;

		draws_init(&draws, cases[i].layout, &policy);
		g_assert_cmpuint(generator_max_batch(draws.generator), ==, cases[i].got);
	}
}

TEST("/generator/clock-back/within-max-ahead", test_clock_back_within_max_ahead)
{
	g_auto(Draws) draws;
	guint sequence = 0;

	draws_init_ready(&draws, 10);
	for (gint64 back_ms = 0; back_ms <= 10; back_ms++) {
		draws_set_ms(&draws, -back_ms);
		draws_expect(&draws, T0_TICK, sequence++);
	}
	/* and on in true time as soon as it is past the last ID again */
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, 0);
}

TEST("/generator/clock-back/beyond-max-ahead", test_clock_back_beyond_max_ahead)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 10);
	draws_expect(&draws, T0_TICK, 0);
	draws_set_ms(&draws, -11);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 11);
	draws_set_ms(&draws, -900);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 900);
	/* what is left of a millisecond does not count, as in the original */
	draws.clock.now_ns += MS - 1;
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 900);
	draws_set_ms(&draws, -10);
	draws_expect(&draws, T0_TICK, 1);
}

/* Back beyond the lease's first tick is still a step of the clock, not a lease that begins later.
 */
TEST("/generator/clock-back/before-the-lease", test_clock_back_before_the_lease)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 10);
	draws_expect(&draws, T0_TICK, 0);
	draws_set_ms(&draws, -5000);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 5000);
}

/* The behaviour of 2010: any step back refuses, and a full sequence waits for the next tick. */
TEST("/generator/max-ahead-0", test_max_ahead_0)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 0);
	draws_expect(&draws, T0_TICK, 0);
	draws_set_ms(&draws, -1);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 1);
	draws_set_ms(&draws, 0);
	draws_expect(&draws, T0_TICK, 1);
	draws_run(&draws, TICK_SIZE - 2);
	draws_expect_refusal(&draws, 1, DRAW_WAIT, MS, 0);
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, 0);
	draws_expect_refusal(&draws, TICK_SIZE, DRAW_WAIT, MS, 0);
	draws_set_ms(&draws, 0);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 1);
}

TEST("/generator/clock-outside", test_clock_outside)
{
	const gint64 begin_ns = LAYOUT_TWITTER.epoch_ms * MS;
	const gint64 end_ns = (LAYOUT_TWITTER.epoch_ms + layout_max_tick(&LAYOUT_TWITTER) + 1) * MS;
	const struct {
		gint64 now_ns;
		DrawStatus without_lease; /* with one: the same, or issued */
		gboolean issued;
	} cases[] = {
		{G_MININT64, DRAW_CLOCK_OUTSIDE, FALSE}, {-1, DRAW_CLOCK_OUTSIDE, FALSE},
		{0, DRAW_CLOCK_OUTSIDE, FALSE},          {begin_ns - 1, DRAW_CLOCK_OUTSIDE, FALSE},
		{begin_ns, DRAW_UNRESERVED, TRUE},       {end_ns - 1, DRAW_UNRESERVED, TRUE},
		{end_ns, DRAW_CLOCK_OUTSIDE, FALSE},     {G_MAXINT64, DRAW_CLOCK_OUTSIDE, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_auto(Draws) draws;

		draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
		draws.clock.now_ns = cases[i].now_ns;
		draws_expect_refusal(&draws, 1, cases[i].without_lease, 0, 0);
		draws_publish(&draws, 2, 0, layout_max_tick(&LAYOUT_TWITTER));
		if (cases[i].issued)
			g_assert_cmpint(draws_id(&draws), >, 0);
		else
			draws_expect_refusal(&draws, 1, DRAW_CLOCK_OUTSIDE, 0, 0);
	}
}

/* Tick 0 is left out, so that the first ID of all is not 0. */
TEST("/generator/first-id-of-the-layout", test_first_id_of_the_layout)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 0);
	draws.lease = lease_new(&LAYOUT_TWITTER, 0, 0, 0, 1000);
	generator_publish(draws.generator, draws.lease);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, MS, 0);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms + 1);
	g_assert_cmpint(draws_id(&draws), ==, 4194304);
}

/* Where several reasons hold, the one that the caller can act on is given. */
TEST("/generator/order-of-reasons", test_order_of_reasons)
{
	const gint64 before_the_epoch_ms = LAYOUT_TWITTER.epoch_ms - 1 - T0_MS;
	const struct {
		gboolean issued; /* the last ID of the lease, at T0 */
		gint64 clock_ms; /* after T0 */
		guint count;
		DrawStatus status;
		gint64 wait_ns;
		gint64 behind_ms;
	} cases[] = {
		{TRUE, before_the_epoch_ms, 1, DRAW_CLOCK_OUTSIDE, 0, 0},
		{FALSE, before_the_epoch_ms, 1, DRAW_CLOCK_OUTSIDE, 0, 0},
		{TRUE, -11, 1, DRAW_CLOCK_BACK, 0, 11}, /* and past the end */
		{FALSE, -11, TICK_SIZE + 1, DRAW_UNRESERVED, 2 * MS, 0},
		{TRUE, -10, 1, DRAW_UNRESERVED, 0, 0},              /* and the sequence */
		{FALSE, -10, TICK_SIZE + 1, DRAW_UNRESERVED, 0, 0}, /* and the sequence */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_auto(Draws) draws;

		draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
		draws_publish(&draws, 2, T0_TICK, T0_TICK);
		if (cases[i].issued)
			draws_run(&draws, TICK_SIZE);
		draws_set_ms(&draws, cases[i].clock_ms);
		draws_expect_refusal(&draws, cases[i].count, cases[i].status, cases[i].wait_ns,
				     cases[i].behind_ms);
	}
}

TEST("/generator/ticks-of-a-second", test_ticks_of_a_second)
{
	const gint64 tick = layout_tick_at(&uid_generator, T0_MS);
	g_auto(Draws) draws;

	g_assert_cmpint(layout_tick_start_ms(&uid_generator, tick), ==, T0_MS);
	draws_init_ahead(&draws, &uid_generator, 2500);
	draws.lease = lease_new(&uid_generator, 0, 4, tick, tick + 100);
	generator_publish(draws.generator, draws.lease);

	draws_set_ms(&draws, 999);
	draws_expect(&draws, tick, 0);
	draws_set_ms(&draws, 1000);
	draws_expect(&draws, tick + 1, 0);
	/* 2 ticks ahead: 2500 ms are rounded down */
	draws_run(&draws, 3 * 8192 - 1);
	draws_set_ms(&draws, 1250);
	draws_expect_refusal(&draws, 1, DRAW_WAIT, 750 * MS, 0);
	draws_set_ms(&draws, 999);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 3000 - 999);
	draws_set_ms(&draws, 2000);
	draws_expect(&draws, tick + 4, 0);
}

/* A wait that no 64 bits of nanoseconds hold is the longest that they hold. */
TEST("/generator/far-future", test_far_future)
{
	const Layout layout = {.epoch_ms = 0,
			       .tick_ms = 1000,
			       .time_bits = 37,
			       .datacenter_bits = 0,
			       .worker_bits = 0,
			       .sequence_bits = 26};
	g_autoptr(GError) error = NULL;
	g_auto(Draws) draws;
	IdRun run;
	DrawRefusal refusal;

	g_assert_true(layout_check(&layout, &error));
	draws_init_ahead(&draws, &layout, 60000);
	draws.lease = lease_new(&layout, 0, 0, layout_max_tick(&layout), layout_max_tick(&layout));
	generator_publish(draws.generator, draws.lease);
	g_assert_cmpint(generator_draw(draws.generator, 1, &run, &refusal), ==, DRAW_UNRESERVED);
	g_assert_cmpint(refusal.wait_ns, >, G_MAXINT64 - MS);
}

TEST("/generator/free-null", test_free_null)
{
	generator_free(NULL);
}
