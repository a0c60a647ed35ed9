/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/audit-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "ctl/output.h"

#define BUFFER_BYTES (256 * 1024)

struct _CtlAuditReader {
	const char *const *files;
	guint64 all_bytes;
	guint64 read_bytes;

	guint next_file;
	int fd; /* -1 if no file is open */
	guint64 line;
	gboolean skips; /* the rest of the line must be skipped */
	gboolean has_ended;
	gboolean any_bad;
	AuditEntry entry;

	/* bytes from begin to end were read and are not taken yet */
	gsize begin;
	gsize end;
	char bytes[BUFFER_BYTES];
};

static gboolean is_standard_input(const char *file)
{
	return strcmp(file, "-") == 0;
}

static const char *name_of(const char *file)
{
	return is_standard_input(file) ? "standard input" : file;
}

/* Checks the file without opening it, because opening a pipe would lose data. */
static gboolean check_file(const char *file, guint64 *all_bytes, gboolean *known)
{
	gboolean is_input = is_standard_input(file);
	struct stat status;
	int error = 0;

	if ((is_input ? fstat(STDIN_FILENO, &status) : stat(file, &status)) != 0)
		error = errno;
	else if (S_ISDIR(status.st_mode))
		error = EISDIR;
	else if (!is_input && faccessat(AT_FDCWD, file, R_OK, AT_EACCESS) != 0)
		error = errno;
	if (error != 0) {
		ctl_output_complain("cannot read %s: %s", name_of(file), g_strerror(error));
		return FALSE;
	}
	*known &= S_ISREG(status.st_mode);
	*all_bytes += (guint64)status.st_size;
	return TRUE;
}

CtlAuditReader *ctl_audit_reader_new(const char *const *files)
{
	static const char *const STANDARD_INPUT[] = {"-", NULL};
	g_autoptr(CtlAuditReader) self = g_new(CtlAuditReader, 1);
	gboolean known = TRUE;

	/* all fields except the buffer, which is large */
	memset(self, 0, offsetof(CtlAuditReader, bytes));
	self->files = files[0] != NULL ? files : STANDARD_INPUT;
	self->fd = -1;
	for (gsize i = 0; self->files[i] != NULL; i++) {
		if (!check_file(self->files[i], &self->all_bytes, &known))
			return NULL;
	}
	if (!known)
		self->all_bytes = 0;
	return g_steal_pointer(&self);
}

static void close_file(CtlAuditReader *self)
{
	if (self->fd > STDERR_FILENO)
		close(self->fd);
	self->fd = -1;
}

void ctl_audit_reader_free(CtlAuditReader *self)
{
	if (self == NULL)
		return;
	close_file(self);
	g_free(self);
}

static const char *file_name(const CtlAuditReader *self)
{
	return ctl_audit_reader_file_name(self, ctl_audit_reader_get_file(self));
}

static void complain_of_file(CtlAuditReader *self, int error)
{
	self->any_bad = TRUE;
	ctl_output_complain("cannot read %s: %s", file_name(self), g_strerror(error));
}

static void complain_of_line(CtlAuditReader *self, const char *line, gsize length,
			     const char *reason)
{
	g_autofree char *shown = text_escape(line, length);

	self->any_bad = TRUE;
	ctl_output_complain("%s:%" G_GUINT64_FORMAT ": damaged, %s: \"%s\"", file_name(self),
			    self->line, reason, shown);
}

/* Opens the next file. Returns %FALSE if there is none. */
static gboolean open_next(CtlAuditReader *self)
{
	while (self->files[self->next_file] != NULL) {
		const char *file = self->files[self->next_file++];

		self->fd =
			is_standard_input(file) ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
		self->line = 0;
		self->skips = FALSE;
		self->has_ended = FALSE;
		if (self->fd >= 0)
			return TRUE;
		complain_of_file(self, errno);
	}
	return FALSE;
}

/* Reads more bytes into the buffer. Returns %FALSE at the end of the file. */
static gboolean read_more(CtlAuditReader *self)
{
	ssize_t n_read;

	if (self->has_ended)
		return FALSE;
	self->end -= self->begin;
	memmove(self->bytes, self->bytes + self->begin, self->end);
	self->begin = 0;
	ctl_output_flush();
	n_read = read(self->fd, self->bytes + self->end, BUFFER_BYTES - self->end);
	if (n_read < 0)
		complain_of_file(self, errno);
	self->has_ended = n_read <= 0;
	if (self->has_ended)
		return FALSE;
	self->end += (gsize)n_read;
	self->read_bytes += (guint64)n_read;
	return TRUE;
}

/* Takes the next line. If it is longer than any entry, takes only its beginning, and skips the
 * rest. Returns %FALSE if the file has no more lines. */
static gboolean take_line(CtlAuditReader *self, const char **out_line, gsize *out_length)
{
	for (;;) {
		const char *begin = self->bytes + self->begin;
		gsize left = self->end - self->begin;
		const char *newline = memchr(begin, '\n', left);
		gboolean is_rest = self->skips;

		if (newline == NULL && left <= AUDIT_ENTRY_MAX_LINE_BYTES && read_more(self))
			continue;
		if (newline == NULL && left == 0)
			return FALSE;
		/* not the old @begin, because read_more() moves the bytes even at the end of the
		 * file */
		*out_line = self->bytes + self->begin;
		*out_length = newline != NULL ? (gsize)(newline - begin) : left;
		self->begin += *out_length + (newline != NULL);
		self->skips = newline == NULL;
		self->line += !is_rest;
		if (!is_rest)
			return TRUE;
	}
}

const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self)
{
	const char *line;
	gsize length;
	const char *reason;

	while (self->fd >= 0 || open_next(self)) {
		if (!take_line(self, &line, &length))
			close_file(self);
		else if (length > 0) {
			if (audit_entry_parse(line, length, &self->entry, &reason))
				return &self->entry;
			complain_of_line(self, line, length, reason);
		}
	}
	return NULL;
}

guint ctl_audit_reader_get_file(const CtlAuditReader *self)
{
	return self->next_file - 1;
}

guint64 ctl_audit_reader_get_line(const CtlAuditReader *self)
{
	return self->line;
}

const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file)
{
	return name_of(self->files[file]);
}

guint64 ctl_audit_reader_read_bytes(const CtlAuditReader *self)
{
	return self->read_bytes;
}

guint64 ctl_audit_reader_all_bytes(const CtlAuditReader *self)
{
	return self->all_bytes;
}

gboolean ctl_audit_reader_any_bad(const CtlAuditReader *self)
{
	return self->any_bad;
}
