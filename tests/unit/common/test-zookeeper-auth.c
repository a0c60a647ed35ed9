/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/hosts.h"
#include "tests/unit/unit-test.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

static void assert_refused(const char *path, const char *word)
{
	g_autoptr(GError) error = NULL;

	g_assert_null(zookeeper_hosts_read_auth(path, &error));
	g_assert_nonnull(strstr(error->message, path));
	g_assert_nonnull(strstr(error->message, word));
	g_assert_null(strstr(error->message, "ecret"));
}

TEST("/zookeeper-auth/read", test_read)
{
	g_autofree char *long_line = g_strnfill(1030, 'p');
	const struct {
		const char *text;
		gssize length;
		const char *auth; /* NULL: an error */
	} TEXTS[] = {
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
		{"\xef\xbb\xbfuser:secret\n", -1, NULL},
		{"user:secret", -1, "user:secret"}, /* last, because its file is used below */
	};
	static const struct {
		int mode;
		const char *word; /* NULL: it is taken */
	} MODES[] = {
		{0600, NULL},          {0400, NULL},        {0660, NULL},
		{0604, "mode 0604"},   {0602, "mode 0602"}, {0601, "mode 0601"},
		{0644, "chmod o-rwx"},
	};
	g_autofree char *directory = g_dir_make_tmp("znodes-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "auth", NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
		g_autofree char *auth = NULL;

		g_test_message("%s", TEXTS[i].text);
		g_assert_true(g_file_set_contents(path, TEXTS[i].text, TEXTS[i].length, NULL));
		g_assert_cmpint(g_chmod(path, 0600), ==, 0);
		auth = zookeeper_hosts_read_auth(path, NULL);
		g_assert_cmpstr(auth, ==, TEXTS[i].auth);
		if (TEXTS[i].auth == NULL)
			assert_refused(path, "");
	}
	for (gsize i = 0; i < G_N_ELEMENTS(MODES); i++) {
		g_assert_cmpint(g_chmod(path, MODES[i].mode), ==, 0);
		if (MODES[i].word == NULL) {
			g_autofree char *auth = zookeeper_hosts_read_auth(path, NULL);

			g_assert_cmpstr(auth, ==, "user:secret");
		} else {
			assert_refused(path, MODES[i].word);
		}
	}
	g_remove(path);
	assert_refused(path, "");
	g_assert_cmpint(mkfifo(path, 0600), ==, 0);
	assert_refused(path, "not a regular file");
	g_remove(path);
	assert_refused(directory, "not a regular file");
	g_rmdir(directory);
}
