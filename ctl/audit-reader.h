/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/entry.h"

/*
 * Reads the entries in audit log files, one file after the other. A damaged line is skipped, and
 * reported on standard error with its file and number. Memory does not depend on the length of a
 * file or a line.
 */
typedef struct {
	/* Code outside this module only reads these. */
	AuditEntry entry;
	guint file;         /* index of the entry's file */
	guint64 line;       /* number of its line, from 1 */
	guint64 read_bytes; /* so far */
	guint64 all_bytes;  /* size of all files; 0: it is unknown */
	gboolean any_bad;   /* a line was damaged, or a file could not be read to its end */

	const char *const *files;
	guint next_file;
	gboolean skips; /* skip the rest of the line */
	gboolean has_ended;
	int fd; /* -1: none is open */
	/* bytes that were read and not yet taken: begin to end */
	gsize begin, end;
	char *bytes;
} CtlAuditReader;

/* @files: NULL-terminated, borrowed: "-" is standard input, which is also the default
 *
 * Returns: (nullable): %NULL, with the message printed, if one of them does not exist, is a
 * directory or is not readable: CTL_USAGE */
CtlAuditReader *ctl_audit_reader_new(const char *const *files);
void ctl_audit_reader_free(CtlAuditReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditReader, ctl_audit_reader_free)

/* Returns: (nullable): the next entry, valid until the next call; %NULL: there is none. Flushes
 * standard output before it reads. */
const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self);

/* Returns the file's name for messages. */
const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file);
