/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include <string.h>

#include "tests/unit/unit-test.h"
#include "tests/unit/worker/keeper-fixture.h"

/* The keeper with a system clock that steps, and a clock of the registry. The test cannot set the
 * system clock, so it changes the offset in use instead. */

#define HOUR_NS   G_GINT64_CONSTANT(3600000000000)
#define MS_NS     G_GINT64_CONSTANT(1000000)
#define SECOND_NS G_GINT64_CONSTANT(1000000000)
#define YEAR_NS   (365 * 24 * HOUR_NS)
#define DAY_MS    G_GINT64_CONSTANT(86400000)

/* Before the epoch, and after the end of a layout that ended in 2004, nothing is reserved. */
TEST("/keeper-clock/outside", test_clock_outside)
{
	static const Layout ENDED = {0, 1, 40, 5, 5, 13};
	static const struct {
		const Layout *layout;
		gint64 wrong_ns, right_ns; /* difference from the time of the machine */
		const char *range;
	} CASES[] = {
		{&LAYOUT_TWITTER, -20 * YEAR_NS, 0,
		 "outside the layout's range (2010-11-04T01:42:54.657Z to "
		 "2080-07-10T17:30:30.208Z)"},
		{&ENDED, 0, -30 * YEAR_NS,
		 "outside the layout's range (1970-01-01T00:00:00.000Z to "
		 "2004-11-03T19:53:47.775Z)"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Server) server;
		gint64 offset_ns, id;

		server_init_layout(&server, CASES[i].layout);
		offset_ns = system_clock_offset_ns(&server.clock);
		system_clock_set_offset_ns(&server.clock, offset_ns + CASES[i].wrong_ns);
		server_start(&server);
		WAIT_FOR(server_state(&server) == KEEPER_WAITING);
		server_go_round(&server);
		g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 0);
		g_assert_cmpint(server_draw(&server, &id), ==, DRAW_CLOCK_OUTSIDE);
		assert_logged(LOG_WORKER_WAITING, 1, CASES[i].range);

		system_clock_set_offset_ns(&server.clock, offset_ns + CASES[i].right_ns);
		WAIT_FOR(server_state(&server) == KEEPER_SERVING);
		g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
	}
}

/* Moves the clock out of the layout's range. Returns: the correct offset */
static gint64 leave_range(Server *server)
{
	gint64 offset_ns = system_clock_offset_ns(&server->clock);

	system_clock_set_offset_ns(&server->clock, offset_ns - 20 * YEAR_NS);
	WAIT_FOR(server_state(server) == KEEPER_WAITING);
	return offset_ns;
}

TEST("/keeper-clock/outside-while-serving", test_clock_outside_while_serving)
{
	g_auto(Server) server;
	gint64 offset_ns, last;

	server_init_serving(&server);
	offset_ns = leave_range(&server);
	assert_logged(LOG_WORKER_WAITING, 1, "is outside the layout's range (");
	system_clock_set_offset_ns(&server.clock, offset_ns);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	last = server_draw_in_time(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);

	/* the keeper releases without waiting for a correct clock */
	leave_range(&server);
	g_assert_true(keeper_stop(server.keeper, 5000));
	g_assert_cmpuint(server.fake.releases, ==, 1);
	g_assert_cmpint(server.fake.last_tick, ==, tick_of_id(last));
}

/* A claim that is pending then has no effect before the clock is correct. */
TEST("/keeper-clock/outside-while-claiming", test_clock_outside_while_claiming)
{
	g_auto(Server) server;
	gint64 offset_ns;

	server_init(&server);
	server.fake.pending = TRUE;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	offset_ns = leave_range(&server);
	fake_registry_go_on(&server.fake);
	server_go_round(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 0);
	system_clock_set_offset_ns(&server.clock, offset_ns);
	server_draw_in_time(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, begun), ==, 1);
}

/* Starts with an offset in use that is @ahead_ns ahead of the system clock, and that the registry
 * agrees with. */
static gint64 start_ahead(Server *server, gint64 ahead_ns)
{
	gint64 true_ns;

	server_init(server);
	true_ns = system_clock_offset_ns(&server->clock);
	system_clock_set_offset_ns(&server->clock, true_ns + ahead_ns);
	server->fake.clock = registry_clock(true_ns + ahead_ns);
	server->fake.registry.first_report.clock = server->fake.clock;
	server_start(server);
	return true_ns;
}

static gboolean is_true_time(Server *server, gint64 true_ns)
{
	return ABS(system_clock_offset_ns(&server->clock) - true_ns) < SECOND_NS;
}

TEST("/keeper-clock/registry-confirms", test_registry_confirms)
{
	static const gint64 AHEAD_NS[] = {HOUR_NS, -HOUR_NS};

	for (guint i = 0; i < G_N_ELEMENTS(AHEAD_NS); i++) {
		g_auto(Server) server;
		gint64 started_us = g_get_monotonic_time();
		gint64 true_ns = start_ahead(&server, AHEAD_NS[i]);
		LogEvent adopted = AHEAD_NS[i] > 0 ? LOG_CLOCK_BACK : LOG_CLOCK_FORWARD;

		/* while the step is undecided, the registry is asked, and agrees with the offset in
		 * use */
		WAIT_FOR(FAKE_GET(&server.fake, clocks) >= 2);
		g_assert_cmpint(g_get_monotonic_time() - started_us, >=, G_USEC_PER_SEC);
		assert_logged(LOG_CLOCK_HELD, 1, AHEAD_NS[i] > 0 ? "by_ms=-3" : "by_ms=3");
		g_assert_cmpint(system_clock_offset_ns(&server.clock), ==, true_ns + AHEAD_NS[i]);
		g_assert_cmpint(
			ABS(tick_of_id(server_draw_in_time(&server)) - server_tick(&server)), <,
			1000);

		FAKE_SET(&server.fake, fresh_clock, registry_clock(true_ns));
		WAIT_FOR(is_true_time(&server, true_ns));
		assert_logged(adopted, 1, "by_ms=3");
		assert_logged(LOG_CLOCK_HELD, 1, "by_ms=");
		g_assert_cmpuint(times_logged(LOG_CLOCK_DIFFERS), ==, 0);
	}
}

/* The clock of the registry has moved, but the local clock has not. */
TEST("/keeper-clock/differs", test_clock_differs)
{
	g_auto(Server) server;
	gint64 true_ns = start_ahead(&server, 0);

	server_draw_in_time(&server);
	FAKE_SET(&server.fake, clock, registry_clock(true_ns + HOUR_NS));
	WAIT_FOR(times_logged(LOG_CLOCK_DIFFERS) == 1);
	assert_logged(LOG_CLOCK_DIFFERS, 1, "by_ms=-3599");
	server_draw_until_extended(&server, 3);
	assert_logged(LOG_CLOCK_DIFFERS, 1, "by_ms=-3599");
	g_assert_true(is_true_time(&server, true_ns));
	g_assert_cmpuint(times_logged(LOG_CLOCK_HELD), ==, 0);

	/* another difference, after this one has ended */
	FAKE_SET(&server.fake, clock, registry_clock(true_ns));
	server_draw_until_extended(&server, 2);
	FAKE_SET(&server.fake, clock, registry_clock(true_ns - HOUR_NS));
	WAIT_FOR(times_logged(LOG_CLOCK_DIFFERS) == 2);
	assert_logged(LOG_CLOCK_DIFFERS, 2, "by_ms=3599");
}

/* Makes a step back that is adopted, with the last ID an hour ahead. */
static void step_back(Server *server, gint64 true_ns)
{
	FAKE_SET(&server->fake, fresh_clock, registry_clock(true_ns));
	WAIT_FOR(times_logged(LOG_CLOCK_BACK) == 1);
}

static void start_reclaiming(Server *server, gint64 *out_true_ns, gint64 *out_id)
{
	server_init(server);
	server->reclaim = TRUE;
	*out_true_ns = system_clock_offset_ns(&server->clock);
	system_clock_set_offset_ns(&server->clock, *out_true_ns + HOUR_NS);
	server->fake.registry.first_report.clock = server->fake.clock =
		registry_clock(*out_true_ns + HOUR_NS);
	server_start(server);
	*out_id = server_draw_in_time(server);
	FAKE_SET(&server->fake, worker_id, 4);
}

TEST("/keeper-clock/reclaims", test_reclaims)
{
	g_auto(Server) server;
	gint64 true_ns, before, after;
	const Lease *lease;

	start_reclaiming(&server, &true_ns, &before);
	lease = generator_lease(server.generator);
	step_back(&server, true_ns);
	after = server_draw_in_time(&server);
	g_assert_cmpint(ABS(tick_of_id(after) - server_tick(&server)), <, 1000);
	g_assert_cmpint(tick_of_id(after), <, tick_of_id(before) - 3000000);
	g_assert_cmpuint(layout_decode(&LAYOUT_TWITTER, after).worker_id, ==, 4);
	g_assert_cmphex(atomic_load(&lease->cursor), ==, CURSOR_CLOSED);
	g_assert_cmpint(FAKE_GET(&server.fake, last_tick), ==, tick_of_id(before));
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 1);
	assert_logged(LOG_WORKER_RELEASED, 1, "worker_id=3 last=20");
	assert_logged(LOG_WORKER_CLAIMED, 2, "worker_id=4");
	assert_logged(LOG_STATE, 3, "from=reclaiming to=serving");
	/* nothing more happens */
	server_go_round(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 2);
}

/* Without the registry, no other worker ID is available, so the keeper keeps its worker ID until
 * the clock has caught up. */
TEST("/keeper-clock/reclaims-when-reachable", test_reclaims_when_reachable)
{
	g_auto(Server) server;
	gint64 true_ns, before, id;
	guint polls;

	start_reclaiming(&server, &true_ns, &before);
	FAKE_SET(&server.fake, reachable, FALSE);
	polls = FAKE_GET(&server.fake, polls);
	WAIT_FOR(FAKE_GET(&server.fake, polls) > polls);
	step_back(&server, true_ns);
	WAIT_FOR(is_true_time(&server, true_ns));
	for (guint i = 0; i < 3; i++) {
		server_go_round(&server);
		g_assert_cmpint(server_draw(&server, &id), ==, DRAW_CLOCK_BACK);
	}
	g_assert_cmpint(server_state(&server), ==, KEEPER_WAITING);
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 0);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);

	FAKE_SET(&server.fake, reachable, TRUE);
	id = server_draw_in_time(&server);
	g_assert_cmpint(tick_of_id(id), <, tick_of_id(before) - 3000000);
	g_assert_cmpuint(layout_decode(&LAYOUT_TWITTER, id).worker_id, ==, 4);
	g_assert_cmpint(FAKE_GET(&server.fake, last_tick), ==, tick_of_id(before));
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 1);
}

/* No other worker ID may be free, or the registry may be unreachable. */
TEST("/keeper-clock/reclaims-later", test_reclaims_later)
{
	g_auto(Server) server;
	gint64 true_ns, before, id;
	guint claims;

	start_reclaiming(&server, &true_ns, &before);
	FAKE_SET(&server.fake, claim_code, REGISTRY_ERROR_FAILED);
	step_back(&server, true_ns);
	WAIT_FOR(FAKE_GET(&server.fake, claims) >= 3);
	g_assert_cmpint(server_state(&server), ==, KEEPER_RECLAIMING);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_UNRESERVED);
	g_assert_null(generator_lease(server.generator));
	g_assert_cmpint(server_status(&server).worker_id, ==, -1);
	g_assert_cmpint(server_status(&server).reserved_until_ms, ==, 0);
	FAKE_SET(&server.fake, wait_ticks, G_MAXINT64);
	FAKE_SET(&server.fake, claim_code, REGISTRY_ERROR_WAIT);
	WAIT_FOR(server_state(&server) == KEEPER_WAITING);
	assert_logged(LOG_STATE, 3, "from=reclaiming to=waiting");
	/* the pending claim fails, and the keeper retries it */
	claims = FAKE_GET(&server.fake, claims);
	FAKE_SET(&server.fake, claim_code, REGISTRY_ERROR_FAILED);
	FAKE_SET(&server.fake, retry_now, TRUE);
	WAIT_FOR(FAKE_GET(&server.fake, claims) >= claims + 3);
	FAKE_SET(&server.fake, claim_code, WORKS);
	g_assert_cmpint(tick_of_id(server_draw_in_time(&server)), <, tick_of_id(before) - 3000000);
}

/* Returns a layout that ends in @days days. */
static Layout ending_in(gint64 days)
{
	gint64 now_ms = g_get_real_time() / G_TIME_SPAN_MILLISECOND;

	return (Layout){
		.epoch_ms = now_ms + days * DAY_MS - (G_GINT64_CONSTANT(1) << 36),
		.tick_ms = 1,
		.time_bits = 36,
		.worker_bits = 5,
		.sequence_bits = 22,
	};
}

TEST("/keeper-clock/layout-ends-soon", test_layout_ends_soon)
{
	static const struct {
		gint64 days;
		const char *told; /* NULL if not logged yet */
	} CASES[] = {{366, NULL}, {365, "days_left=364 "}, {1, "days_left=0 "}};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Layout layout = ending_in(CASES[i].days);
		g_auto(Server) server;

		server_init_layout(&server, &layout);
		server_start(&server);
		server_draw_in_time(&server);
		if (CASES[i].told != NULL)
			assert_logged(LOG_LAYOUT_ENDS_SOON, 1, CASES[i].told);
		else
			g_assert_cmpuint(times_logged(LOG_LAYOUT_ENDS_SOON), ==, 0);
	}
}

/* The clock steps by almost a day, and by a day; each step is adopted in the end. */
TEST("/keeper-clock/layout-end-is-logged-daily", test_layout_end_is_logged_daily)
{
	static const struct {
		gint64 by_ns;
		guint told;
	} CASES[] = {{23 * HOUR_NS, 1}, {24 * HOUR_NS, 2}};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Layout layout = ending_in(100);
		g_auto(Server) server;
		gint64 offset_ns;

		server_init_layout(&server, &layout);
		offset_ns = system_clock_offset_ns(&server.clock);
		system_clock_set_offset_ns(&server.clock, offset_ns - CASES[i].by_ns);
		server_start(&server);
		WAIT_FOR(times_logged(LOG_CLOCK_HELD) == 1);
		g_assert_cmpuint(times_logged(LOG_LAYOUT_ENDS_SOON), ==, 1);
		WAIT_FOR(times_logged(LOG_CLOCK_FORWARD) == 1);
		scripted_time_pass(G_USEC_PER_SEC);
		g_assert_cmpuint(times_logged(LOG_LAYOUT_ENDS_SOON), ==, CASES[i].told);
	}
}
