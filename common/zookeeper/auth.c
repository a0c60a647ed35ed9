/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES       1024
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* of UTF-8, as some editors write it */

static gboolean refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static gboolean refuse(GError **error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);

	g_autofree char *message = g_strdup_vprintf(format, arguments);

	va_end(arguments);
	g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
	return FALSE;
}

/* A file of the owner's, and not a FIFO, which would be waited for. */
static gboolean check_file(const char *path, int fd, GError **error)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return refuse(error, "%s: %s", path, g_strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse(error, "%s is not a regular file", path);
	if ((st.st_mode & S_IRWXO) != 0)
		return refuse(error,
			      "%s holds a password, and its mode %04o lets everybody have it: "
			      "chmod o-rwx %s",
			      path, (guint)(st.st_mode & 07777), path);
	return TRUE;
}

/* (transfer full) (nullable): up to @max_bytes, and a NUL. */
static char *read_start(const char *path, int fd, gsize max_bytes, gsize *out_length,
			GError **error)
{
	g_autofree char *text = g_malloc0(max_bytes + 1);
	gsize length = 0;
	ssize_t got;

	do {
		got = read(fd, text + length, max_bytes - length);
		length += (gsize)MAX(got, 0);
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0) {
		refuse(error, "%s: %s", path, g_strerror(errno));
		return NULL;
	}
	*out_length = length;
	return g_steal_pointer(&text);
}

char *zookeeper_auth_read(const char *path, GError **error)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	g_autofree char *text = NULL;
	gsize length = 0;

	if (fd < 0 && errno == ENAMETOOLONG) {
		refuse(error, "%s", g_strerror(errno));
		return NULL;
	}
	if (fd < 0) {
		refuse(error, "%s: %s", path, g_strerror(errno));
		return NULL;
	}
	if (check_file(path, fd, error))
		text = read_start(path, fd, MAX_BYTES + 2, &length, error);
	close(fd);
	if (text == NULL)
		return NULL;

	if (g_str_has_prefix(text, BYTE_ORDER_MARK)) {
		refuse(error, "%s begins with a byte order mark: save it without one", path);
		return NULL;
	}
	/* what is wrong is not quoted: it may be a password */
	char *end = memchr(text, '\n', length);
	gsize line_length = end != NULL ? (gsize)(end - text) : length;

	if (line_length > 0 && text[line_length - 1] == '\r')
		line_length--;
	if (line_length > MAX_BYTES || memchr(text, '\0', line_length) != NULL) {
		refuse(error, "%s: the first line is not text of up to %d bytes", path, MAX_BYTES);
		return NULL;
	}
	text[line_length] = '\0';

	const char *colon = strchr(text, ':');

	if (colon == NULL || colon == text || colon[1] == '\0') {
		refuse(error, "%s: the first line is not USER:PASSWORD", path);
		return NULL;
	}
	return g_steal_pointer(&text);
}
