/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znodes.h"
#include "tests/unit/unit-test.h"

#include <string.h>

#define NONCE "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"

#define CLAIM_REST "\"pid\":7,\"version\":\"0.2.0\",\"started\":\"2026-11-20T20:02:28.660Z\""
#define SERVER     "{\"kind\":\"server\","
#define CLAIM      SERVER "\"host\":\"::1\",\"port\":7609," CLAIM_REST

TEST("/claim-record/good", test_good)
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

/* It has no port, and nobody can call it. */
TEST("/claim-record/embedded", test_embedded)
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

TEST("/claim-record/holds", test_holds)
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
TEST("/claim-record/more-members", test_more_members)
{
	static const char TEXT[] = CLAIM ",\"zone\":{\"a\":[1.5,null]},\"worker_id\":3}";
	g_auto(ClaimRecord) record = {0};

	g_assert_true(claim_record_from_json(TEXT, strlen(TEXT), &record, NULL));
	g_assert_cmpint(record.worker_id, ==, 3);
}

TEST("/claim-record/bad", test_bad)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object as"},
		{"{}", "\"kind\" is missing"},
		{"{\"kind\":\"server\"}", "\"port\" is missing"},
		{"{\"kind\":\"relay\",\"port\":1}", "\"kind\" is neither server nor embedded"},
		{"{\"kind\":\"embedded\",\"host\":\"a\"," CLAIM_REST "}", "\"program\" is missing"},
		{"{\"kind\":\"embedded\",\"program\":\"a\"," CLAIM_REST "}", "\"host\" is missing"},
		{CLAIM "}x", "not a JSON object as"},
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
TEST("/claim-record/session-timeout", test_session_timeout)
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
