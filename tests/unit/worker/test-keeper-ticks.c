/* SPDX-License-Identifier: Apache-2.0 */

/* What the keeper makes of milliseconds where a tick has a hundred of them. */
#include "tests/unit/worker/keeper-fixture.h"

#define TICK_MS 100

static const Layout SLOW = {G_GINT64_CONSTANT(1288834974657), TICK_MS, 40, 10, 9, 4};

static gint64 now_tick(const Server *server)
{
	return layout_tick_at(&SLOW, clock_now_ms(&server->clock.clock));
}

/* A reservation has as many ticks as cover its length, and is extended when a quarter of that has
 * passed. */
static void test_lengths(void)
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
		server_start(&server);
		WAIT_FOR(server_state(&server) == KEEPER_SERVING);
		g_assert_cmpint(FAKE_GET(&server.fake, length_ticks), ==, CASES[i].ticks);

		claimed_us = g_get_monotonic_time();
		WAIT_FOR(FAKE_GET(&server.fake, extensions) == 1);
		/* another tick may have begun since */
		g_assert_cmpint(FAKE_GET(&server.fake, asked_end_tick), >=,
				now_tick(&server) + CASES[i].ticks - 1);
		g_assert_cmpint(FAKE_GET(&server.fake, asked_end_tick), <=,
				now_tick(&server) + CASES[i].ticks);
		/* the clock may be anywhere in a tick */
		g_assert_cmpint(ABS(g_get_monotonic_time() - claimed_us -
				    CASES[i].length_ms * G_TIME_SPAN_MILLISECOND / 4),
				<=, TICK_MS * G_TIME_SPAN_MILLISECOND);
	}
}

/* The last ID may be ahead by 10 ms, which is no tick. */
static void test_reclaims(void)
{
	g_auto(Server) server;
	gint64 offset_ns, id;

	server_init_layout(&server, &SLOW);
	server.reclaim = TRUE;
	server.fake.registry.first_length_ms = server.fake.registry.max_length_ms = 60000;
	server_start(&server);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	/* until the keeper looks at the system's clock again */
	offset_ns = system_clock_offset_ns(&server.clock);
	system_clock_set_offset_ns(&server.clock, offset_ns + 3 * TICK_MS * CLOCK_NS_PER_MS);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_OK);
	FAKE_SET(&server.fake, worker_id, 4);
	WAIT_FOR(FAKE_GET(&server.fake, claims) == 2);
	g_assert_cmpuint(FAKE_GET(&server.fake, hand_backs), ==, 1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keeper-ticks/lengths", test_lengths);
	g_test_add_func("/keeper-ticks/reclaims", test_reclaims);
	return g_test_run();
}
