/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generator.h"

#include "tests/unit/core/draws.h"
#include "tests/unit/unit-test.h"

#define TICK_SIZE 4096 /* IDs in a tick of Twitter's layout */

TEST("/generator-lease/no-lease", test_no_lease)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	g_assert_null(generator_lease(draws.generator));
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	draws_publish(&draws, 2, T0_TICK, T0_TICK);
	g_assert_true(generator_lease(draws.generator) == draws.lease);
	draws_expect(&draws, T0_TICK, 0);
}

TEST("/generator-lease/retired", test_retired)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 10);
	draws_expect(&draws, T0_TICK, 0);
	g_assert_cmpint(lease_retire(draws.lease, &LAYOUT_TWITTER), ==, T0_TICK);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	draws_set_ms(&draws, 100);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	draws_set_ms(&draws, -100);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	lease_extend(draws.lease, layout_max_tick(&LAYOUT_TWITTER));
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	g_assert_cmpint(lease_retire(draws.lease, &LAYOUT_TWITTER), ==, T0_TICK);
}

TEST("/generator-lease/lease-end", test_lease_end)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	draws_publish(&draws, 2, T0_TICK - 5, T0_TICK + 1);
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, 0);
	draws_set_ms(&draws, 2);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	/* the clock may be past the end, the cursor may not: back in time there is still some */
	draws_set_ms(&draws, 0);
	draws_run(&draws, TICK_SIZE - 2);
	draws_expect(&draws, T0_TICK + 1, TICK_SIZE - 1);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);

	lease_extend(draws.lease, T0_TICK + 2);
	draws_expect(&draws, T0_TICK + 2, 0);
	draws_set_ms(&draws, 3);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
}

TEST("/generator-lease/batch-past-the-end", test_batch_past_the_end)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	draws_publish(&draws, 2, T0_TICK, T0_TICK + 1);
	draws_run(&draws, 100);
	draws_expect_refusal(&draws, 2 * TICK_SIZE - 99, DRAW_UNRESERVED, 0, 0);

	IdRun run = draws_run(&draws, 2 * TICK_SIZE - 100);
	LayoutParts last = layout_decode(&LAYOUT_TWITTER, id_run_get(&run, run.count - 1));

	g_assert_cmpint(last.time_ms, ==, T0_MS + 1);
	g_assert_cmpuint(last.sequence, ==, TICK_SIZE - 1);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
}

TEST("/generator-lease/lease-begins-later", test_lease_begins_later)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	draws_publish(&draws, 2, T0_TICK + 30, T0_TICK + 40);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 20 * MS, 0);
	draws_expect_refusal(&draws, TICK_SIZE + 1, DRAW_UNRESERVED, 21 * MS, 0);
	draws.clock.now_ns += 20 * MS - 1;
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 1, 0);
	draws.clock.now_ns += 1;
	draws_expect_refusal(&draws, TICK_SIZE + 1, DRAW_WAIT, MS, 0);
	draws_expect(&draws, T0_TICK + 30, 0);
}

TEST("/generator-lease/nothing-reserved", test_nothing_reserved)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	draws_publish(&draws, 2, T0_TICK, T0_TICK - 1);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	lease_extend(draws.lease, T0_TICK);
	draws_expect(&draws, T0_TICK, 0);
}

TEST("/generator-lease/exhaustion", test_exhaustion)
{
	const gint64 max_tick = layout_max_tick(&LAYOUT_TWITTER);
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	draws.lease = lease_new(&LAYOUT_TWITTER, 31, 31, max_tick - 100, G_MAXINT64);
	generator_publish(draws.generator, draws.lease);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms + max_tick);
	draws_expect_refusal(&draws, TICK_SIZE + 1, DRAW_UNRESERVED, 0, 0);
	draws_run(&draws, TICK_SIZE - 1);
	g_assert_cmpint(draws_id(&draws), ==, G_MAXINT64);
	lease_extend(draws.lease, G_MAXINT64);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms + max_tick + 1);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_OUTSIDE, 0, 0);
}

/* After a loss: there is no lease again, and then another one. */
TEST("/generator-lease/no-lease-any-more", test_no_lease_any_more)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 10);
	draws_expect(&draws, T0_TICK, 0);
	for (guint worker_id = 3; worker_id < 5; worker_id++) {
		lease_retire(draws.lease, &LAYOUT_TWITTER);
		generator_publish(draws.generator, NULL);
		g_assert_null(generator_lease(draws.generator));
		draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
		draws_publish(&draws, worker_id, T0_TICK + worker_id, T0_TICK + 100);
		draws_expect(&draws, T0_TICK + worker_id, 0);
	}
}

TEST("/generator-lease/change-of-lease", test_change_of_lease)
{
	g_auto(Draws) draws;
	gint64 last_id = 0;

	draws_init_ready(&draws, 10);
	for (guint worker_id = 3; worker_id > 0; worker_id--) {
		for (int i = 0; i < 100; i++) {
			gint64 id = draws_id(&draws);

			g_assert_cmpint(id, >, last_id);
			last_id = id;
		}

		gint64 last_tick = lease_retire(draws.lease, &LAYOUT_TWITTER);

		draws_publish(&draws, worker_id, last_tick + 1, last_tick + 100);
	}
	draws_expect(&draws, T0_TICK + 3, 0);
}

TEST("/generator-lease/ahead", test_ahead)
{
	static const struct {
		const char *name;
		gint64 first_tick; /* of the lease, from T0 */
		guint count;       /* of the IDs that are drawn at T0 */
		gint64 at_ms;      /* after T0; then: */
		gint64 ahead_ns;
	} CASES[] = {
		{"nothing issued", 0, 0, 0, 0},
		{"nothing issued of a lease that begins later", 5, 0, 0, 0},
		{"in the tick of the clock", 0, TICK_SIZE, 0, 0},
		{"one ID in the next one", 0, TICK_SIZE + 1, 0, MS},
		{"the last one in it", 0, 2 * TICK_SIZE, 0, MS},
		{"some ticks", 0, 3 * TICK_SIZE + 1, 0, 3 * MS},
		{"the clock has caught up", 0, 3 * TICK_SIZE + 1, 3, 0},
		{"the clock has gone on", 0, 1, 100, 0},
		{"the clock was set back", 0, 1, -100, 100 * MS},
		{"a lease that begins later", 5, 1, 0, 5 * MS},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Draws) draws;

		g_test_message("%s", CASES[i].name);
		draws_init_ready(&draws, 10);
		draws_publish(&draws, 2, T0_TICK + CASES[i].first_tick,
			      layout_max_tick(&LAYOUT_TWITTER));
		if (CASES[i].count > 0)
			draws_run(&draws, CASES[i].count);
		draws_set_ms(&draws, CASES[i].at_ms);
		g_assert_cmpint(generator_ahead_ns(draws.generator), ==, CASES[i].ahead_ns);
		/* to the nanosecond */
		draws.clock.now_ns++;
		g_assert_cmpint(generator_ahead_ns(draws.generator), ==,
				MAX(CASES[i].ahead_ns - 1, 0));
		generator_publish(draws.generator, NULL);
		g_assert_cmpint(generator_ahead_ns(draws.generator), ==, 0);
	}
}
