/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include "tests/unit/unit-test.h"
#include "tests/unit/worker/keeper-fixture.h"

TEST("/keeper/serves", test_serves)
{
	g_auto(Server) server;
	KeeperStatus status;
	LayoutParts parts;

	server_init_serving(&server);
	parts = layout_decode(&LAYOUT_TWITTER, server_draw_in_time(&server));
	g_assert_cmpuint(parts.datacenter_id, ==, 2);
	g_assert_cmpuint(parts.worker_id, ==, 3);
	status = server_status(&server);
	g_assert_cmpint(status.datacenter_id, ==, 2);
	g_assert_cmpint(status.worker_id, ==, 3);
	g_assert_cmpint(ABS(status.claimed_at_ms - clock_now_ms(&server.clock.clock)), <, 10);
	g_assert_cmpint(status.claimed_at_ms, ==, FAKE_GET(&server.fake, claimed_at_ms));
	g_assert_cmpint(status.reserved_until_ms, >, status.claimed_at_ms);
	assert_logged(LOG_STATE, 1, "from=starting to=serving");
	assert_logged(LOG_WORKER_CLAIMED, 1, "datacenter_id=2 worker_id=3 first=20");
	g_assert_null(keeper_error(server.keeper));
	WAIT_FOR(atomic_load(&server.changes) > 0);
}

TEST("/keeper/lapses-when-idle", test_lapses_when_idle)
{
	g_auto(Server) server;
	gint64 id;

	server_init_serving(&server);
	WAIT_FOR(server_tick(&server) > FAKE_GET(&server.fake, end_tick) + MAX_AHEAD_MS);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 0);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_UNRESERVED);
	g_assert_cmpint(server_state(&server), ==, KEEPER_SERVING);
	g_assert_cmpint(keeper_demand(server.keeper), ==, 0);
	/* the extension wakes the keeper before its next check of the clock */
	scripted_time_settle();
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_OK);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 1);
	g_assert_cmpuint(times_logged(LOG_EXTEND_RECOVERED), ==, 0);
}

/* The length of reservations doubles up to the maximum. */
TEST("/keeper/lengths-grow", test_lengths_grow)
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

TEST("/keeper/extension-fails", test_extension_fails)
{
	g_auto(Server) server;
	gint64 id, before, failed_us, failed_ms;

	server_init(&server);
	server_start(&server);
	before = server_draw_in_time(&server);
	g_assert_false(server_status(&server).extending_fails);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FAILED);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
	failed_us = g_get_monotonic_time();
	g_assert_true(server_status(&server).extending_fails);
	g_assert_cmpint(server_state(&server), ==, KEEPER_SERVING);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 2);
	/* the reservation still serves */
	g_assert_true(server_draw(&server, &id) == DRAW_OK ||
		      server_tick(&server) > FAKE_GET(&server.fake, end_tick));
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	g_assert_true(server_status(&server).extending_fails);
	WAIT_FOR(server_draw(&server, &id) == DRAW_UNRESERVED);
	WAIT_FOR(keeper_demand(server.keeper) > 0);
	g_assert_cmpint(keeper_demand(server.keeper), <=, 1000);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= 5);
	assert_logged(LOG_EXTEND_FAILED, 1, "error=\"extend says 0\" reserved_until=20");
	assert_logged(LOG_RESERVATION_SPENT, 1, "reserved_until=20");

	FAKE_SET(&server.fake, extend_code, WORKS);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	g_assert_false(server_status(&server).extending_fails);
	assert_logged(LOG_EXTEND_RECOVERED, 1, "failed_ms=");
	g_assert_cmpint(logged_number(LOG_EXTEND_RECOVERED, "failures"), >=, 5);
	/* failed_ms counts from the first failure; WAIT_FOR() checks once a millisecond */
	failed_ms = (g_get_monotonic_time() - failed_us) / G_TIME_SPAN_MILLISECOND;
	g_assert_cmpint(ABS(logged_number(LOG_EXTEND_RECOVERED, "failed_ms") - failed_ms), <=, 2);
	g_assert_cmpint(server_draw_in_time(&server), >, before);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
}

TEST("/keeper/extension-fails-for-good", test_extension_fails_for_good)
{
	g_auto(Server) server;
	g_autoptr(GError) error = NULL;
	guint extensions;

	server_init(&server);
	server_start(&server);
	server_draw_in_time(&server);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FATAL);
	WAIT_FOR((error = keeper_error(server.keeper)) != NULL);
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	extensions = FAKE_GET(&server.fake, extensions);
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	g_assert_cmpint(keeper_demand(server.keeper), >, 0);
	server_stop(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, extensions);
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 1);
}

TEST("/keeper/waits", test_waits)
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

TEST("/keeper/stops-while-waiting", test_stops_while_waiting)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 3600000;
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_WAITING);
	g_assert_cmpint(keeper_demand(server.keeper), >, 3000000);
	/* calls do not wake the keeper: it sleeps between its checks of the clock */
	WAIT_FOR(keeper_demand(server.keeper) > 0 && keeper_round_age_ms(server.keeper) >= 50);
	WAIT_FOR(keeper_round_age_ms(server.keeper) < 50);
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 0);
}

TEST("/keeper/begins-later", test_begins_later)
{
	g_auto(Server) server;
	gint64 first_tick;

	server_init(&server);
	first_tick = server_tick(&server) + 300;
	server.fake.first_tick = first_tick;
	server_start_serving(&server);
	g_assert_cmpint(server_tick(&server), >=, first_tick - MAX_AHEAD_MS);
	assert_logged(LOG_STATE, 2, "from=waiting to=serving");
	g_assert_cmpint(tick_of_id(server_draw_in_time(&server)), >=, first_tick);
}

TEST("/keeper/stops", test_stops)
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
	g_assert_cmpuint(server.fake.releases, ==, 1);
	g_assert_cmpint(server.fake.last_tick, ==, tick_of_id(last));
	assert_logged(LOG_WORKER_RELEASED, 1, "datacenter_id=2 worker_id=3 last=20");
	assert_logged(LOG_STATE, 2, "from=serving to=stopped");
}

TEST("/keeper/release-fails", test_release_fails)
{
	static const struct {
		RegistryError code;
		LogEvent event;
	} CASES[] = {
		{REGISTRY_ERROR_FAILED, LOG_RELEASE_FAILED},
		/* another server's worker ID is not reported as free */
		{REGISTRY_ERROR_LOST, LOG_WORKER_LOST},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Server) server;

		server_init_serving(&server);
		FAKE_SET(&server.fake, extend_code, (int)CASES[i].code);
		server_stop(&server);
		g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
		g_assert_cmpuint(server.fake.releases, ==, 1);
		g_assert_cmpuint(times_logged(LOG_WORKER_RELEASED), ==, 0);
		g_assert_cmpuint(times_logged(LOG_RELEASE_FAILED) + times_logged(LOG_WORKER_LOST),
				 ==, 1);
		assert_logged(CASES[i].event, 1, "error=\"release says ");
	}
}

TEST("/keeper/never-started", test_never_started)
{
	g_auto(Server) server;

	server_init(&server);
	server.keeper = keeper_new(&server.fake.registry, server.generator, &server.clock,
				   &(KeeperConfig){.max_clock_skew_ms = MAX_SKEW_MS});
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(server.fake.claims, ==, 0);
}

/* A call to the registry does not return, as on a disk that hangs, either during an extension or
 * before the keeper begins one. */
TEST("/keeper/registry-hangs", test_registry_hangs)
{
	for (int upkeep_hangs = FALSE; upkeep_hangs <= TRUE; upkeep_hangs++) {
		g_auto(Server) server;

		server_init(&server);
		server_start(&server);
		server_draw_in_time(&server);
		WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_NONE);
		FAKE_SET(&server.fake, stuck, TRUE);
		FAKE_SET(&server.fake, upkeep_hangs, upkeep_hangs);
		WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
		g_assert_cmpint(server_tick(&server), >, FAKE_GET(&server.fake, end_tick));
		g_assert_cmpint(FAKE_GET(&server.fake, under_way), ==,
				upkeep_hangs ? REGISTRY_NONE : REGISTRY_EXTEND);
		/* without an extension, this looks like a pause of the whole process, so calls wait
		 * up to max-wait */
		g_assert_cmpint(keeper_demand(server.keeper), ==, upkeep_hangs ? 0 : 1000);
		g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 0);
		if (!upkeep_hangs)
			g_assert_cmpint(keeper_round_age_ms(server.keeper), >=, 1000);

		fake_registry_unstick(&server.fake);
		WAIT_FOR(server_state(&server) == KEEPER_SERVING);
		server_draw_in_time(&server);
		WAIT_FOR(keeper_round_age_ms(server.keeper) < 1000);
		g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
		g_assert_cmpuint(times_logged(LOG_EXTEND_FAILED), ==, 0);
		if (!upkeep_hangs)
			g_assert_cmpuint(times_logged(LOG_EXTEND_RECOVERED), >=, 1);
	}
}

/* The keeper learns about its claim long after the write. When it reports the state "serving", the
 * server must be able to serve, because it reports a state only once. */
TEST("/keeper/claim-takes-longer-than-its-reservation",
     test_claim_takes_longer_than_its_reservation)
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
	WAIT_FOR(keeper_round_age_ms(server.keeper) >= 1600);
	fake_registry_unstick(&server.fake);
	WAIT_FOR(FAKE_GET(&server.fake, claims) == 1);
	g_assert_cmpint(server_tick(&server), >, FAKE_GET(&server.fake, end_tick));
	WAIT_FOR(server.told == KEEPER_SERVING);
}

TEST("/keeper/release-hangs", test_release_hangs)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 3600000;
	server_start_serving(&server);
	FAKE_SET(&server.fake, stuck, TRUE);
	g_assert_false(keeper_stop(server.keeper, 20));
	assert_logged(LOG_RELEASE_FAILED, 1, "within 20 ms\" reserved_until=20");
	g_assert_cmpint(server_state(&server), !=, KEEPER_STOPPED);
	g_assert_false(keeper_stop(server.keeper, 0));

	fake_registry_unstick(&server.fake);
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 1);
}

/* A slow registry */

/* The end is computed when the extension begins. The next extension is due from then on; otherwise
 * less than three quarters of the reservation would be left. */
TEST("/keeper/extension-is-confirmed-late", test_extension_is_confirmed_late)
{
	g_auto(Server) server;
	gint64 confirmed_us;

	server_init(&server);
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 4000;
	server.fake.registry.extend_when_idle = TRUE;
	server_start_serving(&server);
	FAKE_SET(&server.fake, pending, TRUE);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_EXTEND);
	scripted_time_pass(1500 * G_TIME_SPAN_MILLISECOND);

	fake_registry_go_on(&server.fake);
	confirmed_us = g_get_monotonic_time();
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 2);
	g_assert_cmpint(g_get_monotonic_time() - confirmed_us, <, 100 * G_TIME_SPAN_MILLISECOND);
}

static void check_stops_while_claiming(int cancel_code)
{
	g_auto(Server) server;
	GError *error;

	server_init(&server);
	server.fake.pending = TRUE;
	server.fake.cancel_code = cancel_code;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	if (cancel_code == WORKS) {
		/* the registry must answer the release */
		g_assert_false(keeper_stop(server.keeper, 0));
		WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_RELEASE);
		fake_registry_go_on(&server.fake);
	}
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(server.fake.cancels, ==, 1);
	g_assert_cmpuint(server.fake.claims, ==, 1);
	assert_logged(LOG_STATE, 1, "from=starting to=stopped");
	error = keeper_error(server.keeper);
	g_assert_no_error(error); /* a requested stop is not an error */
	g_assert_cmpuint(server.fake.releases, ==, cancel_code == WORKS);
	if (cancel_code == WORKS) {
		g_assert_cmpint(server.fake.last_tick, ==,
				generator_lease(server.generator)->first_tick - 1);
		assert_logged(LOG_WORKER_RELEASED, 1, "worker_id=3 last=none");
	}
}

TEST("/keeper/stops-while-claiming", test_stops_while_claiming)
{
	check_stops_while_claiming(REGISTRY_ERROR_FAILED);
	check_stops_while_claiming(WORKS);
}

/* The registry does not answer. The keeper waits as long as the stop may take, and stops cleanly.
 */
TEST("/keeper/release-is-given-up", test_release_is_given_up)
{
	enum { STOP_MS = 300, ROUND_MS = 100 };
	g_auto(Server) server;
	gint64 began_us, took_us;

	server_init(&server);
	server.fake.unheard = TRUE;
	server_start(&server);
	server_draw_in_time(&server);
	began_us = g_get_monotonic_time();
	g_assert_true(keeper_stop(server.keeper, STOP_MS));
	took_us = g_get_monotonic_time() - began_us;
	g_assert_cmpint(took_us, >=, STOP_MS * G_TIME_SPAN_MILLISECOND);
	g_assert_cmpint(took_us, <=, (STOP_MS + ROUND_MS) * G_TIME_SPAN_MILLISECOND);
	g_assert_cmpuint(server.fake.releases, ==, 1);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	assert_logged(LOG_RELEASE_FAILED, 1,
		      "meaning=\"until then, no server can use the worker ID");
}

/* The stop waits if the registry does not support cancel, or can no longer cancel. */
TEST("/keeper/stop-waits", test_stop_waits)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.ops = &(const RegistryOps){
		.begin = server.fake.registry.ops->begin,
		.poll = server.fake.registry.ops->poll,
		.free = server.fake.registry.ops->free,
	};
	server.fake.pending = TRUE;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	g_assert_false(keeper_stop(server.keeper, 20));
	assert_logged(LOG_RELEASE_FAILED, 1, "within 20 ms\" reserved_until=none");
	fake_registry_go_on(&server.fake);
	server_stop(&server);
	g_assert_cmpuint(server.fake.releases, ==, 1);
	g_assert_cmpuint(server.fake.cancels, ==, 0);
}

/* The keeper polls as often as the registry requests. */
TEST("/keeper/polls-in-time", test_polls_in_time)
{
	enum { POLLS = 100 };
	g_auto(Server) server;
	gint64 started_us = g_get_monotonic_time();

	server_init(&server);
	server.fake.poll_every_us = 1000;
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 3600000;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, polls) >= POLLS);
	g_assert_cmpint(g_get_monotonic_time() - started_us, <=, (POLLS + 1) * 1000);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
}

/* A reservation that was written long ago has less time left, so it is extended sooner. */
TEST("/keeper/claim-is-confirmed-late", test_claim_is_confirmed_late)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 3600000;
	server.fake.registry.extend_when_idle = TRUE;
	server.fake.late_ticks = 1000000;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
	server_go_round(&server);
	server_go_round(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 1);
}

/* Layouts whose ticks are not milliseconds */

#define TICK_MS 100

static const Layout SLOW = {G_GINT64_CONSTANT(1288834974657), TICK_MS, 40, 10, 9, 4};

static gint64 now_tick(const Server *server)
{
	return layout_tick_at(&SLOW, clock_now_ms(&server->clock.clock));
}

/* A reservation has enough ticks for its length, and is extended after a quarter of the length. */
TEST("/keeper/ticks/lengths", test_lengths_in_ticks)
{
	static const struct {
		gint64 length_ms, ticks;
	} CASES[] = {{400, 4}, {401, 5}, {2350, 24}};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Server) server;
		gint64 claimed_us;

		server_init_layout(&server, &SLOW);
		server.fake.registry.first_length_ms = CASES[i].length_ms;
		server.fake.registry.max_length_ms = CASES[i].length_ms;
		server.fake.registry.extend_when_idle = TRUE;
		server_start_serving(&server);
		g_assert_cmpint(FAKE_GET(&server.fake, length_ticks), ==, CASES[i].ticks);

		claimed_us = g_get_monotonic_time();
		WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
		/* another tick may have begun since */
		g_assert_cmpint(FAKE_GET(&server.fake, asked_end_tick), >=,
				now_tick(&server) + CASES[i].ticks - 1);
		g_assert_cmpint(FAKE_GET(&server.fake, asked_end_tick), <=,
				now_tick(&server) + CASES[i].ticks);
		/* the claim may be anywhere in a tick */
		g_assert_cmpint(ABS(g_get_monotonic_time() - claimed_us -
				    CASES[i].length_ms * G_TIME_SPAN_MILLISECOND / 4),
				<=, TICK_MS * G_TIME_SPAN_MILLISECOND);
	}
}

/* The last ID may be ahead by 10 ms, which is less than a tick. */
TEST("/keeper/ticks/reclaims", test_reclaims_in_ticks)
{
	g_auto(Server) server;
	gint64 offset_ns, id;

	server_init_layout(&server, &SLOW);
	server.reclaim = TRUE;
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 60000;
	server_start_serving(&server);
	/* this offset is in force until the keeper reads the system clock again */
	offset_ns = system_clock_offset_ns(&server.clock);
	system_clock_set_offset_ns(&server.clock, offset_ns + 3 * TICK_MS * CLOCK_NS_PER_MS);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_OK);
	FAKE_SET(&server.fake, worker_id, 4);
	WAIT_FOR(FAKE_GET(&server.fake, claims) == 2);
	g_assert_cmpuint(FAKE_GET(&server.fake, releases), ==, 1);
}

/* The status that a server reports */

TEST("/keeper-status/before-and-length", test_before_and_length)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_report.session = REGISTRY_SESSION_CONNECTING;
	server.fake.registry.first_length_ms = 200;
	server.fake.registry.max_length_ms = 1000;
	server.keeper = keeper_new(&server.fake.registry, server.generator, &server.clock,
				   &(KeeperConfig){.max_clock_skew_ms = MAX_SKEW_MS});
	g_assert_cmpint(server_status(&server).reservation_ms, ==, 0);
	g_assert_cmpint(server_status(&server).session, ==, REGISTRY_SESSION_CONNECTING);
	keeper_start(server.keeper);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	g_assert_cmpint(server_status(&server).reservation_ms, ==, 200);
	server_draw_until_extended(&server, 1);
	WAIT_FOR(server_status(&server).reservation_ms == 400);
	server_draw_until_extended(&server, 2);
	WAIT_FOR(server_status(&server).reservation_ms == 1000);
	/* no client asks for IDs, so the reservation lapses */
	WAIT_FOR(server_status(&server).reserved_until_ms == 0);
	g_assert_cmpint(server_status(&server).reservation_ms, ==, 0);
	g_assert_false(server_status(&server).extending_fails);
}

/* When the lease ends, its extension no longer fails. */
TEST("/keeper-status/extending-fails-to-the-end", test_extending_fails_to_the_end)
{
	static const struct {
		const char *name;
		int code;
		gboolean lost, stops, fails;
	} CASES[] = {
		{"the registry fails for good", REGISTRY_ERROR_FATAL, FALSE, FALSE, TRUE},
		{"another server has the record", REGISTRY_ERROR_FAILED, TRUE, FALSE, FALSE},
		{"the server stops", REGISTRY_ERROR_FAILED, FALSE, TRUE, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Server) server;

		g_test_message("%s", CASES[i].name);
		server_init_serving(&server);
		FAKE_SET(&server.fake, extend_code, CASES[i].code);
		FAKE_SET(&server.fake, claim_code, REGISTRY_ERROR_WAIT);
		server_draw_in_time(&server);
		WAIT_FOR(server_status(&server).extending_fails);
		FAKE_SET(&server.fake, lost, CASES[i].lost);
		if (CASES[i].stops)
			server_stop(&server);
		else
			scripted_time_pass(2 * G_TIME_SPAN_SECOND);
		g_assert_cmpint(server_status(&server).extending_fails, ==, CASES[i].fails);
	}
}

/* An extension hangs, for example on a disk or on a silent ZooKeeper. */
TEST("/keeper-status/extending-hangs", test_extending_hangs)
{
	g_auto(Server) server;
	gint64 began_us;

	server_init_serving(&server);
	FAKE_SET(&server.fake, pending, TRUE);
	server_draw_in_time(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_EXTEND);
	began_us = g_get_monotonic_time();
	g_assert_false(server_status(&server).extending_fails);
	WAIT_FOR(server_status(&server).extending_fails);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, 900000);
	g_assert_cmpint(g_get_monotonic_time() - began_us, <, 1100000);
	fake_registry_go_on(&server.fake);
	WAIT_FOR(!server_status(&server).extending_fails);
}

/* A claim or a release that hangs is not a failing extension. */
TEST("/keeper-status/others-hang", test_others_hang)
{
	g_auto(Server) server;

	server_init(&server);
	FAKE_SET(&server.fake, pending, TRUE);
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	scripted_time_pass(5 * G_TIME_SPAN_SECOND);
	g_assert_false(server_status(&server).extending_fails);
	fake_registry_go_on(&server.fake);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	FAKE_SET(&server.fake, unheard, TRUE);
	g_assert_true(keeper_stop(server.keeper, 3000));
	g_assert_false(server_status(&server).extending_fails);
}

/* The skew is known after the registry's first answer, and relates to the current clock. */
TEST("/keeper-status/registry-clock", test_registry_clock)
{
	static const gint64 AHEAD_MS[] = {0, 7, -7, 20000, -3600000};
	g_auto(Server) server;
	gint64 offset_ns;

	server_init_serving(&server);
	g_assert_false(server_status(&server).registry_clock_known);
	offset_ns = system_clock_offset_ns(&server.clock);
	for (gsize i = 0; i < G_N_ELEMENTS(AHEAD_MS); i++) {
		gint64 ahead_ns = AHEAD_MS[i] * CLOCK_NS_PER_MS;

		FAKE_SET(&server.fake, clock, registry_clock(offset_ns - ahead_ns));
		scripted_time_pass(G_TIME_SPAN_SECOND);
		g_assert_true(server_status(&server).registry_clock_known);
		g_assert_cmpint(server_status(&server).registry_skew_ns, ==, ahead_ns);
	}
}

/* The status includes the registry's session and the skew of the peers. */
TEST("/keeper-status/registry", test_registry)
{
	static const struct {
		RegistrySession session;
		const char *name;
		RegistryPeers peers;
	} CASES[REGISTRY_N_SESSIONS] = {
		{REGISTRY_SESSION_NONE, "none", {FALSE, 0}},
		{REGISTRY_SESSION_CONNECTING, "connecting", {TRUE, -5}},
		{REGISTRY_SESSION_CONNECTED, "connected", {TRUE, 1234567}},
		{REGISTRY_SESSION_LOST, "lost", {FALSE, 0}},
	};
	g_auto(Server) server;

	server_init_serving(&server);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		KeeperStatus status;

		FAKE_SET(&server.fake, session, CASES[i].session);
		FAKE_SET(&server.fake, peers, CASES[i].peers);
		scripted_time_pass(G_TIME_SPAN_SECOND);
		status = server_status(&server);
		g_assert_cmpstr(registry_session_name(status.session), ==, CASES[i].name);
		g_assert_cmpint(status.peers_skew_known, ==, CASES[i].peers.known);
		g_assert_cmpint(status.peers_skew_ns, ==, CASES[i].peers.ahead_ns);
	}
}
