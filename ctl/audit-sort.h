/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/audit-record.h"

/*
 * Sorts entries of the audit log by ID, any number of them in memory that does not grow: what fills
 * it is sorted and written to a temporary file as a run, and the runs are merged, in several passes
 * where they are too many for one. The files, in $TMPDIR, have no names, so they go with the
 * process, however it ends. Each entry takes 32 bytes there, and those of its agent, rounded up to
 * 8; twice that during a pass.
 */
typedef struct _CtlAuditSort CtlAuditSort;

#define CTL_AUDIT_SORT_MIN_BYTES (1 << 20)

/* @memory_bytes: CTL_AUDIT_SORT_MIN_BYTES or more
 *
 * Returns: (nullable): %NULL if there is not as much */
CtlAuditSort *ctl_audit_sort_new(gsize memory_bytes);
void ctl_audit_sort_free(CtlAuditSort *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditSort, ctl_audit_sort_free)

/* Of @record all but the agent is taken from it. %FALSE with a GFileError set. */
gboolean ctl_audit_sort_add(CtlAuditSort *self, const CtlAuditRecord *record, const char *agent,
			    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* After the last of them, once. %FALSE with a GFileError set. */
gboolean ctl_audit_sort_finish(CtlAuditSort *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* After that: (nullable): the next one, by ID, tag, agent, file and line, until the one after;
 * %NULL: that was all, or a GFileError is set. */
const CtlAuditRecord *ctl_audit_sort_next(CtlAuditSort *self, GError **error);
