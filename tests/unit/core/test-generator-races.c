/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Actions of other threads in the middle of a draw, one case at a time, while the draw reads the
 * clock. The first attempt reads the clock before lease and cursor, later ones after them. If the
 * first attempt finds nothing, there is a second one.
 */
#include "core/generator.h"

#include "tests/unit/core/draws.h"
#include "tests/unit/unit-test.h"

typedef struct {
	Draws draws;
	gint64 nested_id;
} Race;

static void race_init(Race *self, gint64 max_ahead_ms, gint64 end_tick)
{
	draws_init_ahead(&self->draws, &LAYOUT_TWITTER, max_ahead_ms);
	draws_publish(&self->draws, 2, T0_TICK, end_tick);
	self->nested_id = 0;
}

static void race_clear(Race *self)
{
	draws_clear(&self->draws);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Race, race_clear)

/* Calls @action during the @number-th reading from now on. */
static void race_during_reading(Race *self, guint number, void (*action)(gpointer))
{
	self->draws.clock.readings = 0;
	self->draws.clock.on_reading_number = number;
	self->draws.clock.on_reading = action;
	self->draws.clock.user_data = self;
}

static void draw_one(gpointer user_data)
{
	Race *race = user_data;

	race->nested_id = draws_id(&race->draws);
}

static void extend_and_draw_one(gpointer user_data)
{
	Race *race = user_data;

	lease_extend(race->draws.lease, T0_TICK + 100);
	draw_one(race);
}

static void extend(gpointer user_data)
{
	Race *race = user_data;

	lease_extend(race->draws.lease, T0_TICK + 100);
}

static void time_passes_and_one_is_drawn(gpointer user_data)
{
	Race *race = user_data;

	draws_set_ms(&race->draws, 50);
	draw_one(race);
}

static void retire(gpointer user_data)
{
	Race *race = user_data;

	lease_retire(race->draws.lease, &LAYOUT_TWITTER);
}

static void extend_and_retire(gpointer user_data)
{
	extend(user_data);
	retire(user_data);
}

static void change_lease(gpointer user_data)
{
	Race *race = user_data;
	gint64 last_tick = lease_retire(race->draws.lease, &LAYOUT_TWITTER);

	draws_publish(&race->draws, 7, last_tick + 1, T0_TICK + 100);
}

TEST("/generator-races/drawn-meanwhile", test_drawn_meanwhile)
{
	g_auto(Race) race;

	race_init(&race, 10, T0_TICK + 100);
	race_during_reading(&race, 1, draw_one);
	draws_expect(&race.draws, T0_TICK, 1);
	g_assert_cmpint(race.nested_id & 4095, ==, 0);
}

/* The swap of the second attempt fails. */
TEST("/generator-races/swap-lost", test_swap_lost)
{
	g_auto(Race) race;

	race_init(&race, 10, T0_TICK - 1);
	race_during_reading(&race, 2, extend_and_draw_one);
	draws_expect(&race.draws, T0_TICK, 1);
	g_assert_cmpint(race.nested_id & 4095, ==, 0);
	/* two by the draw itself, one by the nested draw, one for the third attempt */
	g_assert_cmpuint(race.draws.clock.readings, ==, 4);
}

/* A thread sleeps after it has read the clock. Then the IDs of other threads are far ahead of its
 * reading. */
TEST("/generator-races/old-reading-is-no-step-back", test_old_reading_is_no_step_back)
{
	g_auto(Race) race;

	race_init(&race, 10, T0_TICK + 100);
	race_during_reading(&race, 1, time_passes_and_one_is_drawn);
	draws_expect(&race.draws, T0_TICK + 50, 1);
}

/* The thread sleeps in the second attempt, so lease and cursor are old too. */
TEST("/generator-races/old-view-is-no-reason-to-wait", test_old_view_is_no_reason_to_wait)
{
	g_auto(Race) race;

	race_init(&race, 0, T0_TICK + 100);
	draws_run(&race.draws, 4096);
	race_during_reading(&race, 2, time_passes_and_one_is_drawn);
	draws_expect(&race.draws, T0_TICK + 50, 1);
}

TEST("/generator-races/extended-meanwhile", test_extended_meanwhile)
{
	for (guint reading = 1; reading <= 2; reading++) {
		g_auto(Race) race;

		race_init(&race, 10, T0_TICK - 1);
		race_during_reading(&race, reading, extend);
		draws_expect(&race.draws, T0_TICK, 0);
	}
}

TEST("/generator-races/retired-meanwhile", test_retired_meanwhile)
{
	static const struct {
		gint64 end_tick;
		guint reading;
		void (*action)(gpointer);
	} cases[] = {
		{T0_TICK + 100, 1, retire},
		{T0_TICK - 1, 2, retire},
		/* the second attempt would find a run, which the draw must not get */
		{T0_TICK - 1, 2, extend_and_retire},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_auto(Race) race;
		IdRun run;
		DrawRefusal refusal;

		race_init(&race, 10, cases[i].end_tick);
		race_during_reading(&race, cases[i].reading, cases[i].action);
		g_assert_cmpint(generator_draw(race.draws.generator, 1, &run, &refusal), ==,
				DRAW_UNRESERVED);
		g_assert_cmphex(atomic_load(&race.draws.lease->cursor), ==, CURSOR_CLOSED);
		g_assert_cmpint(lease_last_cursor(race.draws.lease), <,
				race.draws.lease->first_tick << LAYOUT_TWITTER.sequence_bits);
	}
}

/* The old lease is past its end, but it was replaced, so the draw must not refuse. */
TEST("/generator-races/changed-meanwhile", test_changed_meanwhile)
{
	for (guint reading = 1; reading <= 2; reading++) {
		g_auto(Race) race;

		race_init(&race, 10, T0_TICK + 4);
		draws_set_ms(&race.draws, 5);
		race_during_reading(&race, reading, change_lease);
		draws_expect(&race.draws, T0_TICK + 5, 0);
		g_assert_cmpuint(race.draws.lease->worker_id, ==, 7);
	}
}

/* The lease is retired, the draw finds it closed, and only then is the next lease published. */
TEST("/generator-races/published-meanwhile", test_published_meanwhile)
{
	g_auto(Race) race;

	race_init(&race, 10, T0_TICK + 100);
	lease_retire(race.draws.lease, &LAYOUT_TWITTER);
	race_during_reading(&race, 2, change_lease);
	draws_expect(&race.draws, T0_TICK, 0);
	g_assert_cmpuint(race.draws.lease->worker_id, ==, 7);
}
