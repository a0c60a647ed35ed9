/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/file-sink.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0640 /* whoever collects logs is of the group */

/* In a write(): so that large that few are needed. */
#define MAX_LINES 4096

typedef struct {
	AuditSink sink;
	char *path;
	int fd;
	gsize done;         /* bytes of the lines at hand that are written */
	gboolean line_open; /* the file's last line has no end, and is not ours */
} FileSink;

static gboolean file_sink_fail(const FileSink *self, const char *what, int code, GError **error)
{
	g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(code), "cannot %s %s: %s", what,
		    self->path, g_strerror(code));
	return FALSE;
}

static gboolean ends_in_line(int fd, off_t size)
{
	char last = '\n';

	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

/* Without waiting for the other end of what is no file. */
static gboolean file_sink_open(FileSink *self, int *out_fd, gboolean *out_line_open, GError **error)
{
	int fd = open(self->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		      MODE);
	struct stat status;

	if (fd < 0)
		return file_sink_fail(self, "open", errno, error);
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(fd);
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
			    "cannot log to %s: not a regular file", self->path);
		return FALSE;
	}
	*out_fd = fd;
	*out_line_open = ends_in_line(fd, status.st_size);
	return TRUE;
}

static gboolean file_sink_end_line(FileSink *self, GError **error)
{
	if (self->line_open && write(self->fd, "\n", 1) != 1)
		return file_sink_fail(self, "write to", errno, error);
	self->line_open = FALSE;
	return TRUE;
}

/* A disk that is full may take part of the lines. The rest goes on from there. */
static gboolean file_sink_write(AuditSink *sink, const GByteArray *lines,
				guint limit_ms G_GNUC_UNUSED, GError **error)
{
	FileSink *self = (FileSink *)sink;

	if (!file_sink_end_line(self, error))
		return FALSE;
	while (self->done < lines->len) {
		ssize_t n = write(self->fd, lines->data + self->done, lines->len - self->done);

		if (n < 0 && errno != EINTR)
			return file_sink_fail(self, "write to", errno, error);
		self->done += (gsize)MAX(n, 0);
	}
	self->done = 0;
	return TRUE;
}

/* A line that is begun in the old file is written to the new one as a whole. */
static void file_sink_move(FileSink *self, int fd, gboolean line_open, const guint8 *lines)
{
	while (self->done > 0 && lines[self->done - 1] != '\n')
		self->done--;
	close(self->fd);
	self->fd = fd;
	self->line_open = line_open;
}

static gboolean file_sink_reopen(AuditSink *sink, const GByteArray *lines, GError **error)
{
	FileSink *self = (FileSink *)sink;
	gboolean line_open;
	int fd;

	if (!file_sink_open(self, &fd, &line_open, error))
		return FALSE;
	file_sink_move(self, fd, line_open, lines->data);
	return TRUE;
}

static gboolean file_sink_sync(AuditSink *sink, GError **error)
{
	const FileSink *self = (const FileSink *)sink;

	if (fsync(self->fd) != 0)
		return file_sink_fail(self, "sync", errno, error);
	return TRUE;
}

static void file_sink_free(AuditSink *sink)
{
	FileSink *self = (FileSink *)sink;

	close(self->fd);
	g_free(self->path);
	g_free(self);
}

static const AuditSinkOps OPS = {
	.max_lines = MAX_LINES,
	.write = file_sink_write,
	.reopen = file_sink_reopen,
	.sync = file_sink_sync,
	.free = file_sink_free,
};

AuditSink *file_sink_new(const char *path, GError **error)
{
	FileSink *self = g_new0(FileSink, 1);

	self->sink.ops = &OPS;
	self->path = g_strdup(path);
	if (!file_sink_open(self, &self->fd, &self->line_open, error)) {
		g_free(self->path);
		g_free(self);
		return NULL;
	}
	return &self->sink;
}
