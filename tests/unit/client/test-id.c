/* SPDX-License-Identifier: Apache-2.0 */

/* By the installed header and the shared library alone. */

#include "client/snowflake-id.h"

#include <string.h>

#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#define ROUNDS    2000
#define UNTOUCHED (-7)

static gint64 id_of(JsonObject *object, const char *member)
{
	return g_ascii_strtoll(json_object_get_string_member(object, member), NULL, 10);
}

static SnowflakeLayout *new_layout(const char *text)
{
	g_autoptr(GError) error = NULL;
	SnowflakeLayout *layout = snowflake_layout_new(text, &error);

	g_assert_no_error(error);
	return layout;
}

static void check_layout_vector(const char *name, JsonObject *vector)
{
	g_autoptr(SnowflakeLayout) layout = new_layout(name);
	g_autoptr(GError) error = NULL;
	SnowflakeParts parts;
	gint64 id = id_of(vector, "id");
	gint64 again = UNTOUCHED;

	g_assert_true(snowflake_layout_decode(layout, id, &parts, &error));
	g_assert_no_error(error);
	g_assert_cmpint(parts.time_ms, ==, json_object_get_int_member(vector, "timestamp_ms"));
	g_assert_cmpint(parts.datacenter_id, ==,
			json_object_get_int_member(vector, "datacenter_id"));
	g_assert_cmpint(parts.worker_id, ==, json_object_get_int_member(vector, "worker_id"));
	g_assert_cmpint(parts.sequence, ==, json_object_get_int_member(vector, "sequence"));
	g_assert_true(snowflake_layout_encode(layout, &parts, &again, &error));
	g_assert_cmpint(again, ==, id);
}

TEST("/id/layout-vectors", test_layout_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("layouts.json");
	JsonObject *all = json_node_get_object(root);
	JsonArray *twitter =
		json_object_get_array_member(json_object_get_object_member(all, "twitter"), "ids");
	JsonArray *others = json_object_get_array_member(all, "other_layouts");

	g_assert_cmpuint(json_array_get_length(twitter), >, 0);
	g_assert_cmpuint(json_array_get_length(others), >, 0);
	for (guint i = 0; i < json_array_get_length(twitter); i++)
		check_layout_vector("twitter", json_array_get_object_element(twitter, i));
	for (guint i = 0; i < json_array_get_length(others); i++) {
		JsonObject *vector = json_array_get_object_element(others, i);

		check_layout_vector(json_object_get_string_member(vector, "layout"), vector);
	}
}

/* Every ID that a layout has is in the range of its millisecond, and comes back from its parts. */
static void check_random_ids(const SnowflakeLayout *layout)
{
	for (int i = 0; i < ROUNDS; i++) {
		gint64 id =
			(gint64)((guint64)g_test_rand_int() << 32 | (guint32)g_test_rand_int()) &
			((G_GINT64_CONSTANT(1) << 53) - 1);
		SnowflakeParts parts;
		gint64 again;
		gint64 first;
		gint64 last;

		g_assert_true(snowflake_layout_decode(layout, id, &parts, NULL));
		g_assert_true(snowflake_layout_encode(layout, &parts, &again, NULL));
		g_assert_cmpint(again, ==, id);
		g_assert_true(snowflake_layout_range(layout, parts.time_ms, parts.time_ms, &first,
						     &last, NULL));
		g_assert_cmpint(first, <=, id);
		g_assert_cmpint(last, >=, id);
	}
}

TEST("/id/layouts-by-name", test_layouts_by_name)
{
	g_auto(GStrv) names = snowflake_layout_names();

	g_assert_cmpstr(names[0], ==, "twitter");
	g_assert_true(g_strv_contains((const char *const *)names, "js-safe"));
	for (gsize i = 0; names[i] != NULL; i++) {
		g_autoptr(SnowflakeLayout) layout = new_layout(names[i]);
		g_autofree char *text = snowflake_layout_to_text(layout);
		g_autoptr(SnowflakeLayout) again = new_layout(text);
		g_autofree char *same = snowflake_layout_to_text(again);

		g_assert_cmpstr(text, ==, same);
		check_random_ids(layout);
	}
}

TEST("/id/layout-refuses", test_layout_refuses)
{
	static const char *const texts[] = {
		"", "no-such", "epoch_ms=0", "a=b",
		/* of 13 bits, which is not said */
		"epoch_ms=0,tick_ms=1,time_bits=1,datacenter_bits=0,worker_bits=5,sequence_bits=7"};

	for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_null(snowflake_layout_new(texts[i], &error));
		g_assert_error(error, SNOWFLAKE_ID_ERROR, SNOWFLAKE_ID_ERROR_INVALID);
		g_assert_null(snowflake_layout_new(texts[i], NULL));
	}
	snowflake_layout_free(NULL);
}

static void assert_out_of_range(GError **error)
{
	g_assert_error(*error, SNOWFLAKE_ID_ERROR, SNOWFLAKE_ID_ERROR_OUT_OF_RANGE);
	g_clear_error(error);
}

TEST("/id/outside-the-layout", test_outside_the_layout)
{
	g_autoptr(SnowflakeLayout) layout = new_layout("js-safe");
	const SnowflakeParts too_large = {.time_ms = 1767225600000, .worker_id = 32};
	g_autoptr(GError) error = NULL;
	SnowflakeParts parts = {.time_ms = UNTOUCHED};
	gint64 id = UNTOUCHED;

	g_assert_false(snowflake_layout_decode(layout, -1, &parts, &error));
	assert_out_of_range(&error);
	g_assert_false(snowflake_layout_decode(layout, G_GINT64_CONSTANT(1) << 53, &parts, &error));
	assert_out_of_range(&error);
	g_assert_false(snowflake_layout_encode(layout, &too_large, &id, &error));
	assert_out_of_range(&error);
	g_assert_false(snowflake_layout_range(layout, 2, 1, &id, &id, &error));
	assert_out_of_range(&error);
	g_assert_cmpint(id, ==, UNTOUCHED);
	g_assert_cmpint(parts.time_ms, ==, UNTOUCHED);
}

static const struct {
	SnowflakeIdForm form;
	const char *member;
} forms[] = {
	{SNOWFLAKE_ID_DECIMAL, "id"},
	{SNOWFLAKE_ID_HEX, "hex"},
	{SNOWFLAKE_ID_CROCKFORD, "base32_crockford"},
	{SNOWFLAKE_ID_BASE62, "base62"},
	{SNOWFLAKE_ID_BASE58, "base58_flickr"},
};

static void check_text(JsonObject *vector, gsize form)
{
	const char *expected = json_object_get_string_member(vector, forms[form].member);
	g_autofree char *text = snowflake_id_to_text(forms[form].form, id_of(vector, "id"));
	gint64 id = UNTOUCHED;

	g_assert_cmpstr(text, ==, expected);
	g_assert_true(snowflake_id_parse(forms[form].form, text, &id, NULL));
	g_assert_cmpint(id, ==, id_of(vector, "id"));
}

static void check_text_refused(JsonObject *lists, gsize form)
{
	if (!json_object_has_member(lists, forms[form].member))
		return;

	JsonArray *texts = json_object_get_array_member(lists, forms[form].member);

	for (guint i = 0; i < json_array_get_length(texts); i++) {
		g_autoptr(GError) error = NULL;
		gint64 id = UNTOUCHED;

		g_assert_false(snowflake_id_parse(
			forms[form].form, json_array_get_string_element(texts, i), &id, &error));
		g_assert_error(error, SNOWFLAKE_ID_ERROR, SNOWFLAKE_ID_ERROR_INVALID);
		g_assert_cmpint(id, ==, UNTOUCHED);
	}
}

TEST("/id/text-vectors", test_text_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("text.json");
	JsonObject *all = json_node_get_object(root);
	JsonArray *ids = json_object_get_array_member(all, "ids");
	JsonObject *rejected = json_object_get_object_member(all, "reject");

	g_assert_cmpuint(json_array_get_length(ids), >, 0);
	g_assert_cmpuint(json_object_get_size(rejected), >, 0);
	for (gsize form = 0; form < G_N_ELEMENTS(forms); form++) {
		for (guint i = 0; i < json_array_get_length(ids); i++)
			check_text(json_array_get_object_element(ids, i), form);
		check_text_refused(rejected, form);
	}
}

static void check_ulid_vector(JsonObject *vector)
{
	const char *text = json_object_get_string_member(vector, "ulid");
	SnowflakeUlid ulid;
	SnowflakeUuid uuid;

	g_assert_true(snowflake_ulid_parse(text, &ulid, NULL));

	g_autofree char *again = snowflake_ulid_to_text(&ulid);
	g_autofree char *uuid_text = snowflake_uuid_to_text(&ulid);

	g_assert_cmpstr(again, ==, text);
	g_assert_cmpstr(uuid_text, ==, json_object_get_string_member(vector, "uuid"));
	g_assert_cmpint(snowflake_uuid_get_time_ms(&ulid), ==,
			json_object_get_int_member(vector, "timestamp_ms"));
	g_assert_true(snowflake_uuid_parse(uuid_text, &uuid, NULL));
	g_assert_cmpint(snowflake_uuid_compare(&uuid, &ulid), ==, 0);
}

TEST("/id/ulid-vectors", test_ulid_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("ulid.json");
	JsonObject *all = json_node_get_object(root);
	JsonArray *decoded = json_object_get_array_member(all, "decode");
	JsonArray *accepted = json_object_get_array_member(all, "accept");
	JsonArray *rejected = json_object_get_array_member(all, "reject");

	g_assert_cmpuint(json_array_get_length(decoded), >, 0);
	g_assert_cmpuint(json_array_get_length(accepted), >, 0);
	g_assert_cmpuint(json_array_get_length(rejected), >, 0);
	for (guint i = 0; i < json_array_get_length(decoded); i++)
		check_ulid_vector(json_array_get_object_element(decoded, i));
	for (guint i = 0; i < json_array_get_length(accepted); i++) {
		const char *text = json_array_get_string_element(accepted, i);
		SnowflakeUlid ulid;

		g_assert_true(snowflake_ulid_parse(text, &ulid, NULL));

		g_autofree char *again = snowflake_ulid_to_text(&ulid);

		g_assert_cmpint(g_ascii_strcasecmp(again, text), ==, 0);
	}
	for (guint i = 0; i < json_array_get_length(rejected); i++) {
		g_autoptr(GError) error = NULL;
		SnowflakeUlid ulid;

		g_assert_false(snowflake_ulid_parse(json_array_get_string_element(rejected, i),
						    &ulid, &error));
		g_assert_error(error, SNOWFLAKE_ID_ERROR, SNOWFLAKE_ID_ERROR_INVALID);
	}
}

TEST("/id/ulid-random", test_ulid_random)
{
	g_autoptr(GError) error = NULL;
	SnowflakeUlid a;
	SnowflakeUlid b;

	g_assert_true(snowflake_ulid_random(1469918176385, &a, &error));
	g_assert_true(snowflake_ulid_random(1469918176385, &b, &error));
	g_assert_cmpint(snowflake_uuid_get_time_ms(&a), ==, 1469918176385);
	g_assert_cmpint(snowflake_uuid_compare(&a, &b), !=, 0);
	g_assert_false(snowflake_ulid_random(-1, &a, &error));
	assert_out_of_range(&error);
	g_assert_false(snowflake_ulid_random(G_GINT64_CONSTANT(1) << 48, &a, &error));
	assert_out_of_range(&error);
}

TEST("/id/generators-increase", test_generators_increase)
{
	g_autoptr(SnowflakeUlidGenerator) ulids = snowflake_ulid_generator_new();
	g_autoptr(SnowflakeUuidGenerator) uuids = snowflake_uuid_generator_new();
	gint64 before_ms = g_get_real_time() / 1000;
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
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_ulid) - before_ms, <, 60000);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_uuid) - before_ms, <, 60000);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_ulid), >=, before_ms);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&last_uuid), >=, before_ms);
	snowflake_ulid_generator_free(NULL);
	snowflake_uuid_generator_free(NULL);
}

TEST("/id/uuid-vectors", test_uuid_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("uuid7.json");
	JsonObject *all = json_node_get_object(root);
	JsonObject *reserved = json_object_get_object_member(all, "reserved");
	const char *shown =
		json_object_get_string_member(reserved, "uuid_with_52_random_bits_zero");
	gint64 id = UNTOUCHED;
	SnowflakeUuid uuid;

	g_assert_true(
		snowflake_uuid_parse(json_object_get_string_member(all, "uuid"), &uuid, NULL));
	g_assert_cmpint(snowflake_uuid_get_time_ms(&uuid), ==,
			json_object_get_int_member(all, "unix_ts_ms"));
	g_assert_true(snowflake_uuid_parse(shown, &uuid, NULL));
	g_assert_true(snowflake_uuid_to_id(&uuid, &id, NULL));
	g_assert_cmpint(id, ==, id_of(reserved, "id"));
	g_assert_true(snowflake_uuid_from_id(id, &uuid, NULL));

	g_autofree char *text = snowflake_uuid_to_text(&uuid);

	g_assert_cmpint(strncmp(text, shown, strlen("018bcfe5-6800-7088-80")), ==, 0);
}

TEST("/id/uuids-of-ids", test_uuids_of_ids)
{
	for (int i = 0; i < ROUNDS; i++) {
		gint64 id =
			(gint64)((guint64)g_test_rand_int() << 32 | (guint32)g_test_rand_int()) &
			G_MAXINT64;
		gint64 again = UNTOUCHED;
		SnowflakeUuid uuid;

		g_assert_true(snowflake_uuid_from_id(id, &uuid, NULL));
		g_assert_true(snowflake_uuid_to_id(&uuid, &again, NULL));
		g_assert_cmpint(again, ==, id);
	}
}

TEST("/id/uuid-refuses", test_uuid_refuses)
{
	g_autoptr(GError) error = NULL;
	gint64 id = UNTOUCHED;
	SnowflakeUuid uuid;

	g_assert_false(snowflake_uuid_from_id(-1, &uuid, &error));
	assert_out_of_range(&error);
	g_assert_false(snowflake_uuid_parse("018bcfe5", &uuid, &error));
	g_assert_error(error, SNOWFLAKE_ID_ERROR, SNOWFLAKE_ID_ERROR_INVALID);
	g_clear_error(&error);
	g_assert_true(snowflake_uuid_parse("00000000-0000-7000-8000-000000000000", &uuid, NULL));
	g_assert_false(snowflake_uuid_to_id(&uuid, &id, &error));
	assert_out_of_range(&error);
	g_assert_true(snowflake_uuid_parse("018bcfe5-6800-4088-8030-000000000000", &uuid, NULL));
	g_assert_false(snowflake_uuid_to_id(&uuid, &id, &error));
	g_assert_error(error, SNOWFLAKE_ID_ERROR, SNOWFLAKE_ID_ERROR_INVALID);
	g_assert_cmpint(id, ==, UNTOUCHED);
}
