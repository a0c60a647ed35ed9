/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/state-fixture.h"

#include <glib/gstdio.h>

#include "common/reservation-record.h"

char *state_fixture_new(void)
{
	g_autoptr(GError) error = NULL;
	char *directory = g_dir_make_tmp("snowflake-test-XXXXXX", &error);

	g_assert_no_error(error);
	return directory;
}

static void remove_tree(const char *path)
{
	g_autoptr(GDir) listing = NULL;
	const char *entry;

	if (g_file_test(path, G_FILE_TEST_IS_DIR) && !g_file_test(path, G_FILE_TEST_IS_SYMLINK))
		listing = g_dir_open(path, 0, NULL);
	while (listing != NULL && (entry = g_dir_read_name(listing)) != NULL) {
		g_autofree char *child = g_build_filename(path, entry, NULL);

		remove_tree(child);
	}
	g_remove(path);
}

void state_fixture_free(char *directory)
{
	remove_tree(directory);
	g_free(directory);
}

gint64 state_fixture_record_end(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *text = NULL;
	g_auto(ReservationRecord) record = {.end_tick = -1};
	gsize length;

	if (g_file_get_contents(path, &text, &length, NULL) &&
	    reservation_record_from_json(text, length, &record, NULL))
		return record.end_tick;
	return -1;
}

char *state_fixture_read(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autoptr(GError) error = NULL;
	char *text = NULL;

	g_file_get_contents(path, &text, NULL, &error);
	g_assert_no_error(error);
	return text;
}

void state_fixture_write(const char *directory, const char *name, const char *text)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autoptr(GError) error = NULL;

	g_file_set_contents(path, text, -1, &error);
	g_assert_no_error(error);
}

gboolean state_fixture_has(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);

	return g_file_test(path, G_FILE_TEST_EXISTS);
}

guint state_fixture_count(const char *directory, const char *suffix)
{
	g_autoptr(GDir) listing = g_dir_open(directory, 0, NULL);
	const char *entry;
	guint n = 0;

	while ((entry = g_dir_read_name(listing)) != NULL)
		n += g_str_has_suffix(entry, suffix);
	return n;
}
