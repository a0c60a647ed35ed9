/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/inputs.h"

#include <sys/mman.h>
#include <unistd.h>

char *input_text(const guint8 *data, gsize size)
{
	return g_strndup((const char *)data, size);
}

const char *input_file(const void *data, gsize size)
{
	static char *path;
	static int fd;

	if (path == NULL) {
		fd = memfd_create("input", MFD_CLOEXEC);
		path = g_strdup_printf("/proc/self/fd/%d", fd);
	}
	g_assert_cmpint(ftruncate(fd, 0), ==, 0);
	g_assert_cmpint(pwrite(fd, data, size, 0), ==, size);
	return path;
}

static void check_message(const char *message)
{
	g_assert_cmpstr(message, !=, "");
	g_assert_true(g_utf8_validate(message, -1, NULL));
	for (const char *at = message; *at != '\0'; at = g_utf8_next_char(at))
		g_assert_true(g_unichar_isprint(g_utf8_get_char(at)));
}

void input_check_error(gboolean failed, GError **error)
{
	g_assert_true(failed == (*error != NULL));
	if (failed)
		check_message((*error)->message);
	g_clear_error(error);
}
