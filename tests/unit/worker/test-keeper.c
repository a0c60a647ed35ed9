/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include "tests/unit/worker/keeper-fixture.h"

static void test_serves(void)
{
	g_auto(Server) server;
	KeeperStatus status;
	LayoutParts parts;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	parts = layout_decode(&LAYOUT_TWITTER, server_draw_in_time(&server));
	g_assert_cmpuint(parts.datacenter_id, ==, 2);
	g_assert_cmpuint(parts.worker_id, ==, 3);
	keeper_get_status(server.keeper, &status);
	g_assert_cmpint(status.datacenter_id, ==, 2);
	g_assert_cmpint(status.worker_id, ==, 3);
	g_assert_cmpint(ABS(status.claimed_at_ms - clock_now_ms(&server.clock.clock)), <, 10);
	g_assert_cmpint(status.claimed_at_ms, ==, server.fake.registry.claimed_at_ms);
	g_assert_cmpint(status.reserved_until_ms, >, status.claimed_at_ms);
	assert_logged(LOG_STATE, 1, "from=starting to=serving");
	assert_logged(LOG_WORKER_CLAIMED, 1, "datacenter_id=2 worker_id=3 first=20");
	g_assert_null(keeper_error(server.keeper));
	WAIT_FOR(atomic_load(&server.changes) > 0);
}

static void test_lapses_when_idle(void)
{
	g_auto(Server) server;
	gint64 id;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	WAIT_FOR(server_tick(&server) > FAKE_GET(&server.fake, end_tick) + MAX_AHEAD_MS);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 0);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_UNRESERVED);
	g_assert_cmpint(server_state(&server), ==, KEEPER_SERVING);
	g_assert_cmpint(keeper_demand(server.keeper), ==, 0);
	/* woken by that, not at its next look at the clock */
	scripted_time_settle();
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_OK);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 1);
	g_assert_cmpuint(times_logged(LOG_EXTEND_RECOVERED), ==, 0);
}

/* Lengths double from the first to the longest. */
static void test_lengths_grow(void)
{
	static const gint64 LENGTHS[] = {400, 800, 1000, 1000};
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_length_ms = 200;
	server.fake.registry.max_length_ms = 1000;
	server.fake.registry.extend_when_idle = TRUE;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= G_N_ELEMENTS(LENGTHS));
	for (guint i = 0; i < G_N_ELEMENTS(LENGTHS); i++)
		g_assert_cmpint(FAKE_GET(&server.fake, gained_ticks[i]), ==, LENGTHS[i]);
}

static void test_extension_fails(void)
{
	g_auto(Server) server;
	gint64 id, before;

	server_init(&server);
	server_start(&server);
	before = server_draw_in_time(&server);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FAILED);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= 2);
	/* what was reserved still serves */
	g_assert_true(server_draw(&server, &id) == DRAW_OK ||
		      server_tick(&server) > FAKE_GET(&server.fake, end_tick));
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	WAIT_FOR(server_draw(&server, &id) == DRAW_UNRESERVED);
	WAIT_FOR(keeper_demand(server.keeper) > 0);
	g_assert_cmpint(keeper_demand(server.keeper), <=, 1000);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= 5);
	assert_logged(LOG_EXTEND_FAILED, 1, "error=\"extend says 0\" reserved_until=20");
	assert_logged(LOG_RESERVATION_SPENT, 1, "reserved_until=20");

	FAKE_SET(&server.fake, extend_code, WORKS);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	assert_logged(LOG_EXTEND_RECOVERED, 1, "failed_ms=");
	g_assert_cmpint(logged_number(LOG_EXTEND_RECOVERED, "failures"), >=, 5);
	g_assert_cmpint(server_draw_in_time(&server), >, before);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
}

/* From the first that failed to the one that did not. */
static void test_extension_fails_for_a_while(void)
{
	g_auto(Server) server;
	gint64 failed_us, failed_ms;

	server_init(&server);
	server_start(&server);
	server_draw_in_time(&server);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FAILED);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
	failed_us = g_get_monotonic_time();
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 4);
	FAKE_SET(&server.fake, extend_code, WORKS);
	WAIT_FOR(times_logged(LOG_EXTEND_RECOVERED) == 1);
	failed_ms = (g_get_monotonic_time() - failed_us) / G_TIME_SPAN_MILLISECOND;
	g_assert_cmpint(failed_ms, >=, 100); /* two pauses or three */
	/* both are looked at once a millisecond */
	g_assert_cmpint(ABS(logged_number(LOG_EXTEND_RECOVERED, "failed_ms") - failed_ms), <=, 2);
}

static void test_waits(void)
{
	g_auto(Server) server;
	gint64 retry_ms;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 120;
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_WAITING);
	retry_ms = keeper_demand(server.keeper);
	g_assert_cmpint(retry_ms, <=, 120);
	WAIT_FOR(FAKE_GET(&server.fake, claims) >= 3);
	assert_logged(LOG_WORKER_WAITING, 1, "why=\"claim says 1\" until=20");
	FAKE_SET(&server.fake, claim_code, WORKS);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	assert_logged(LOG_STATE, 2, "from=waiting to=serving");
}

static void test_stops_while_waiting(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 3600000;
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_WAITING);
	g_assert_cmpint(keeper_demand(server.keeper), >, 3000000);
	/* those who ask meanwhile do not wake it: it is left alone between its looks at the clock
	 */
	WAIT_FOR(keeper_demand(server.keeper) > 0 && keeper_idle_ms(server.keeper) >= 50);
	WAIT_FOR(keeper_idle_ms(server.keeper) < 50);
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(FAKE_GET(&server.fake, hand_backs), ==, 0);
}

static void test_stops(void)
{
	g_auto(Server) server;
	gint64 last, id;

	server_init(&server);
	server_start(&server);
	last = server_draw_in_time(&server);
	server_stop(&server);
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_UNRESERVED);
	g_assert_cmpint(keeper_demand(server.keeper), >, 0);
	g_assert_cmpuint(server.fake.hand_backs, ==, 1);
	g_assert_cmpint(server.fake.last_tick, ==, tick_of_id(last));
	assert_logged(LOG_WORKER_HANDED_BACK, 1, "datacenter_id=2 worker_id=3 last=20");
	assert_logged(LOG_STATE, 2, "from=serving to=stopped");
}

static void test_hand_back_fails(void)
{
	static const struct {
		RegistryError code;
		LogEvent event;
	} CASES[] = {
		{REGISTRY_ERROR_FAILED, LOG_HAND_BACK_FAILED},
		/* another server's worker ID is not reported as free */
		{REGISTRY_ERROR_LOST, LOG_WORKER_LOST},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Server) server;

		server_init(&server);
		server_start(&server);
		WAIT_FOR(server_state(&server) == KEEPER_SERVING);
		FAKE_SET(&server.fake, extend_code, (int)CASES[i].code);
		server_stop(&server);
		g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
		g_assert_cmpuint(server.fake.hand_backs, ==, 1);
		g_assert_cmpuint(times_logged(LOG_WORKER_HANDED_BACK), ==, 0);
		g_assert_cmpuint(times_logged(LOG_HAND_BACK_FAILED) + times_logged(LOG_WORKER_LOST),
				 ==, 1);
		assert_logged(CASES[i].event, 1, "error=\"hand-back says ");
	}
}

static void test_never_started(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.keeper = keeper_new(&server.fake.registry, server.generator, &server.clock,
				   &(KeeperConfig){.max_clock_skew_ms = MAX_SKEW_MS});
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(server.fake.claims, ==, 0);
}

/* A call of the registry that does not come back: a disk that is stuck. */
static void test_registry_hangs(void)
{
	g_auto(Server) server;

	server_init(&server);
	server_start(&server);
	server_draw_in_time(&server);
	FAKE_SET(&server.fake, stuck, TRUE);
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	g_assert_cmpint(server_tick(&server), >, FAKE_GET(&server.fake, end_tick));
	g_assert_cmpint(keeper_demand(server.keeper), ==, 1000);
	g_assert_cmpint(keeper_idle_ms(server.keeper), >=, 1000);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 0);

	fake_registry_unstick(&server.fake);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	server_draw_in_time(&server);
	WAIT_FOR(keeper_idle_ms(server.keeper) < 1000);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
	g_assert_cmpuint(times_logged(LOG_EXTEND_RECOVERED), >=, 1);
	g_assert_cmpuint(times_logged(LOG_EXTEND_FAILED), ==, 0);
}

/* It does not even begin to extend, so that no operation is under way. */
static void test_upkeep_hangs(void)
{
	g_auto(Server) server;

	server_init(&server);
	server_start(&server);
	server_draw_in_time(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_NONE);
	FAKE_SET(&server.fake, stuck, TRUE);
	FAKE_SET(&server.fake, upkeep_hangs, TRUE);
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	g_assert_cmpint(FAKE_GET(&server.fake, under_way), ==, REGISTRY_NONE);
	g_assert_cmpint(server_tick(&server), >, FAKE_GET(&server.fake, end_tick));
	/* calls wait as long as they may: nobody can tell it from a pause of the whole process */
	g_assert_cmpint(keeper_demand(server.keeper), ==, 0);

	fake_registry_unstick(&server.fake);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	server_draw_in_time(&server);
}

/* A claim that was written long before it is known: who hears of it finds a server that serves, for
 * nobody tells again. */
static void test_claim_takes_longer_than_its_reservation(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.pending = TRUE;
	server.fake.late_ticks = 1600;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	FAKE_SET(&server.fake, upkeep_hangs, TRUE);
	FAKE_SET(&server.fake, stuck, TRUE);
	fake_registry_go_on(&server.fake);
	WAIT_FOR(keeper_idle_ms(server.keeper) >= 1600);
	fake_registry_unstick(&server.fake);
	WAIT_FOR(FAKE_GET(&server.fake, claims) == 1);
	g_assert_cmpint(server_tick(&server), >, FAKE_GET(&server.fake, end_tick));
	WAIT_FOR(server.told == KEEPER_SERVING);
}

static void test_hand_back_hangs(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 3600000;
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	FAKE_SET(&server.fake, stuck, TRUE);
	g_assert_false(keeper_stop(server.keeper, 20));
	assert_logged(LOG_HAND_BACK_FAILED, 1, "within 20 ms\" reserved_until=20");
	g_assert_cmpint(server_state(&server), !=, KEEPER_STOPPED);
	g_assert_false(keeper_stop(server.keeper, 0));

	fake_registry_unstick(&server.fake);
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(FAKE_GET(&server.fake, hand_backs), ==, 1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keeper/serves", test_serves);
	g_test_add_func("/keeper/lapses-when-idle", test_lapses_when_idle);
	g_test_add_func("/keeper/lengths-grow", test_lengths_grow);
	g_test_add_func("/keeper/extension-fails", test_extension_fails);
	g_test_add_func("/keeper/extension-fails-for-a-while", test_extension_fails_for_a_while);
	g_test_add_func("/keeper/waits", test_waits);
	g_test_add_func("/keeper/stops-while-waiting", test_stops_while_waiting);
	g_test_add_func("/keeper/stops", test_stops);
	g_test_add_func("/keeper/hand-back-fails", test_hand_back_fails);
	g_test_add_func("/keeper/never-started", test_never_started);
	g_test_add_func("/keeper/registry-hangs", test_registry_hangs);
	g_test_add_func("/keeper/upkeep-hangs", test_upkeep_hangs);
	g_test_add_func("/keeper/claim-takes-longer-than-its-reservation",
			test_claim_takes_longer_than_its_reservation);
	g_test_add_func("/keeper/hand-back-hangs", test_hand_back_hangs);
	return g_test_run();
}
