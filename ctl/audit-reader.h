/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/entry.h"

/*
 * Reads the entries in audit log files, one file after the other. A damaged line is skipped, and
 * reported on standard error with its file and line number. The memory used does not depend on the
 * length of a file or a line.
 */
typedef struct _CtlAuditReader CtlAuditReader;

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

/* Return the index of the last entry's file, counted from 0, and its line number, counted from
 * 1. */
guint ctl_audit_reader_get_file(const CtlAuditReader *self);
guint64 ctl_audit_reader_get_line(const CtlAuditReader *self);

/* Returns the file's name, for messages. */
const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file);

/* Return the number of bytes read so far, and the total size of all files; 0 if unknown. */
guint64 ctl_audit_reader_read_bytes(const CtlAuditReader *self);
guint64 ctl_audit_reader_all_bytes(const CtlAuditReader *self);

/* Returns whether a line was damaged, or a file could not be read to its end. */
gboolean ctl_audit_reader_any_bad(const CtlAuditReader *self);
