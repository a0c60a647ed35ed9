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

CtlAuditReader *ctl_audit_reader_new(const char *const *files)
{
	static const char *const STANDARD_INPUT[] = {"-", NULL};
	g_autoptr(CtlAuditReader) self = g_new0(CtlAuditReader, 1);

	self->files = files[0] != NULL ? files : STANDARD_INPUT;
	self->fd = -1;
	self->bytes = g_malloc(BUFFER_BYTES);
	/* check the files without opening them, because opening a pipe would lose data */
	for (guint i = 0; self->files[i] != NULL; i++) {
		const char *file = self->files[i];
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
			complain_of_file(self, i, error);
			return NULL;
		}
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
		self->has_ended = FALSE;
		if (self->fd >= 0)
			return TRUE;
		complain_of_file(self, self->file, errno);
	}
	return FALSE;
}

/* Returns the next byte; -1 at the end of the file. */
static int next_byte(CtlAuditReader *self)
{
	if (self->begin == self->end && !self->has_ended) {
		ssize_t n_read;

		ctl_output_flush();
		n_read = read(self->fd, self->bytes, BUFFER_BYTES);
		if (n_read < 0)
			complain_of_file(self, self->file, errno);
		self->has_ended = n_read <= 0;
		self->begin = 0;
		self->end = (gsize)MAX(n_read, 0);
	}
	return self->begin < self->end ? self->bytes[self->begin++] : -1;
}

const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self)
{
	while (self->fd >= 0 || open_next(self)) {
		const char *fault;
		gsize length = 0;
		int byte = 0;

		/* one byte more than any entry, so that a longer line is reported before it ends */
		while (length < sizeof(self->text) && (byte = next_byte(self)) >= 0 && byte != '\n')
			self->text[length++] = (char)byte;
		self->line++;
		if (length == 0) {
			if (byte < 0)
				close_file(self);
			continue;
		}
		fault = audit_entry_parse(self->text, length, &self->entry);
		if (fault == NULL)
			return &self->entry;

		g_autofree char *shown = text_escape(self->text, length);

		self->any_bad = TRUE;
		ctl_output_complain("%s:%" G_GUINT64_FORMAT ": damaged, %s: \"%s\"",
				    ctl_audit_reader_file_name(self, self->file), self->line, fault,
				    shown);
		while (length == sizeof(self->text) && (byte = next_byte(self)) >= 0 &&
		       byte != '\n')
			; /* skip the rest of the line */
	}
	return NULL;
}
