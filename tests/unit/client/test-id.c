/* SPDX-License-Identifier: Apache-2.0 */

/* Tests the installed header and the shared library. The tests in tests/unit/core check the vectors
 * and the edges. */

#include "client/snowflake-id.h"

#include <string.h>

#include "tests/unit/unit-test.h"

#define ROUNDS    2000
#define UNTOUCHED (-7)
#define ID        G_GINT64_CONSTANT(1724551110456385539)
#define TIME_MS   G_GINT64_CONSTANT(1700000000000)
#define ULID      "01ARYZ6S41TSV4RRFFQ69G5FAV"
#define ULID_MS   G_GINT64_CONSTANT(1469918176385)
#define ULID_UUID "01563df3-6481-d676-4c61-efb99302bd5b"

static SnowflakeLayout *new_layout(const char *text)
{
	g_autoptr(GError) error = NULL;
	SnowflakeLayout *layout = snowflake_layout_new(text, &error);

	g_assert_no_error(error);
	return layout;
}

static gint64 random_id(guint bits)
{
	return (gint64)(((guint64)g_test_rand_int() << 32 | (guint32)g_test_rand_int()) &
			((G_GUINT64_CONSTANT(1) << bits) - 1));
}

static void assert_refused(gboolean done, SnowflakeIdError code, GError **error)
{
	g_assert_false(done);
	g_assert_error(*error, SNOWFLAKE_ID_ERROR, (gint)code);
	g_clear_error(error);
}

TEST("/id/parts", test_parts)
{
	g_autoptr(SnowflakeLayout) layout = new_layout("twitter");
	g_autofree char *text = snowflake_layout_to_text(layout);
	SnowflakeParts parts;
	gint64 id = UNTOUCHED;

	g_assert_cmpstr(text, ==,
			"epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=5,"
			"worker_bits=5,sequence_bits=12");
	g_assert_true(snowflake_layout_decode(layout, ID, &parts, NULL));
	g_assert_cmpint(parts.time_ms, ==, TIME_MS);
	g_assert_cmpint(parts.datacenter_id, ==, 1);
	g_assert_cmpint(parts.worker_id, ==, 2);
	g_assert_cmpint(parts.sequence, ==, 3);
	g_assert_true(snowflake_layout_encode(layout, &parts, &id, NULL));
	g_assert_cmpint(id, ==, ID);
}

/* Every ID of a layout is in the range of its millisecond. */
TEST("/id/layouts-by-name", test_layouts_by_name)
{
	g_auto(GStrv) names = snowflake_layout_names();

	g_assert_cmpstr(names[0], ==, "twitter");
	g_assert_true(g_strv_contains((const char *const *)names, "js-safe"));
	for (gsize i = 0; names[i] != NULL; i++) {
		g_autoptr(SnowflakeLayout) layout = new_layout(names[i]);

		for (int round = 0; round < ROUNDS; round++) {
			gint64 id = random_id(53), first, last;
			SnowflakeParts parts;

			g_assert_true(snowflake_layout_decode(layout, id, &parts, NULL));
			g_assert_true(snowflake_layout_range(layout, parts.time_ms, parts.time_ms,
							     &first, &last, NULL));
			g_assert_cmpint(first, <=, id);
			g_assert_cmpint(last, >=, id);
		}
	}
}

TEST("/id/layout-refuses", test_layout_refuses)
{
	static const char *const texts[] = {"", "no-such", "epoch_ms=0", "a=b"};
	const SnowflakeParts too_large = {.time_ms = 1767225600000, .worker_id = 32};
	g_autoptr(SnowflakeLayout) layout = new_layout("js-safe");
	g_autoptr(GError) error = NULL;
	SnowflakeParts parts = {.time_ms = UNTOUCHED};
	gint64 id = UNTOUCHED;

	for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
		assert_refused(snowflake_layout_new(texts[i], &error) != NULL,
			       SNOWFLAKE_ID_ERROR_INVALID, &error);
		g_assert_null(snowflake_layout_new(texts[i], NULL));
	}
	snowflake_layout_free(NULL);
	assert_refused(snowflake_layout_decode(layout, -1, &parts, &error),
		       SNOWFLAKE_ID_ERROR_OUT_OF_RANGE, &error);
	assert_refused(snowflake_layout_decode(layout, G_GINT64_CONSTANT(1) << 53, &parts, &error),
		       SNOWFLAKE_ID_ERROR_OUT_OF_RANGE, &error);
	assert_refused(snowflake_layout_encode(layout, &too_large, &id, &error),
		       SNOWFLAKE_ID_ERROR_OUT_OF_RANGE, &error);
	assert_refused(snowflake_layout_range(layout, 2, 1, &id, &id, &error),
		       SNOWFLAKE_ID_ERROR_OUT_OF_RANGE, &error);
	g_assert_cmpint(id, ==, UNTOUCHED);
	g_assert_cmpint(parts.time_ms, ==, UNTOUCHED);
}

TEST("/id/texts", test_texts)
{
	static const struct {
		SnowflakeIdForm form;
		const char *text, *bad;
	} cases[] = {
		{SNOWFLAKE_ID_DECIMAL, "1724551110456385539", "a"},
		{SNOWFLAKE_ID_HEX, "17eed6190fc22003", "g"},
		{SNOWFLAKE_ID_CROCKFORD, "1FVPP347W4803", "u"},
		{SNOWFLAKE_ID_BASE62, "23OSfOacDQp", "-"},
		{SNOWFLAKE_ID_BASE58, "51bqimcc8i6", "0"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *text = snowflake_id_to_text(cases[i].form, ID);
		g_autoptr(GError) error = NULL;
		gint64 id = UNTOUCHED;

		g_assert_cmpstr(text, ==, cases[i].text);
		assert_refused(snowflake_id_parse(cases[i].form, cases[i].bad, &id, &error),
			       SNOWFLAKE_ID_ERROR_INVALID, &error);
		g_assert_cmpint(id, ==, UNTOUCHED);
		g_assert_true(snowflake_id_parse(cases[i].form, text, &id, NULL));
		g_assert_cmpint(id, ==, ID);
	}
}

TEST("/id/ulids", test_ulids)
{
	g_autofree char *text = NULL, *uuid_text = NULL;
	g_autoptr(GError) error = NULL;
	SnowflakeUlid a, b;
	SnowflakeUuid uuid;

	g_assert_true(snowflake_ulid_parse(ULID, &a, NULL));
	text = snowflake_ulid_to_text(&a);
	g_assert_cmpstr(text, ==, ULID);
	uuid_text = snowflake_uuid_to_text(&a);
	g_assert_cmpstr(uuid_text, ==, ULID_UUID);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&a), ==, ULID_MS);
	g_assert_true(snowflake_uuid_parse(uuid_text, &uuid, NULL));
	g_assert_cmpint(snowflake_uuid_compare(&uuid, &a), ==, 0);

	g_assert_true(snowflake_ulid_random(ULID_MS, &a, &error));
	g_assert_true(snowflake_ulid_random(ULID_MS, &b, &error));
	g_assert_cmpint(snowflake_uuid_get_time_ms(&a), ==, ULID_MS);
	g_assert_cmpint(snowflake_uuid_compare(&a, &b), !=, 0);

	assert_refused(snowflake_ulid_parse("u", &a, &error), SNOWFLAKE_ID_ERROR_INVALID, &error);
	assert_refused(snowflake_ulid_random(-1, &a, &error), SNOWFLAKE_ID_ERROR_OUT_OF_RANGE,
		       &error);
	assert_refused(snowflake_ulid_random(G_GINT64_CONSTANT(1) << 48, &a, &error),
		       SNOWFLAKE_ID_ERROR_OUT_OF_RANGE, &error);
}

TEST("/id/generators-increase", test_generators_increase)
{
	g_autoptr(SnowflakeUlidGenerator) ulids = snowflake_ulid_generator_new();
	g_autoptr(SnowflakeUuidGenerator) uuids = snowflake_uuid_generator_new();
	gint64 before_ms = g_get_real_time() / 1000, after_ms;
	SnowflakeUlid last_ulid = {{0}};
	SnowflakeUuid last_uuid = {{0}};

	for (int i = 0; i < ROUNDS; i++) {
		SnowflakeUlid ulid;
		SnowflakeUuid uuid;

		g_assert_true(snowflake_ulid_generator_draw(ulids, &ulid, NULL));
		g_assert_true(snowflake_uuid_generator_draw(uuids, &uuid, NULL));
		g_assert_cmpint(snowflake_uuid_compare(&last_ulid, &ulid), <, 0);
		g_assert_cmpint(snowflake_uuid_compare(&last_uuid, &uuid), <, 0);
		g_assert_cmpint(uuid.bytes[6] >> 4, ==, 7);
		last_ulid = ulid;
		last_uuid = uuid;
	}
	after_ms = g_get_real_time() / 1000;
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_ulid), <=, after_ms);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_uuid), <=, after_ms);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_ulid), >=, before_ms);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_uuid), >=, before_ms);
	snowflake_ulid_generator_free(NULL);
	snowflake_uuid_generator_free(NULL);
}

TEST("/id/uuids-of-ids", test_uuids_of_ids)
{
	SnowflakeUuid uuid;

	for (int i = 0; i < ROUNDS; i++) {
		gint64 id = random_id(63), again = UNTOUCHED;

		g_assert_true(snowflake_uuid_from_id(id, &uuid, NULL));
		g_assert_true(snowflake_uuid_to_id(&uuid, &again, NULL));
		g_assert_cmpint(again, ==, id);
	}
	g_assert_true(snowflake_uuid_from_id(ID, &uuid, NULL));

	g_autofree char *text = snowflake_uuid_to_text(&uuid);

	g_assert_cmpint(strncmp(text, "018bcfe5-6800-7088-80", 21), ==, 0);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&uuid), ==, TIME_MS);
}

TEST("/id/uuid-refuses", test_uuid_refuses)
{
	static const struct {
		const char *text;
		SnowflakeIdError code;
	} cases[] = {
		{"00000000-0000-7000-8000-000000000000", SNOWFLAKE_ID_ERROR_OUT_OF_RANGE},
		{"018bcfe5-6800-4088-8030-000000000000", SNOWFLAKE_ID_ERROR_INVALID},
	};
	g_autoptr(GError) error = NULL;
	gint64 id = UNTOUCHED;
	SnowflakeUuid uuid;

	assert_refused(snowflake_uuid_from_id(-1, &uuid, &error), SNOWFLAKE_ID_ERROR_OUT_OF_RANGE,
		       &error);
	assert_refused(snowflake_uuid_parse("018bcfe5", &uuid, &error), SNOWFLAKE_ID_ERROR_INVALID,
		       &error);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_assert_true(snowflake_uuid_parse(cases[i].text, &uuid, NULL));
		assert_refused(snowflake_uuid_to_id(&uuid, &id, &error), cases[i].code, &error);
	}
	g_assert_cmpint(id, ==, UNTOUCHED);
}
