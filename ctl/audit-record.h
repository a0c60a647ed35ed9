/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <string.h>

/* An entry of the audit log, and where it stands, as it is sorted. */
typedef struct {
	gint64 id;
	gint64 tag;
	guint64 line;
	guint32 file;
	guint32 agent_length; /* up to 4096 */
	char agent[];         /* no NUL after it */
} CtlAuditRecord;

#define CTL_AUDIT_RECORD_MAX_BYTES (sizeof(CtlAuditRecord) + 4096)

/* What it takes where records follow each other, each in its alignment. */
static inline gsize ctl_audit_record_bytes(const CtlAuditRecord *self)
{
	return sizeof(*self) + (self->agent_length + 7) / 8 * 8;
}

/* By tag and agent, of records with the same ID. 0: it is one issue of the ID, which was delivered
 * twice. */
static inline int ctl_audit_record_compare_issue(const CtlAuditRecord *a, const CtlAuditRecord *b)
{
	if (a->tag != b->tag)
		return a->tag < b->tag ? -1 : 1;
	if (a->agent_length != b->agent_length)
		return a->agent_length < b->agent_length ? -1 : 1;
	return memcmp(a->agent, b->agent, a->agent_length);
}

/* By ID, then as above, then by file and line. */
static inline int ctl_audit_record_compare(const CtlAuditRecord *a, const CtlAuditRecord *b)
{
	int order;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	order = ctl_audit_record_compare_issue(a, b);
	if (order != 0)
		return order;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}
