/* SPDX-License-Identifier: Apache-2.0 */

/* Parses texts of IDs, ULIDs, UUIDs and layouts, and converts IDs and times in any layout. The
 * first byte selects one of these. A value that was parsed, formatted and parsed again must be the
 * same. */
#include <string.h>

#include "client/snowflake-id.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"

#define N_FORMS 5 /* number of values of SnowflakeIdForm */

static void check_uuid_as_id(const SnowflakeUuid *uuid)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -1, again;
	gboolean is_one = snowflake_uuid_to_id(uuid, &id, &error);
	SnowflakeUuid other;

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_cmpint(id, >=, 0);
	g_assert_true(snowflake_uuid_from_id(id, &other, NULL));
	g_assert_true(snowflake_uuid_to_id(&other, &again, NULL));
	g_assert_cmpint(again, ==, id);
	g_assert_cmpint(snowflake_uuid_get_time_ms(&other), ==, snowflake_uuid_get_time_ms(uuid));
}

static void check_id_text(SnowflakeIdForm form, const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *written = NULL;
	gint64 id = -1, again;
	gboolean is_one = snowflake_id_parse(form, text, &id, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_cmpint(id, >=, 0);
	written = snowflake_id_to_text(form, id);
	g_assert_true(snowflake_id_parse(form, written, &again, NULL));
	g_assert_cmpint(again, ==, id);
}

static void check_uuid(const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *written = NULL;
	SnowflakeUuid uuid;
	gboolean is_one = snowflake_uuid_parse(text, &uuid, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	written = snowflake_uuid_to_text(&uuid);
	g_assert_cmpint(g_ascii_strcasecmp(text, written), ==, 0);
	check_uuid_as_id(&uuid);
}

static void check_ulid(const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *written = NULL;
	SnowflakeUlid ulid, other;
	gboolean is_one = snowflake_ulid_parse(text, &ulid, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	written = snowflake_ulid_to_text(&ulid);
	g_assert_cmpint(g_ascii_strcasecmp(text, written), ==, 0);
	g_assert_true(snowflake_ulid_random(snowflake_uuid_get_time_ms(&ulid), &other, NULL));
	g_assert_cmpint(snowflake_uuid_get_time_ms(&other), ==, snowflake_uuid_get_time_ms(&ulid));
}

static void check_decoding(const SnowflakeLayout *layout, gint64 id)
{
	g_autoptr(GError) error = NULL;
	SnowflakeParts parts;
	gint64 again;
	gboolean fits = snowflake_layout_decode(layout, id, &parts, &error);

	input_check_error(!fits, &error);
	if (!fits)
		return;
	g_assert_true(snowflake_layout_encode(layout, &parts, &again, NULL));
	g_assert_cmpint(again, ==, id);
}

static void check_range(const SnowflakeLayout *layout, gint64 from_ms, gint64 to_ms)
{
	g_autoptr(GError) error = NULL;
	SnowflakeParts first_parts, last_parts;
	gint64 first, last;
	gboolean fits = snowflake_layout_range(layout, from_ms, to_ms, &first, &last, &error);

	input_check_error(!fits, &error);
	if (!fits)
		return;
	g_assert_cmpint(first, <=, last);
	g_assert_true(snowflake_layout_decode(layout, first, &first_parts, NULL));
	g_assert_true(snowflake_layout_decode(layout, last, &last_parts, NULL));
	g_assert_cmpint(last_parts.time_ms, <=, to_ms);
}

/* @text: two numbers of eight bytes, and a layout */
static void check_layout(const guint8 *data, gsize size)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeLayout) layout = NULL, again = NULL;
	g_autofree char *text = NULL, *written = NULL, *rewritten = NULL;
	gint64 numbers[2];

	if (size < sizeof numbers)
		return;
	memcpy(numbers, data, sizeof numbers);
	text = input_text(data + sizeof numbers, size - sizeof numbers);
	layout = snowflake_layout_new(text, &error);
	input_check_error(layout == NULL, &error);
	if (layout == NULL)
		return;
	written = snowflake_layout_to_text(layout);
	again = snowflake_layout_new(written, NULL);
	g_assert_nonnull(again);
	rewritten = snowflake_layout_to_text(again);
	g_assert_cmpstr(written, ==, rewritten);
	check_decoding(layout, numbers[0]);
	check_range(layout, numbers[0], numbers[1]);
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	enum { UUID = N_FORMS, ULID, LAYOUT, N_KINDS };
	g_autofree char *text = NULL;
	guint kind;

	if (size == 0)
		return 0;
	kind = data[0] % N_KINDS;
	text = input_text(data + 1, size - 1);
	if (kind < N_FORMS)
		check_id_text((SnowflakeIdForm)kind, text);
	else if (kind == UUID)
		check_uuid(text);
	else if (kind == ULID)
		check_ulid(text);
	else
		check_layout(data + 1, size - 1);
	return 0;
}
