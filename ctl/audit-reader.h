/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/entry.h"

/*
 * The entries of the audit log's files, one after the other. What is damaged is named on standard
 * error, with its file and line, and passed over. Memory does not depend on how long a file or a
 * line is.
 */
typedef struct _CtlAuditReader CtlAuditReader;

/* @files: NULL-terminated, borrowed: "-" is standard input, and so are none
 *
 * Returns: (nullable): %NULL, and the message is out, if one of them is not there, is a directory
 * or may not be read: CTL_USAGE */
CtlAuditReader *ctl_audit_reader_new(const char *const *files);
void ctl_audit_reader_free(CtlAuditReader *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditReader, ctl_audit_reader_free)

/* (nullable): the next entry, until the one after; %NULL: that was all. Where it has to wait for
 * bytes, what is printed was flushed before. */
const AuditEntry *ctl_audit_reader_next(CtlAuditReader *self);

/* Of the entry that was read last: which file it is in, from 0, and which line, from 1. */
guint ctl_audit_reader_get_file(const CtlAuditReader *self);
guint64 ctl_audit_reader_get_line(const CtlAuditReader *self);

/* As messages name it. */
const char *ctl_audit_reader_file_name(const CtlAuditReader *self, guint file);

/* How many bytes of how many were read; 0 in all, if that is not known. */
guint64 ctl_audit_reader_read_bytes(const CtlAuditReader *self);
guint64 ctl_audit_reader_all_bytes(const CtlAuditReader *self);

/* Whether anything was damaged, or could not be read to its end. */
gboolean ctl_audit_reader_any_bad(const CtlAuditReader *self);
