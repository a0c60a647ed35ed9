/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * An entry of the audit log, read back from its line: lines.h has what that is. Not of the server
 * here alone: that of 2010 wrote such lines too.
 */

#define AUDIT_ENTRY_MAX_LINE_BYTES 4096 /* the service's own are below 400 */

/* Points into itself, so it is not to be copied. */
typedef struct {
	gint64 id;         /* 0 or more */
	gint64 tag;        /* a random number, which tells one issue of an ID from another */
	const char *agent; /* any bytes, and no NUL after them */
	guint agent_length;
	guint64 missing; /* 0: an entry; else a gap of so many IDs, and the rest is 0 */
	guint8 bytes[AUDIT_ENTRY_MAX_LINE_BYTES / 4 * 3 + 3];
} AuditEntry;

/**
 * audit_entry_parse:
 * @line: without its end
 * @out_entry: (out): undefined on failure
 * @out_reason: (out): on failure what is wrong with it
 *
 * Reads what a Thrift library writes, and nothing else: fields in their order, no others, no bytes
 * after them, base64 without blanks.
 */
gboolean audit_entry_parse(const char *line, gsize length, AuditEntry *out_entry,
			   const char **out_reason) G_GNUC_WARN_UNUSED_RESULT;
