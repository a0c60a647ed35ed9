/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znodes.h"
#include "tests/unit/unit-test.h"

#include <string.h>

#define NONCE "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"

TEST("/znodes/answers", test_answers)
{
	char *names[] = {(char *)"a", (char *)"b", NULL};

	g_assert_true(znode_names_make_sense(0, NULL));
	g_assert_true(znode_names_make_sense(2, names));
	g_assert_false(znode_names_make_sense(3, names));
	g_assert_false(znode_names_make_sense(1, NULL));
	g_assert_false(znode_names_make_sense(-1, names));
	g_assert_false(znode_names_make_sense(G_MININT, names));
	g_assert_false(znode_names_make_sense(1000001, names));

	g_assert_true(znode_data_make_sense(-1, NULL));
	g_assert_true(znode_data_make_sense(0, NULL));
	g_assert_true(znode_data_make_sense(8 << 20, "x"));
	g_assert_false(znode_data_make_sense((8 << 20) + 1, "x"));
	g_assert_false(znode_data_make_sense(1, NULL));
	g_assert_false(znode_data_make_sense(-2, "x"));
	g_assert_false(znode_data_make_sense(G_MININT, NULL));
}

TEST("/znodes/paths", test_paths)
{
	const struct {
		char *path;
		const char *expected;
	} CASES[] = {
		{znode_in_root("/s", ZNODES_LAYOUT), "/s/layout"},
		{znode_in_root("/s", ZNODES_LIMITS), "/s/limits"},
		{znode_in_root("/s/t", ZNODES_DATACENTERS), "/s/t/datacenters"},
		{znode_in_datacenter("/s", 7, ZNODES_FLOOR), "/s/datacenters/7/floor"},
		{znode_in_datacenter("/s", 0, ZNODES_CLAIMS), "/s/datacenters/0/claims"},
		{znode_in_datacenter("/s", 31, ZNODES_RESERVATIONS),
		 "/s/datacenters/31/reservations"},
		{znode_reservation("/s", 4294967295, 7),
		 "/s/datacenters/4294967295/reservations/7"},
		{znode_claim_prefix(NONCE), "claim-" NONCE "-"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *path = CASES[i].path;

		g_assert_cmpstr(path, ==, CASES[i].expected);
	}
}

/* The lists contain exactly the znodes with a path: a znode missing here would stay writable for
 * anyone. */
TEST("/znodes/lists", test_lists)
{
	const struct {
		const char *const *names;
		char *paths[5];
	} CASES[] = {
		{ZNODES_OF_ROOT,
		 {znode_in_root("", ZNODES_REGISTRY), znode_in_root("", ZNODES_LAYOUT),
		  znode_in_root("", ZNODES_LIMITS), znode_in_root("", ZNODES_DATACENTERS)}},
		{ZNODES_OF_DATACENTER,
		 {znode_in_datacenter("", 0, ZNODES_FLOOR),
		  znode_in_datacenter("", 0, ZNODES_CLAIMS),
		  znode_in_datacenter("", 0, ZNODES_RESERVATIONS)}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		gsize n = 0;

		for (; CASES[i].paths[n] != NULL; n++) {
			g_autofree char *path = CASES[i].paths[n];

			g_test_message("%s", path);
			g_assert_true(g_strv_contains(CASES[i].names, strrchr(path, '/') + 1));
		}
		g_assert_cmpuint(g_strv_length((char **)CASES[i].names), ==, n);
	}
}

TEST("/znodes/claim-names", test_claim_names)
{
	static const char *const GOOD[] = {
		"claim-" NONCE "-0000000000",
		"claim-" NONCE "-0000000042",
		"claim-" NONCE "-2147483647",
		"claim-" NONCE "--2147483648",
		"claim-" NONCE "--000000001",
		"claim-" NONCE "-9223372036854775807",
		"claim-F81D4FAE-7DEC-41D0-A765-00A0C91E6BF6-0000000001",
	};
	static const char *const BAD[] = {
		"",
		"claim-",
		"claim-" NONCE,
		"claim-" NONCE "-",
		"claim-" NONCE "-7",
		"claim-" NONCE "-000000007",
		"claim-" NONCE "-00000000x7",
		"claim-" NONCE "-+000000007",
		"claim-" NONCE "- 000000007",
		"claim-" NONCE "-0000000007 ",
		"claim-" NONCE "---00000007",
		"claim-" NONCE "-0000000007-1",
		"claim-" NONCE "-9223372036854775808",
		"claim-" NONCE "_0000000007",
		"Claim-" NONCE "-0000000007",
		"lease-" NONCE "-0000000007",
		"claim-81d4fae-7dec-41d0-a765-00a0c91e6bf6-0000000007",
		"claim-g81d4fae-7dec-41d0-a765-00a0c91e6bf6-0000000007",
		"claim-f81d4fae07dec-41d0-a765-00a0c91e6bf6-0000000007",
	};

	for (gsize i = 0; i < G_N_ELEMENTS(GOOD); i++) {
		g_autofree char *nonce = znode_claim_nonce(GOOD[i]);

		g_test_message("%s", GOOD[i]);
		g_assert_nonnull(nonce);
		g_assert_true(strstr(GOOD[i], nonce) == GOOD[i] + strlen("claim-"));
		g_assert_cmpuint(strlen(nonce), ==, 36);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(BAD); i++) {
		g_test_message("%s", BAD[i]);
		g_assert_null(znode_claim_nonce(BAD[i]));
	}
}

TEST("/znodes/numbers", test_numbers)
{
	static const struct {
		const char *name;
		guint max;
		gint number; /* -1 if none */
	} CASES[] = {
		{"0", 31, 0},
		{"31", 31, 31},
		{"32", 31, -1},
		{"0", 0, 0},
		{"1", 0, -1},
		{"00", 31, -1},
		{"01", 31, -1},
		{"-1", 31, -1},
		{"+1", 31, -1},
		{" 1", 31, -1},
		{"1 ", 31, -1},
		{"1x", 31, -1},
		{"", 31, -1},
		{"x", 31, -1},
		{"0x1", 31, -1},
		{"2147483647", G_MAXINT, G_MAXINT},
		{"99999999999999999999", G_MAXUINT, -1},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		guint number = 77;
		gboolean good = znode_parse_number(CASES[i].name, CASES[i].max, &number);

		g_test_message("%s", CASES[i].name);
		g_assert_true(good == (CASES[i].number >= 0));
		g_assert_cmpuint(number, ==, good ? (guint)CASES[i].number : 77);
	}
}

#define LAYOUT                                                                                     \
	"{\"epoch_ms\":1288834974657,\"tick_ms\":1,\"time_bits\":41,\"datacenter_bits\":5,"        \
	"\"worker_bits\":5,\"sequence_bits\":12"

TEST("/znodes/layout", test_layout)
{
	for (gsize i = 0; LAYOUT_PRESETS[i].name != NULL; i++) {
		const Layout *layout = LAYOUT_PRESETS[i].layout;
		g_autofree char *text = znode_layout_to_json(layout);
		g_autoptr(GError) error = NULL;
		Layout again;

		g_assert_true(znode_layout_from_json(text, strlen(text), &again, &error));
		g_assert_no_error(error);
		g_assert_true(layout_equal(layout, &again));
		if (layout == &LAYOUT_TWITTER)
			g_assert_cmpstr(text, ==, LAYOUT "}");
		g_assert_true((strstr(text, ",\"total_bits\":53}") != NULL) ==
			      (strcmp(LAYOUT_PRESETS[i].name, "js-safe") == 0));
	}
}

TEST("/znodes/layout/bad", test_bad_layouts)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object of"},
		{"{}", "\"epoch_ms\" is missing"},
		{LAYOUT ",\"format\":2}", "has format 2"},
		{LAYOUT ",\"format\":0}", "\"format\" is 0"},
		{LAYOUT ",\"total_bits\":62}", "have 63 bits in total, but must have 62"},
		{LAYOUT ",\"total_bits\":64}", "\"total_bits\" is 64"},
		{LAYOUT ",\"total_bits\":\"63\"}", "\"total_bits\" is not"},
		{LAYOUT ",\"total_bits\":63,\"format\":\"1\"}", "\"format\" is not"},
		{LAYOUT ",\"time_bits\":41}", "not a JSON object of"},
		{"{\"epoch_ms\":0,\"tick_ms\":0}", "\"tick_ms\" is 0"},
		{"{\"epoch_ms\":0,\"tick_ms\":1,\"time_bits\":64}", "\"time_bits\" is 64"},
		{"{\"epoch_ms\":0,\"tick_ms\":1,\"time_bits\":41,\"datacenter_bits\":5,"
		 "\"worker_bits\":5,\"sequence_bits\":11}",
		 "have 62 bits in total"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		Layout layout = {.tick_ms = 77};
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_false(znode_layout_from_json(text, strlen(text), &layout, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_cmpint(layout.tick_ms, ==, 77);
	}
}

#define ID       "6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55"
#define REGISTRY "{\"id\":\"" ID "\""

TEST("/znodes/registry", test_registry)
{
	const ZnodeHistory none = znode_history_of(NULL), some = znode_history_of("some");
	g_autofree char *text = znode_registry_to_json(ID, &none);
	g_autofree char *id = znode_registry_from_json(text, strlen(text), NULL);
	g_autofree char *with_history = znode_registry_to_json(ID, &some);
	ZnodeHistory read = znode_registry_history(with_history, strlen(with_history));

	g_assert_true(znode_history_equal(&read, &some));
	read = znode_registry_history(text, strlen(text));
	g_assert_true(znode_history_equal(&read, &none));

	g_assert_cmpstr(text, ==, REGISTRY "}");
	g_assert_cmpstr(id, ==, ID);
}

TEST("/znodes/registry/bad", test_bad_registry)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object of"},
		{"{}", "\"id\" is missing"},
		{"{\"id\":1}", "\"id\" is"},
		{"{\"id\":\"\"}", "not a UUID"},
		{"{\"id\":\"" ID "0\"}", "not a UUID"},
		{REGISTRY ",\"format\":2}", "has format 2"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_null(znode_registry_from_json(text, strlen(text), &error));
		g_assert_nonnull(error);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
	}
}

#define LIMITS "{\"max_clock_skew_ms\":10000,\"reservation_ms\":600000"

TEST("/znodes/limits", test_limits)
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

TEST("/znodes/limits/bad", test_bad_limits)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object of"},
		{"{}", "\"max_clock_skew_ms\" is missing"},
		{"{\"max_clock_skew_ms\":10000}", "\"reservation_ms\" is missing"},
		{"{\"max_clock_skew_ms\":0,\"reservation_ms\":1}", "\"max_clock_skew_ms\" is 0"},
		{"{\"max_clock_skew_ms\":3600001,\"reservation_ms\":1}", "3600001"},
		{"{\"max_clock_skew_ms\":1,\"reservation_ms\":0}", "\"reservation_ms\" is 0"},
		{"{\"max_clock_skew_ms\":1,\"reservation_ms\":86400001}", "86400001"},
		{"{\"max_clock_skew_ms\":1,\"reservation_ms\":\"1\"}", "not a whole"},
		{LIMITS ",\"format\":2}", "has format 2"},
		{LIMITS "}x", "not a JSON object of"},
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

TEST("/znodes/floor", test_floor)
{
	const gint64 last = layout_max_tick(&LAYOUT_TWITTER);
	const ZnodeFloor CASES[] = {
		{0, 0, {""}},
		{1, 0, {""}},
		{506369973996, 506369363996, {"7713611562812280915/00000002/16420"}},
		{last, 0, {""}},
		{last, last, {"h"}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *text = znode_floor_to_json(&CASES[i]);
		g_autoptr(GError) error = NULL;
		ZnodeFloor floor;

		g_assert_true(
			znode_floor_from_json(text, strlen(text), &LAYOUT_TWITTER, &floor, &error));
		g_assert_no_error(error);
		g_assert_cmpint(floor.tick, ==, CASES[i].tick);
		g_assert_cmpint(floor.clock_tick, ==, CASES[i].clock_tick);
		g_assert_true(znode_history_equal(&floor.history, &CASES[i].history));
		if (i == 1)
			g_assert_cmpstr(text, ==, "{\"floor_tick\":1,\"clock_tick\":0}");
	}
}

TEST("/znodes/floor/bad", test_bad_floors)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object of"},
		{"{}", "\"floor_tick\" is missing"},
		{"{\"floor_tick\":5}", "\"clock_tick\" is missing"},
		{"{\"floor_tick\":-1,\"clock_tick\":0}", "\"floor_tick\" is -1"},
		{"{\"floor_tick\":2199023255552,\"clock_tick\":0}",
		 "\"floor_tick\" is 2199023255552"},
		{"{\"floor_tick\":\"5\",\"clock_tick\":0}", "not a whole"},
		{"{\"floor_tick\":1.5,\"clock_tick\":0}", "not a whole"},
		{"{\"floor_tick\":5,\"clock_tick\":-1}", "\"clock_tick\" is -1"},
		{"{\"floor_tick\":5,\"clock_tick\":6}", "\"clock_tick\" is 6"},
		{"{\"floor_tick\":5,\"clock_tick\":5,\"format\":2}", "has format 2"},
		{"{\"floor_tick\":5,\"clock_tick\":5,\"history\":2}", "\"history\" is"},
		{"{\"floor_tick\":5,\"clock_tick\":5,\"history\":\"7777777777777777"
		 "777777777777777777777777777777777777777777777777\"}",
		 "\"history\" is too long"},
		{"{\"floor_tick\":5,\"clock_tick\":0,\"floor_tick\":0}", "not a JSON object of"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		const char *text = CASES[i].text;
		ZnodeFloor floor = {77, 78, {""}};

		g_test_message("%s", text);
		g_assert_false(
			znode_floor_from_json(text, strlen(text), &LAYOUT_TWITTER, &floor, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_cmpint(floor.tick, ==, 77);
		g_assert_cmpint(floor.clock_tick, ==, 78);
	}
}

#define CLAIM_REST "\"pid\":7,\"version\":\"0.2.0\",\"started\":\"2026-11-20T20:02:28.660Z\""
#define SERVER     "{\"kind\":\"server\","
#define CLAIM      SERVER "\"host\":\"::1\",\"port\":7609," CLAIM_REST

TEST("/znodes/claim/good", test_good_claims)
{
	static const struct {
		const char *text;
		gint worker_id;
	} CASES[] = {
		{CLAIM "}", -1},
		{CLAIM ",\"worker_id\":0}", 0},
		{CLAIM ",\"worker_id\":31}", 31},
		{CLAIM ",\"worker_id\":2147483647}", G_MAXINT},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_auto(ClaimRecord) record = {0};
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_true(claim_record_from_json(text, strlen(text), &record, &error));
		g_assert_no_error(error);
		g_assert_cmpstr(record.host, ==, "::1");
		g_assert_cmpuint(record.port, ==, 7609);
		g_assert_cmpint(record.pid, ==, 7);
		g_assert_cmpstr(record.version, ==, "0.2.0");
		g_assert_cmpint(record.started_ms, ==, 1795204948660);
		g_assert_cmpint(record.worker_id, ==, CASES[i].worker_id);

		g_autofree char *written = claim_record_to_json(&record);

		g_assert_cmpstr(written, ==, text);
	}
}

/* An embedded node has no port and cannot be called. */
TEST("/znodes/claim/embedded", test_embedded)
{
	static const char TEXT[] =
		"{\"kind\":\"embedded\",\"program\":\"shop\",\"host\":\"a.example\"," CLAIM_REST
		"}";
	g_auto(ClaimRecord) record = {0};
	g_autofree char *address = NULL;
	g_autofree char *written = NULL;

	g_assert_true(claim_record_from_json(TEXT, strlen(TEXT), &record, NULL));
	g_assert_cmpstr(record.program, ==, "shop");
	g_assert_cmpstr(record.host, ==, "a.example");
	g_assert_cmpuint(record.port, ==, 0);
	address = claim_record_address(&record);
	g_assert_cmpstr(address, ==, "shop@a.example");
	written = claim_record_to_json(&record);
	g_assert_cmpstr(written, ==, TEXT);
}

TEST("/znodes/claim/holds", test_holds)
{
	static const struct {
		gint claimed;
		const char *owner;
		guint worker_id;
		gboolean holds;
	} CASES[] = {
		{-1, NONCE, 0, TRUE},  {-1, NONCE, 31, TRUE}, {0, NONCE, 0, TRUE},
		{31, NONCE, 31, TRUE}, {0, NONCE, 31, FALSE}, {31, NONCE, 0, FALSE},
		{31, "", 31, FALSE},   {-1, "", 31, FALSE},   {31, NONCE "0", 31, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const ClaimRecord claim = {.worker_id = CASES[i].claimed};
		const ReservationRecord reservation = {.owner = (char *)CASES[i].owner};

		g_test_message("%" G_GSIZE_FORMAT, i);
		g_assert_cmpint(claim_record_holds(&claim, NONCE, &reservation, CASES[i].worker_id),
				==, CASES[i].holds);
	}
}

/* A later version can add members that this one ignores, of types that it does not use. */
#define MORE ",\"format\":1,\"zone\":{\"a\":[1.5,null]}"

TEST("/znodes/more-members", test_more_members)
{
	static const char CLAIM_TEXT[] = CLAIM MORE ",\"worker_id\":3}";
	static const char FLOOR_TEXT[] = "{\"floor_tick\":5,\"clock_tick\":4" MORE "}";
	g_auto(ClaimRecord) claim = {0};
	g_autofree char *id =
		znode_registry_from_json(REGISTRY MORE "}", strlen(REGISTRY MORE "}"), NULL);
	ZnodeLimits limits;
	ZnodeFloor floor;
	Layout layout;

	g_assert_cmpstr(id, ==, ID);
	g_assert_true(claim_record_from_json(CLAIM_TEXT, strlen(CLAIM_TEXT), &claim, NULL));
	g_assert_cmpint(claim.worker_id, ==, 3);
	g_assert_true(
		znode_layout_from_json(LAYOUT MORE "}", strlen(LAYOUT MORE "}"), &layout, NULL));
	g_assert_true(layout_equal(&layout, &LAYOUT_TWITTER));
	g_assert_true(
		znode_limits_from_json(LIMITS MORE "}", strlen(LIMITS MORE "}"), &limits, NULL));
	g_assert_cmpint(limits.reservation_ms, ==, 600000);
	g_assert_true(znode_floor_from_json(FLOOR_TEXT, strlen(FLOOR_TEXT), &LAYOUT_TWITTER, &floor,
					    NULL));
	g_assert_cmpint(floor.tick, ==, 5);
}

TEST("/znodes/claim/bad", test_bad_claims)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object of"},
		{"{}", "\"port\" is missing"},
		{"{\"kind\":7}", "\"kind\" is not a string"},
		{"{\"kind\":\"server\"}", "\"port\" is missing"},
		{"{\"kind\":\"relay\",\"port\":1}", "\"kind\" is neither server nor embedded"},
		{"{\"kind\":\"embedded\",\"host\":\"a\"," CLAIM_REST "}", "\"program\" is missing"},
		{"{\"kind\":\"embedded\",\"program\":\"a\"," CLAIM_REST "}", "\"host\" is missing"},
		{CLAIM "}x", "not a JSON object of"},
		{SERVER "\"port\":7609," CLAIM_REST "}", "\"host\" is missing"},
		{SERVER "\"host\":7,\"port\":7609," CLAIM_REST "}", "\"host\" is not a string"},
		{SERVER "\"host\":\"a\"," CLAIM_REST "}", "\"port\" is missing"},
		{SERVER "\"host\":\"a\",\"port\":\"7\"," CLAIM_REST "}", "\"port\" is not a whole"},
		{SERVER "\"host\":\"a\",\"port\":0," CLAIM_REST "}", "\"port\" is 0"},
		{SERVER "\"host\":\"a\",\"port\":65536," CLAIM_REST "}", "\"port\" is 65536"},
		{SERVER "\"host\":\"a\",\"port\":7609}", "\"pid\" is missing"},
		{CLAIM ",\"worker_id\":-1}", "\"worker_id\" is -1"},
		{CLAIM ",\"worker_id\":2147483648}", "\"worker_id\" is 2147483648"},
		{CLAIM ",\"worker_id\":null}", "\"worker_id\" is not a whole"},
		{CLAIM ",\"worker_id\":1.5}", "\"worker_id\" is not a whole"},
		{CLAIM ",\"pid\":8}", "not a JSON object of"},
	};
	static const char *const BAD_TIMES[] = {
		"",
		"now",
		"2026-11-20T20:02:28Z",
		"2026-11-20T20:02:28.6600Z",
		"2026-11-20T20:02:28.660+00:00",
		"2026-11-20T20:02:28.660",
		"2026-11-20 20:02:28.660Z",
		"2026-13-20T20:02:28.660Z",
		"2026-W47-5T20:02:28.660Z",
		"1969-12-31T23:59:59.999Z",
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		ClaimRecord record = {.pid = 77};
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_false(claim_record_from_json(text, strlen(text), &record, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_cmpint(record.pid, ==, 77);
		g_assert_null(record.host);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(BAD_TIMES); i++) {
		g_autoptr(GError) error = NULL;
		g_autofree char *text = g_strdup_printf(
			SERVER "\"host\":\"a\",\"port\":1,\"pid\":1,\"version\":\"\","
			       "\"started\":\"%s\"}",
			BAD_TIMES[i]);
		g_auto(ClaimRecord) record = {0};

		g_test_message("%s", BAD_TIMES[i]);
		g_assert_false(claim_record_from_json(text, strlen(text), &record, &error));
		g_assert_nonnull(strstr(error->message, "\"started\" is not a time"));
	}
}

/* A claim says how long it outlives its server. */
TEST("/znodes/claim/session-timeout", test_session_timeout)
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
			SERVER "\"host\":\"a\",\"port\":1,\"pid\":1,\"version\":\"0\","
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

#define READ   1
#define WRITE  2
#define CREATE 4
#define DELETE 8
#define ADMIN  16
#define ALL    31

TEST("/znodes/acl/open", test_open)
{
	static const struct {
		const char *scheme;
		gint permissions;
		gboolean open;
	} CASES[] = {
		{"world", ALL, TRUE},   {"world", READ, FALSE},         {"world", 0, FALSE},
		{"world", WRITE, TRUE}, {"world", CREATE, TRUE},        {"world", DELETE, TRUE},
		{"world", ADMIN, TRUE}, {"world", READ | DELETE, TRUE}, {"digest", ALL, FALSE},
		{"ip", ALL, FALSE},     {"sasl", WRITE | ADMIN, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_test_message("%s %d", CASES[i].scheme, CASES[i].permissions);
		g_assert_cmpint(znode_acl_is_open(CASES[i].scheme, CASES[i].permissions), ==,
				CASES[i].open);
	}
}

/* The identities equal those of ZooKeeper's DigestAuthenticationProvider. */
TEST("/znodes/acl/identity", test_identity)
{
	static const struct {
		const char *auth;
		const char *identity;
	} CASES[] = {
		{"super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="},
		{"cluster:s3cret:with:colons", "cluster:8nvrCoLpqqvUM3fNEGfSTej38Bs="},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *identity = znode_acl_identity(CASES[i].auth);

		g_assert_cmpstr(identity, ==, CASES[i].identity);
	}
}
