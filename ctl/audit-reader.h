/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/entry.h"

/*
 * Reads the entries of audit log files, one file after the other. A damaged line is skipped, and
 * named on standard error with its file and number. Memory does not depend on the length of a file
 * or a line.
 */
typedef struct _CtlAuditReader CtlAuditReader;

/* @files: NULL-terminated, borrowed: "-" is standard input, and so are none
 *
 * Returns: (nullable): %NULL, and the message is out, if one of them is not there, is a directory
 * or may not be read: CTL_USAGE */
CtlAuditReader *ctl_audit_reader_new(const char *const *files);
void ctl_audit_reader_free(CtlAuditReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditReader, ctl_audit_reader_free)

/* (nullable): the next entry, valid until the next call; %NULL: there is none. Flushes standard
 * output before it reads. */
const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self);

/* The file, from 0, and the line, from 1, of the last entry. */
guint ctl_audit_reader_get_file(const CtlAuditReader *self);
guint64 ctl_audit_reader_get_line(const CtlAuditReader *self);

/* As messages name it. */
const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file);

/* The bytes that were read, and the bytes of all files; 0 if that is not known. */
guint64 ctl_audit_reader_read_bytes(const CtlAuditReader *self);
guint64 ctl_audit_reader_all_bytes(const CtlAuditReader *self);

/* Whether a line was damaged or a file could not be read to its end. */
gboolean ctl_audit_reader_any_bad(const CtlAuditReader *self);
