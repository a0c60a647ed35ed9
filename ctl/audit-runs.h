/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/audit-record.h"

/* Sorted runs of records, one after the other in a temporary file in $TMPDIR. It has no name, so
 * it goes with the process, however that ends. Errors are GFileErrors. */
typedef struct _CtlAuditRuns CtlAuditRuns;

CtlAuditRuns *ctl_audit_runs_new(GError **error);
void ctl_audit_runs_free(CtlAuditRuns *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditRuns, ctl_audit_runs_free)

/* To the run that is being written. */
gboolean ctl_audit_runs_append(CtlAuditRuns *self, const CtlAuditRecord *record,
			       GError **error) G_GNUC_WARN_UNUSED_RESULT;
gboolean ctl_audit_runs_end_run(CtlAuditRuns *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;
guint ctl_audit_runs_count(const CtlAuditRuns *self);

/* Several runs as one. Takes CTL_AUDIT_MERGE_RUN_BYTES of memory for each. */
typedef struct _CtlAuditMerge CtlAuditMerge;

#define CTL_AUDIT_MERGE_RUN_BYTES ((gsize)64 * 1024)

/* @runs: borrowed. From the run @first on, up to @count of them. */
CtlAuditMerge *ctl_audit_merge_new(const CtlAuditRuns *runs, guint first, guint count,
				   GError **error);
void ctl_audit_merge_free(CtlAuditMerge *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlAuditMerge, ctl_audit_merge_free)

/* (nullable): the next record of all of them, until the one after; %NULL: that was all, or @error
 * is set. */
const CtlAuditRecord *ctl_audit_merge_next(CtlAuditMerge *self, GError **error);
