/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/auth.h"
#include "tests/unit/unit-test.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

TEST("/zookeeper-auth/text", test_text)
{
	g_autofree char *long_line = g_strnfill(1030, 'p');
	const struct {
		const char *text;
		gssize length;
		const char *auth; /* NULL: an error */
	} CASES[] = {
		{"user:secret", -1, "user:secret"},
		{"user:secret\n", -1, "user:secret"},
		{"user:secret\r\n", -1, "user:secret"},
		{"user:se:cr et \nmore", -1, "user:se:cr et "},
		{"", -1, NULL},
		{"\nuser:secret\n", -1, NULL},
		{"user", -1, NULL},
		{"user:", -1, NULL},
		{":secret", -1, NULL},
		{"user:sec\0ret", 12, NULL},
		{long_line, -1, NULL},
	};
	g_autofree char *directory = g_dir_make_tmp("znodes-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "auth", NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", CASES[i].text);
		g_assert_true(g_file_set_contents(path, CASES[i].text, CASES[i].length, NULL));
		g_assert_cmpint(g_chmod(path, 0600), ==, 0);

		g_autofree char *auth = zookeeper_auth_read(path, &error);

		g_assert_cmpstr(auth, ==, CASES[i].auth);
		g_assert_true((error == NULL) == (auth != NULL));
		if (error != NULL) {
			g_assert_nonnull(strstr(error->message, path));
			g_assert_null(strstr(error->message, "ecret"));
		}
	}
	g_remove(path);

	g_autoptr(GError) error = NULL;

	g_assert_null(zookeeper_auth_read(path, &error));
	g_assert_nonnull(strstr(error->message, path));
	g_rmdir(directory);
}

static void check_refused_auth(const char *path, const char *word)
{
	g_autoptr(GError) error = NULL;

	g_assert_null(zookeeper_auth_read(path, &error));
	g_assert_nonnull(strstr(error->message, path));
	g_assert_nonnull(strstr(error->message, word));
}

TEST("/zookeeper-auth/mode", test_mode)
{
	const struct {
		int mode;
		const char *word; /* NULL: it is taken */
	} CASES[] = {
		{0600, NULL},          {0400, NULL},        {0660, NULL},
		{0604, "mode 0604"},   {0602, "mode 0602"}, {0601, "mode 0601"},
		{0644, "chmod o-rwx"},
	};
	g_autofree char *directory = g_dir_make_tmp("znodes-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "auth", NULL);
	g_autofree char *fifo = g_build_filename(directory, "fifo", NULL);

	g_assert_true(g_file_set_contents(path, "user:secret\n", -1, NULL));
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_assert_cmpint(g_chmod(path, CASES[i].mode), ==, 0);
		if (CASES[i].word == NULL) {
			g_autofree char *auth = zookeeper_auth_read(path, NULL);

			g_assert_cmpstr(auth, ==, "user:secret");
		} else {
			check_refused_auth(path, CASES[i].word);
		}
	}
	g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
	check_refused_auth(fifo, "not a regular file");
	check_refused_auth(directory, "not a regular file");
	g_remove(fifo);
	g_remove(path);
	g_rmdir(directory);
}
