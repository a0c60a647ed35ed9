/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>
#include <string.h>

#include "common/zookeeper/znodes.h"

#define NONCE "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"

static void test_hosts(void)
{
	static const struct {
		const char *text;
		const char *servers;
		const char *root;
	} CASES[] = {
		{"a", "a:2181", "/snowflake"},
		{"a:1", "a:1", "/snowflake"},
		{"a:1/ids", "a:1", "/ids"},
		{"a,b:7,10.0.0.1/ids/of-us", "a:2181,b:7,10.0.0.1:2181", "/ids/of-us"},
		{" a:1 , b:2", "a:1,b:2", "/snowflake"},
		/* the client cuts the port off at the last colon, and knows no brackets */
		{"[::1]", "::1:2181", "/snowflake"},
		{"[::1]:7,a", "::1:7,a:2181", "/snowflake"},
		{"a/x.y/..z", "a:2181", "/x.y/..z"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(ZookeeperHosts) hosts = zookeeper_hosts_parse(CASES[i].text, &error);

		g_test_message("%s", CASES[i].text);
		g_assert_no_error(error);
		g_assert_cmpstr(hosts->servers, ==, CASES[i].servers);
		g_assert_cmpstr(hosts->root, ==, CASES[i].root);
		g_assert_cmpstr(hosts->text, ==, CASES[i].text);
	}
}

static void test_bad_hosts(void)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "no server of ZooKeeper is named"},
		{"/snowflake", "no server of ZooKeeper is named"},
		{"a,", "the host is missing"},
		{",a", "the host is missing"},
		{"a,,b", "the host is missing"},
		{":2181", "the host is missing"},
		{"a:", "the port is not a number"},
		{"a:0", "others cannot connect to this"},
		{"a:65536", "the port is not a number"},
		{"*:2181", "others cannot connect to this"},
		{"0.0.0.0", "others cannot connect to this"},
		{"::1:2181", "stands in brackets"},
		{"[::1", "the bracket is not closed"},
		{"a;b", "neither a name nor an IP address"},
		{"a/", "has a slash too many"},
		{"a//b", "has a slash too many"},
		{"a/b/", "has a slash too many"},
		{"a/b//c", "has a slash too many"},
		{"a/.", "has a \".\" in it"},
		{"a/b/../c", "has a \"..\" in it"},
		{"a/b c", "printable ASCII"},
		{"a/b\n", "\"/b\\x0a\""},
		{"a/\xc3\xa9", "printable ASCII"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", CASES[i].text);
		g_assert_null(zookeeper_hosts_parse(CASES[i].text, &error));
		g_assert_nonnull(error);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_null(zookeeper_hosts_parse(CASES[i].text, NULL));
	}
	zookeeper_hosts_free(NULL);
}

static void test_answers(void)
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

static void test_paths(void)
{
	const struct {
		char *path;
		const char *expected;
	} CASES[] = {
		{znode_layout("/s"), "/s/layout"},
		{znode_limits("/s"), "/s/limits"},
		{znode_datacenters("/s/t"), "/s/t/datacenters"},
		{znode_floor("/s", 7), "/s/datacenters/7/floor"},
		{znode_claims("/s", 0), "/s/datacenters/0/claims"},
		{znode_reservations("/s", 31), "/s/datacenters/31/reservations"},
		{znode_reservation("/s", 4294967295, 7),
		 "/s/datacenters/4294967295/reservations/7"},
		{znode_claim_prefix(NONCE), "claim-" NONCE "-"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *path = CASES[i].path;

		g_assert_cmpstr(path, ==, CASES[i].expected);
	}
}

/* What has a path is in a list, and nothing else: what is not is left open to anyone. */
static void test_lists(void)
{
	const struct {
		const char *const *names;
		char *paths[4];
	} CASES[] = {
		{ZNODES_OF_ROOT, {znode_layout(""), znode_limits(""), znode_datacenters("")}},
		{ZNODES_OF_DATACENTER,
		 {znode_floor("", 0), znode_claims("", 0), znode_reservations("", 0)}},
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

static void test_claim_names(void)
{
	static const struct {
		const char *name;
		gint64 sequence;
	} GOOD[] = {
		{"claim-" NONCE "-0000000000", 0},
		{"claim-" NONCE "-0000000042", 42},
		{"claim-" NONCE "-2147483647", G_MAXINT32},
		{"claim-" NONCE "--2147483648", G_MININT32},
		{"claim-" NONCE "--000000001", -1},
		{"claim-" NONCE "-9223372036854775807", G_MAXINT64},
		{"claim-F81D4FAE-7DEC-41D0-A765-00A0C91E6BF6-0000000001", 1},
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
		g_autofree char *nonce = NULL;
		gint64 sequence = 77;

		g_test_message("%s", GOOD[i].name);
		g_assert_true(znode_claim_parse_name(GOOD[i].name, &nonce, &sequence));
		g_assert_cmpint(sequence, ==, GOOD[i].sequence);
		g_assert_true(strstr(GOOD[i].name, nonce) == GOOD[i].name + strlen("claim-"));
		g_assert_cmpuint(strlen(nonce), ==, 36);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(BAD); i++) {
		char *nonce = NULL;
		gint64 sequence = 77;

		g_test_message("%s", BAD[i]);
		g_assert_false(znode_claim_parse_name(BAD[i], &nonce, &sequence));
		g_assert_null(nonce);
		g_assert_cmpint(sequence, ==, 77);
	}
}

static void test_numbers(void)
{
	static const struct {
		const char *name;
		guint max;
		gint number; /* -1: none */
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

#define CLAIM_REST "\"pid\":7,\"version\":\"0.2.0\",\"started\":\"2026-11-20T20:02:28.660Z\""
#define CLAIM      "{\"host\":\"::1\",\"port\":7609," CLAIM_REST

static void test_claim(void)
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

static void test_claim_holds(void)
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

/* A server of a later version says more, perhaps of kinds that are not known here. */
static void test_claim_may_say_more(void)
{
	static const char TEXT[] = CLAIM ",\"zone\":{\"a\":[1.5,null]},\"worker_id\":3}";
	g_auto(ClaimRecord) record = {0};

	g_assert_true(claim_record_from_json(TEXT, strlen(TEXT), &record, NULL));
	g_assert_cmpint(record.worker_id, ==, 3);
}

static void test_bad_claims(void)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object as"},
		{"{}", "\"host\" is missing"},
		{CLAIM "}x", "not a JSON object as"},
		{"{\"port\":7609," CLAIM_REST "}", "\"host\" is missing"},
		{"{\"host\":7,\"port\":7609," CLAIM_REST "}", "\"host\" is not a string"},
		{"{\"host\":\"a\"," CLAIM_REST "}", "\"port\" is missing"},
		{"{\"host\":\"a\",\"port\":\"7\"," CLAIM_REST "}", "\"port\" is not a whole"},
		{"{\"host\":\"a\",\"port\":0," CLAIM_REST "}", "\"port\" is 0"},
		{"{\"host\":\"a\",\"port\":65536," CLAIM_REST "}", "\"port\" is 65536"},
		{"{\"host\":\"a\",\"port\":7609}", "\"pid\" is missing"},
		{CLAIM ",\"worker_id\":-1}", "\"worker_id\" is -1"},
		{CLAIM ",\"worker_id\":2147483648}", "\"worker_id\" is 2147483648"},
		{CLAIM ",\"worker_id\":null}", "\"worker_id\" is not a whole"},
		{CLAIM ",\"worker_id\":1.5}", "\"worker_id\" is not a whole"},
		{CLAIM ",\"pid\":8}", "not a JSON object as"},
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
		g_autofree char *text =
			g_strdup_printf("{\"host\":\"a\",\"port\":1,\"pid\":1,\"version\":\"\","
					"\"started\":\"%s\"}",
					BAD_TIMES[i]);
		g_auto(ClaimRecord) record = {0};

		g_test_message("%s", BAD_TIMES[i]);
		g_assert_false(claim_record_from_json(text, strlen(text), &record, &error));
		g_assert_nonnull(strstr(error->message, "\"started\" is not a time"));
	}
}

#define LAYOUT                                                                                     \
	"{\"epoch_ms\":1288834974657,\"tick_ms\":1,\"time_bits\":41,\"datacenter_bits\":5,"        \
	"\"worker_bits\":5,\"sequence_bits\":12"

static void test_layout(void)
{
	static const char *const NAMES[] = {"twitter", "discord", "uid-generator"};

	for (gsize i = 0; i < G_N_ELEMENTS(NAMES); i++) {
		g_autoptr(GError) error = NULL;
		Layout layout;
		Layout again;

		g_assert_true(layout_parse(NAMES[i], &layout, NULL));

		g_autofree char *text = znode_layout_to_json(&layout);

		g_assert_true(znode_layout_from_json(text, strlen(text), &again, &error));
		g_assert_no_error(error);
		g_assert_true(layout_equal(&layout, &again));
		if (i == 0)
			g_assert_cmpstr(text, ==, LAYOUT "}");
	}
}

static void test_bad_layouts(void)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object as"},
		{"{}", "\"epoch_ms\" is missing"},
		{LAYOUT ",\"shard_bits\":0}", "more than the six fields"},
		{LAYOUT ",\"time_bits\":41}", "not a JSON object as"},
		{"{\"epoch_ms\":0,\"tick_ms\":0}", "\"tick_ms\" is 0"},
		{"{\"epoch_ms\":0,\"tick_ms\":1,\"time_bits\":64}", "\"time_bits\" is 64"},
		{"{\"epoch_ms\":0,\"tick_ms\":1,\"time_bits\":41,\"datacenter_bits\":5,"
		 "\"worker_bits\":5,\"sequence_bits\":11}",
		 "have 62 bits in all"},
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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/znodes/hosts", test_hosts);
	g_test_add_func("/znodes/hosts/bad", test_bad_hosts);
	g_test_add_func("/znodes/answers", test_answers);
	g_test_add_func("/znodes/paths", test_paths);
	g_test_add_func("/znodes/lists", test_lists);
	g_test_add_func("/znodes/claim-names", test_claim_names);
	g_test_add_func("/znodes/numbers", test_numbers);
	g_test_add_func("/znodes/claim", test_claim);
	g_test_add_func("/znodes/claim/may-say-more", test_claim_may_say_more);
	g_test_add_func("/znodes/claim/holds", test_claim_holds);
	g_test_add_func("/znodes/claim/bad", test_bad_claims);
	g_test_add_func("/znodes/layout", test_layout);
	g_test_add_func("/znodes/layout/bad", test_bad_layouts);
	return g_test_run();
}
