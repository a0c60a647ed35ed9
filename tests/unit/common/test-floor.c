/* SPDX-License-Identifier: Apache-2.0 */

/* The floor of a datacenter, and the limits that it is computed from. */

#include <string.h>

#include "common/zookeeper/znodes.h"

#define LIMITS "{\"max_clock_skew_ms\":10000,\"reservation_ms\":600000"

static void test_limits(void)
{
	static const ZnodeLimits CASES[] = {{1, 1}, {10000, 600000}, {3600000, 86400000}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *text = znode_limits_to_json(&CASES[i]);
		g_autoptr(GError) error = NULL;
		ZnodeLimits limits;

		g_assert_true(znode_limits_from_json(text, strlen(text), &limits, &error));
		g_assert_no_error(error);
		g_assert_cmpint(limits.max_clock_skew_ms, ==, CASES[i].max_clock_skew_ms);
		g_assert_cmpint(limits.reservation_ms, ==, CASES[i].reservation_ms);
		if (i == 1)
			g_assert_cmpstr(text, ==, LIMITS "}");
	}
}

static void test_bad_limits(void)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object as"},
		{"{}", "\"max_clock_skew_ms\" is missing"},
		{"{\"max_clock_skew_ms\":10000}", "\"reservation_ms\" is missing"},
		{"{\"max_clock_skew_ms\":0,\"reservation_ms\":1}", "\"max_clock_skew_ms\" is 0"},
		{"{\"max_clock_skew_ms\":3600001,\"reservation_ms\":1}", "3600001"},
		{"{\"max_clock_skew_ms\":1,\"reservation_ms\":0}", "\"reservation_ms\" is 0"},
		{"{\"max_clock_skew_ms\":1,\"reservation_ms\":86400001}", "86400001"},
		{"{\"max_clock_skew_ms\":1,\"reservation_ms\":\"1\"}", "not a whole"},
		{LIMITS ",\"more\":1}", "more than the two fields"},
		{LIMITS "}x", "not a JSON object as"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		ZnodeLimits limits = {77, 78};
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_false(znode_limits_from_json(text, strlen(text), &limits, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_cmpint(limits.max_clock_skew_ms, ==, 77);
		g_assert_cmpint(limits.reservation_ms, ==, 78);
	}
}

static void test_floor(void)
{
	const gint64 last = layout_max_tick(&LAYOUT_TWITTER);
	const ZnodeFloor CASES[] = {
		{0, 0}, {1, 0}, {506369973996, 506369363996}, {last, 0}, {last, last}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *text = znode_floor_to_json(&CASES[i]);
		g_autoptr(GError) error = NULL;
		ZnodeFloor floor;

		g_assert_true(
			znode_floor_from_json(text, strlen(text), &LAYOUT_TWITTER, &floor, &error));
		g_assert_no_error(error);
		g_assert_cmpint(floor.tick, ==, CASES[i].tick);
		g_assert_cmpint(floor.clock_tick, ==, CASES[i].clock_tick);
		if (i == 1)
			g_assert_cmpstr(text, ==, "{\"floor_tick\":1,\"clock_tick\":0}");
	}
}

static void test_bad_floors(void)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object as"},
		{"{}", "\"floor_tick\" is missing"},
		{"{\"floor_tick\":5}", "\"clock_tick\" is missing"},
		{"{\"floor_tick\":-1,\"clock_tick\":0}", "\"floor_tick\" is -1"},
		{"{\"floor_tick\":2199023255552,\"clock_tick\":0}",
		 "\"floor_tick\" is 2199023255552"},
		{"{\"floor_tick\":\"5\",\"clock_tick\":0}", "not a whole"},
		{"{\"floor_tick\":1.5,\"clock_tick\":0}", "not a whole"},
		{"{\"floor_tick\":5,\"clock_tick\":-1}", "\"clock_tick\" is -1"},
		{"{\"floor_tick\":5,\"clock_tick\":6}", "\"clock_tick\" is 6"},
		{"{\"floor_tick\":5,\"clock_tick\":5,\"more\":1}",
		 "more than the two fields of a floor"},
		{"{\"floor_tick\":5,\"clock_tick\":0,\"floor_tick\":0}", "not a JSON object as"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		const char *text = CASES[i].text;
		ZnodeFloor floor = {77, 78};

		g_test_message("%s", text);
		g_assert_false(
			znode_floor_from_json(text, strlen(text), &LAYOUT_TWITTER, &floor, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_cmpint(floor.tick, ==, 77);
		g_assert_cmpint(floor.clock_tick, ==, 78);
	}
}

/* A claim says how long it outlives its server. */
static void test_session_timeout(void)
{
	static const struct {
		const char *more;
		gboolean good;
		gint64 timeout_ms;
	} CASES[] = {
		{"", TRUE, 0},
		{",\"session_timeout_ms\":1", TRUE, 1},
		{",\"session_timeout_ms\":60000", TRUE, 60000},
		{",\"session_timeout_ms\":0", FALSE, 0},
		{",\"session_timeout_ms\":-1", FALSE, 0},
		{",\"session_timeout_ms\":2147483648", FALSE, 0},
		{",\"session_timeout_ms\":\"1\"", FALSE, 0},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *text = g_strdup_printf(
			"{\"host\":\"a\",\"port\":1,\"pid\":1,\"version\":\"0\","
			"\"started\":\"2026-11-20T20:02:28.660Z\",\"worker_id\":3%s}",
			CASES[i].more);
		g_auto(ClaimRecord) record = {0};
		g_autofree char *written = NULL;

		g_test_message("%s", text);
		g_assert_cmpint(claim_record_from_json(text, strlen(text), &record, NULL), ==,
				CASES[i].good);
		g_assert_cmpint(record.session_timeout_ms, ==, CASES[i].timeout_ms);
		if (!CASES[i].good)
			continue;
		written = claim_record_to_json(&record);
		g_assert_cmpstr(written, ==, text);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/floor/limits", test_limits);
	g_test_add_func("/floor/limits/bad", test_bad_limits);
	g_test_add_func("/floor/floor", test_floor);
	g_test_add_func("/floor/floor/bad", test_bad_floors);
	g_test_add_func("/floor/session-timeout", test_session_timeout);
	return g_test_run();
}
