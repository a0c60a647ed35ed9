/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/reservation-record.h"
#include "tests/unit/unit-test.h"

#define NONCE "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"

TEST("/reservation-record/good", test_good)
{
	static const struct {
		const char *text;
		gint64 end_tick;
		const char *owner;
	} CASES[] = {
		{"{\"reserved_until_tick\":0,\"owner\":\"\",\"address\":\"\"}", 0, ""},
		{"{\"reserved_until_tick\":506369973996,\"owner\":\"" NONCE "\",\"address\":\"\"}",
		 506369973996, NONCE},
		{"{\"reserved_until_tick\":999999999999999999,\"owner\":\"\",\"address\":\"\"}",
		 999999999999999999, ""},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_auto(ReservationRecord) record = {0};
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_true(reservation_record_from_json(text, strlen(text), &record, &error));
		g_assert_no_error(error);
		g_assert_cmpint(record.end_tick, ==, CASES[i].end_tick);
		g_assert_cmpstr(record.owner, ==, CASES[i].owner);
		g_assert_cmpstr(record.address, ==, "");

		g_autofree char *written = reservation_record_to_json(&record);

		g_assert_cmpstr(written, ==, text);
	}
}

/* A later version can add members that this one ignores. */
TEST("/reservation-record/more-members", test_more_members)
{
	static const char TEXT[] = "{\"reserved_until_tick\":5,\"zone\":[1.5],\"owner\":\"\","
				   "\"address\":\"\",\"format\":1}";
	g_auto(ReservationRecord) record = {0};

	g_assert_true(reservation_record_from_json(TEXT, strlen(TEXT), &record, NULL));
	g_assert_cmpint(record.end_tick, ==, 5);
}

TEST("/reservation-record/bad", test_bad)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "not a JSON object of"},
		{"0", "not a JSON object of"},
		{"{}", "\"reserved_until_tick\" is missing"},
		{"{\"owner\":\"\",\"address\":\"\"}", "\"reserved_until_tick\" is missing"},
		{"{\"reserved_until_tick\":5,\"address\":\"\"}", "\"owner\" is missing"},
		{"{\"reserved_until_tick\":5,\"owner\":\"\"}", "\"address\" is missing"},
		{"{\"reserved_until_tick\":5,\"owner\":null,\"address\":\"\"}",
		 "\"owner\" is not a string"},
		{"{\"reserved_until_tick\":5,\"owner\":\"\",\"address\":7}",
		 "\"address\" is not a string"},
		{"{\"reserved_until_tick\":-1,\"owner\":\"\",\"address\":\"\"}",
		 "\"reserved_until_tick\" is -1, not from 0"},
		{"{\"reserved_until_tick\":5.5,\"owner\":\"\",\"address\":\"\"}",
		 "\"reserved_until_tick\" is not a whole"},
		{"{\"reserved_until_tick\":1e3,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":\"5\",\"owner\":\"\",\"address\":\"\"}",
		 "\"reserved_until_tick\" is not a whole"},
		{"{\"reserved_until_tick\":010,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":9223372036854775808,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":5,\"owner\":\"\",\"address\":\"\"}}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":0506475077573,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":0x10,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":50 6,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{/* */\"reserved_until_tick\":5,\"owner\":\"\",\"address\":\"\"}",
		 "not a JSON object of"},
		{"{\"reserved_until_tick\":5,\"owner\":\"\",\"address\":\"\",\"format\":2}",
		 "has format 2"},
		{"{\"reserved_until_tick\":5,\"reserved_until_tick\":6,\"owner\":\"\","
		 "\"address\":\"\"}",
		 "not a JSON object of"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		ReservationRecord record = {.end_tick = 77};
		const char *text = CASES[i].text;

		g_test_message("%s", text);
		g_assert_false(reservation_record_from_json(text, strlen(text), &record, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_cmpint(record.end_tick, ==, 77);
		g_assert_null(record.owner);
	}
	/* a record with a NUL after it is refused too */
	g_assert_false(reservation_record_from_json(
		"{\"reserved_until_tick\":5,\"owner\":\"\",\"address\":\"\"}", 50,
		&(ReservationRecord){0}, NULL));
}

/* json-glib recurses once per level, but the maximum size of a record limits the levels. */
TEST("/reservation-record/nested", test_nested)
{
	static const gsize DEPTHS[] = {4000, 4097, 100000};

	for (gsize i = 0; i < G_N_ELEMENTS(DEPTHS); i++) {
		g_autofree char *text = g_strnfill(DEPTHS[i], '[');
		ReservationRecord record;

		g_assert_false(reservation_record_from_json(text, DEPTHS[i], &record, NULL));
	}
}
