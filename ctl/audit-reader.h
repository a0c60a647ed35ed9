/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/entry.h"

/*
 * Reads the entries in audit log files, one file after the other. A damaged line is skipped, and
 * reported on standard error with its file and number. Memory does not depend on the length of a
 * file or a line.
 */
typedef struct _CtlAuditReader CtlAuditReader;

/* @files: NULL-terminated, borrowed: "-" is standard input, which is also the default
 *
 * Returns: (nullable): %NULL, with the message printed, if one of them does not exist, is a
 * directory or is not readable: CTL_USAGE */
CtlAuditReader *ctl_audit_reader_new(const char *const *files);
void ctl_audit_reader_free(CtlAuditReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditReader, ctl_audit_reader_free)

/* Returns: (nullable): the next entry, valid until the next call; %NULL if there is none. Flushes
 * standard output before it reads. */
const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self);

/* Return the file, from 0, and the line, from 1, of the last entry. */
guint ctl_audit_reader_get_file(const CtlAuditReader *self);
guint64 ctl_audit_reader_get_line(const CtlAuditReader *self);

/* Returns the file's name for messages. */
const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file);

/* Return the number of bytes read so far, and the size of all files; 0 if it is unknown. */
guint64 ctl_audit_reader_read_bytes(const CtlAuditReader *self);
guint64 ctl_audit_reader_all_bytes(const CtlAuditReader *self);

/* Returns whether a line was damaged, or a file could not be read to its end. */
gboolean ctl_audit_reader_any_bad(const CtlAuditReader *self);
