/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/entry.h"

/* Reads the entries in audit log files, one file after the other. A damaged line is skipped, and
 * reported on standard error with its file and line number. The memory used does not depend on the
 * length of a file or a line. */
typedef struct {
	/* Code outside this module only reads these. */
	AuditEntry entry;
	guint file;       /* index of the entry's file */
	guint64 line;     /* number of its line, from 1 */
	gboolean any_bad; /* a line was damaged, or a file could not be read completely */

	const char *const *files;
	guint next_file;
	gboolean has_ended; /* all bytes of the file were read */
	int fd;             /* -1: none is open */
	/* bytes from begin to end were read and are not taken yet */
	gsize begin, end;
	guint8 *bytes;
	char text[AUDIT_ENTRY_MAX_LINE_BYTES + 1]; /* the line */
} CtlAuditReader;

/* @files: NULL-terminated; borrowed. "-" means standard input, which is also the default
 *
 * Returns: (nullable): a reader; %NULL, after printing a message, if a file does not exist, is a
 * directory or is not readable; the exit status is then CTL_USAGE */
CtlAuditReader *ctl_audit_reader_new(const char *const *files);
void ctl_audit_reader_free(CtlAuditReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditReader, ctl_audit_reader_free)

/* Returns: (nullable): the next entry, valid until the next call; %NULL if there is none. Flushes
 * standard output before reading. */
const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self);

/* Returns the file's name, for messages. */
const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file);
