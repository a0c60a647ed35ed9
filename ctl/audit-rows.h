/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "ctl/output.h"

/* Entries of the audit log on standard output, each as soon as it is known: a table, whose columns
 * do not depend on what comes, or JSON. */
typedef struct {
	const Layout *layout; /* of the IDs */
	gboolean json;
	gboolean with_place;
	gboolean is_short; /* lines without the tag */
	gboolean any_line;
	CtlArray array;
} CtlAuditRows;

/* @with_place: file and line are shown */
void ctl_audit_rows_init(CtlAuditRows *self, const Layout *layout, gboolean json,
			 gboolean with_place);

typedef struct {
	gint64 id;
	gint64 tag;
	const char *agent;
	gsize agent_length;
	const char *file; /* this and the next only where places are shown */
	guint64 line;
} CtlAuditRow;

void ctl_audit_rows_add(CtlAuditRows *self, const CtlAuditRow *row);
void ctl_audit_rows_add_gap(CtlAuditRows *self, guint64 missing);

/* @failed: the command */
void ctl_audit_rows_end(CtlAuditRows *self, gboolean failed);
