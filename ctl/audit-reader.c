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

static gboolean is_standard_input(const char *file)
{
	return strcmp(file, "-") == 0;
}

const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file)
{
	return is_standard_input(self->files[file]) ? "standard input" : self->files[file];
}

static void complain_of_file(CtlAuditReader *self, guint file, int error)
{
	self->any_bad = TRUE;
	ctl_output_complain("cannot read %s: %s", ctl_audit_reader_file_name(self, file),
			    g_strerror(error));
}

/* Checks the file without opening it, because opening a pipe would lose data. */
static gboolean check_file(CtlAuditReader *self, guint number)
{
	const char *file = self->files[number];
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
		complain_of_file(self, number, error);
		return FALSE;
	}
	return TRUE;
}

CtlAuditReader *ctl_audit_reader_new(const char *const *files)
{
	static const char *const STANDARD_INPUT[] = {"-", NULL};
	g_autoptr(CtlAuditReader) self = g_new0(CtlAuditReader, 1);

	self->files = files[0] != NULL ? files : STANDARD_INPUT;
	self->fd = -1;
	self->bytes = g_malloc(BUFFER_BYTES);
	for (guint i = 0; self->files[i] != NULL; i++) {
		if (!check_file(self, i))
			return NULL;
	}
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
	g_free(self->bytes);
	g_free(self);
}

/* Opens the next file. Returns %FALSE if there is none. */
static gboolean open_next(CtlAuditReader *self)
{
	while (self->files[self->next_file] != NULL) {
		const char *file = self->files[self->next_file];

		self->file = self->next_file++;
		self->fd =
			is_standard_input(file) ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
		self->line = 0;
		self->skips = FALSE;
		self->has_ended = FALSE;
		if (self->fd >= 0)
			return TRUE;
		complain_of_file(self, self->file, errno);
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
		complain_of_file(self, self->file, errno);
	self->has_ended = n_read <= 0;
	if (self->has_ended)
		return FALSE;
	self->end += (gsize)n_read;
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

	while (self->fd >= 0 || open_next(self)) {
		if (!take_line(self, &line, &length))
			close_file(self);
		else if (length > 0) {
			const char *fault = audit_entry_parse(line, length, &self->entry);
			g_autofree char *shown = NULL;

			if (fault == NULL)
				return &self->entry;
			shown = text_escape(line, length);
			self->any_bad = TRUE;
			ctl_output_complain("%s:%" G_GUINT64_FORMAT ": damaged, %s: \"%s\"",
					    ctl_audit_reader_file_name(self, self->file),
					    self->line, fault, shown);
		}
	}
	return NULL;
}
