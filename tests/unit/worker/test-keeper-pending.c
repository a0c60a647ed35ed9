/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include <string.h>

#include "tests/unit/worker/keeper-fixture.h"

/* The keeper with a registry that takes its time, and one that has its own ideas about when. */

/* The keeper has gone round since, more than once. */
static void let_it_go_round(Server *server)
{
	for (int i = 0; i < 2; i++) {
		WAIT_FOR(keeper_idle_ms(server->keeper) >= 50);
		WAIT_FOR(keeper_idle_ms(server->keeper) < 50);
	}
}

/* The end was computed when it began. So when the next one is due counts from there, or less than
 * three quarters would be in hand. */
static void test_extension_is_confirmed_late(void)
{
	g_auto(Server) server;
	gint64 confirmed_us;

	server_init(&server);
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 4000;
	server.fake.registry.extend_when_idle = TRUE;
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
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
		/* the hand-back is to be answered */
		g_assert_false(keeper_stop(server.keeper, 0));
		WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_HAND_BACK);
		fake_registry_go_on(&server.fake);
	}
	server_stop(&server);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	g_assert_cmpuint(server.fake.cancels, ==, 1);
	g_assert_cmpuint(server.fake.claims, ==, 1);
	assert_logged(LOG_STATE, 1, "from=starting to=stopped");
	error = keeper_error(server.keeper);
	g_assert_no_error(error); /* to be asked to stop is none */
	g_assert_cmpuint(server.fake.hand_backs, ==, cancel_code == WORKS);
	if (cancel_code == WORKS) {
		g_assert_cmpint(server.fake.last_tick, ==,
				generator_lease(server.generator)->first_tick - 1);
		assert_logged(LOG_WORKER_HANDED_BACK, 1, "worker_id=3 last=none");
	}
}

static void test_stops_while_claiming(void)
{
	check_stops_while_claiming(REGISTRY_ERROR_FAILED);
	check_stops_while_claiming(WORKS);
}

/* Who must answer is away: that is waited for as long as the stop may take, and ends in order. */
static void test_hand_back_is_given_up(void)
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
	g_assert_cmpuint(server.fake.hand_backs, ==, 1);
	g_assert_cmpint(server_state(&server), ==, KEEPER_STOPPED);
	assert_logged(LOG_HAND_BACK_FAILED, 1, "meaning=\"nobody has the worker ID until then");
}

/* A registry without cancel, or one that is past the point: the stop waits. */
static void test_stop_waits(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.ops = &(const RegistryOps){
		.claim = server.fake.registry.ops->claim,
		.extend = server.fake.registry.ops->extend,
		.hand_back = server.fake.registry.ops->hand_back,
		.poll = server.fake.registry.ops->poll,
		.free = server.fake.registry.ops->free,
	};
	server.fake.pending = TRUE;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, under_way) == REGISTRY_CLAIM);
	g_assert_false(keeper_stop(server.keeper, 20));
	assert_logged(LOG_HAND_BACK_FAILED, 1, "within 20 ms\" reserved_until=none");
	fake_registry_go_on(&server.fake);
	server_stop(&server);
	g_assert_cmpuint(server.fake.hand_backs, ==, 1);
	g_assert_cmpuint(server.fake.cancels, ==, 0);
}

/* What was written long ago has less in hand, and is extended the sooner. */
static void test_claim_is_confirmed_late(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 3600000;
	server.fake.registry.extend_when_idle = TRUE;
	server.fake.late_ticks = 1000000;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
	let_it_go_round(&server);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keeper-pending/extension-is-confirmed-late",
			test_extension_is_confirmed_late);
	g_test_add_func("/keeper-pending/stops-while-claiming", test_stops_while_claiming);
	g_test_add_func("/keeper-pending/hand-back-is-given-up", test_hand_back_is_given_up);
	g_test_add_func("/keeper-pending/stop-waits", test_stop_waits);
	g_test_add_func("/keeper-pending/claim-is-confirmed-late", test_claim_is_confirmed_late);
	return g_test_run();
}
