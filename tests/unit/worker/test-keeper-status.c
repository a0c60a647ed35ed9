/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "tests/unit/worker/keeper-fixture.h"
#include "worker/keeper.h"

/* What those who watch a server are told of it. */

static KeeperStatus status_of(Server *server)
{
	KeeperStatus status;

	keeper_get_status(server->keeper, &status);
	return status;
}

static void start(Server *server)
{
	server_init(server);
	server_start(server);
	WAIT_FOR(server_state(server) == KEEPER_SERVING);
}

TEST("/keeper-status/before-and-length", test_before_and_length)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.session = KEEPER_SESSION_CONNECTING;
	server.fake.registry.first_length_ms = 200;
	server.fake.registry.max_length_ms = 1000;
	server.keeper = keeper_new(&server.fake.registry, server.generator, &server.clock,
				   &(KeeperConfig){.max_clock_skew_ms = MAX_SKEW_MS});
	g_assert_cmpint(status_of(&server).reservation_ms, ==, 0);
	g_assert_cmpint(status_of(&server).session, ==, KEEPER_SESSION_CONNECTING);
	keeper_start(server.keeper);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	g_assert_cmpint(status_of(&server).reservation_ms, ==, 200);
	server_draw_until_extended(&server, 1);
	WAIT_FOR(status_of(&server).reservation_ms == 400);
	server_draw_until_extended(&server, 2);
	WAIT_FOR(status_of(&server).reservation_ms == 1000);
	/* nobody asks any more: it lapses */
	WAIT_FOR(status_of(&server).reserved_until_ms == 0);
	g_assert_cmpint(status_of(&server).reservation_ms, ==, 0);
	g_assert_false(status_of(&server).extending_fails);
}

TEST("/keeper-status/extending-fails", test_extending_fails)
{
	g_auto(Server) server;

	start(&server);
	server_draw_in_time(&server);
	g_assert_false(status_of(&server).extending_fails);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FAILED);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
	g_assert_true(status_of(&server).extending_fails);
	g_assert_cmpint(status_of(&server).state, ==, KEEPER_SERVING);
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	g_assert_true(status_of(&server).extending_fails);
	FAKE_SET(&server.fake, extend_code, WORKS);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	g_assert_false(status_of(&server).extending_fails);
}

/* With the lease its extension has ended, too. */
TEST("/keeper-status/extending-fails-to-the-end", test_extending_fails_to_the_end)
{
	static const struct {
		const char *name;
		int code;
		gboolean lost, stops, fails;
	} CASES[] = {
		{"for ever", REGISTRY_ERROR_FATAL, FALSE, FALSE, TRUE},
		{"the record is another's", REGISTRY_ERROR_FAILED, TRUE, FALSE, FALSE},
		{"the server stops", REGISTRY_ERROR_FAILED, FALSE, TRUE, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Server) server;

		g_test_message("%s", CASES[i].name);
		start(&server);
		FAKE_SET(&server.fake, extend_code, CASES[i].code);
		FAKE_SET(&server.fake, claim_code, REGISTRY_ERROR_WAIT);
		server_draw_in_time(&server);
		WAIT_FOR(status_of(&server).extending_fails);
		FAKE_SET(&server.fake, lost, CASES[i].lost);
		if (CASES[i].stops)
			server_stop(&server);
		else
			scripted_time_pass(2 * G_TIME_SPAN_SECOND);
		g_assert_cmpint(status_of(&server).extending_fails, ==, CASES[i].fails);
	}
}

/* A disk that hangs, a ZooKeeper that is silent. */
TEST("/keeper-status/extending-hangs", test_extending_hangs)
{
	g_auto(Server) server;
	gint64 began_us;

	start(&server);
	FAKE_SET(&server.fake, pending, TRUE);
	server_draw_in_time(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_EXTEND);
	began_us = g_get_monotonic_time();
	g_assert_false(status_of(&server).extending_fails);
	WAIT_FOR(status_of(&server).extending_fails);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, 900000);
	g_assert_cmpint(g_get_monotonic_time() - began_us, <, 1100000);
	fake_registry_go_on(&server.fake);
	WAIT_FOR(!status_of(&server).extending_fails);
}

/* A claim or a hand-back that hangs is none. */
TEST("/keeper-status/others-hang", test_others_hang)
{
	g_auto(Server) server;

	server_init(&server);
	FAKE_SET(&server.fake, pending, TRUE);
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	scripted_time_pass(5 * G_TIME_SPAN_SECOND);
	g_assert_false(status_of(&server).extending_fails);
	fake_registry_go_on(&server.fake);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	FAKE_SET(&server.fake, unheard, TRUE);
	g_assert_true(keeper_stop(server.keeper, 3000));
	g_assert_false(status_of(&server).extending_fails);
}

/* Once there is a word from the registry, by the clock as it is now. */
TEST("/keeper-status/registry-clock", test_registry_clock)
{
	static const gint64 AHEAD_MS[] = {0, 7, -7, 20000, -3600000};
	g_auto(Server) server;
	gint64 offset_ns;

	start(&server);
	g_assert_false(status_of(&server).registry_clock_known);
	offset_ns = system_clock_offset_ns(&server.clock);
	for (gsize i = 0; i < G_N_ELEMENTS(AHEAD_MS); i++) {
		gint64 ahead_ns = AHEAD_MS[i] * CLOCK_NS_PER_MS;

		FAKE_SET(&server.fake, clock, registry_clock(offset_ns - ahead_ns));
		scripted_time_pass(G_TIME_SPAN_SECOND);
		g_assert_true(status_of(&server).registry_clock_known);
		g_assert_cmpint(status_of(&server).registry_skew_ns, ==, ahead_ns);
	}
}

/* What the registry says of itself and of others. */
TEST("/keeper-status/registry", test_registry)
{
	static const struct {
		KeeperSession session;
		const char *name;
		RegistryPeers peers;
	} CASES[KEEPER_N_SESSIONS] = {
		{KEEPER_SESSION_NONE, "none", {FALSE, 0}},
		{KEEPER_SESSION_CONNECTING, "connecting", {TRUE, -5}},
		{KEEPER_SESSION_CONNECTED, "connected", {TRUE, 1234567}},
		{KEEPER_SESSION_LOST, "lost", {FALSE, 0}},
	};
	g_auto(Server) server;

	start(&server);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		KeeperStatus status;

		FAKE_SET(&server.fake, session, CASES[i].session);
		FAKE_SET(&server.fake, peers, CASES[i].peers);
		scripted_time_pass(G_TIME_SPAN_SECOND);
		status = status_of(&server);
		g_assert_cmpstr(keeper_session_name(status.session), ==, CASES[i].name);
		g_assert_cmpint(status.peers_skew_known, ==, CASES[i].peers.known);
		g_assert_cmpint(status.peers_skew_ns, ==, CASES[i].peers.ahead_ns);
	}
}
