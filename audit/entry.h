/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/ring.h"

/* The lines of the audit log, in the format of the original service: base64 of an AuditLogEntry in
 * Thrift's binary protocol, and a newline. Its fields are 1: i64 id, 2: string useragent, 3: i64
 * tag.
 *
 * The tag identifies the entry: it is the same in every sink and every delivery, and an ID that was
 * issued twice has two different tags. The tag of ID number n in a draw is a hash of tags + n. The
 * first draw of a producer begins with a random number, and each later draw with the next number.
 *
 * In place of missing entries, the log contains an entry with ID 0 and an empty useragent, which no
 * call can produce. Its tag is the number of missing IDs. */

/* Reading */

#define AUDIT_ENTRY_MAX_LINE_BYTES 4096 /* lines that this service writes are shorter than 400 */

/* Contains pointers to itself, so it must not be copied. */
typedef struct {
	gint64 id; /* 0 or more */
	gint64 tag;
	const char *agent; /* any bytes; not NUL-terminated */
	guint agent_length;
	/* 0 for an entry; otherwise the number of missing IDs, and all other fields are 0 */
	guint64 missing;
	guint8 bytes[AUDIT_ENTRY_MAX_LINE_BYTES / 4 * 3 + 3];
} AuditEntry;

/* Accepts exactly what Thrift libraries write, including the original service's library: the
 * fields in order, no other fields, no bytes after them, and base64 without whitespace.
 * @line: the line without its newline
 * @out_entry: (out): undefined on failure
 * Returns: (nullable): %NULL, or what is wrong with the line */
const char *audit_entry_parse(const char *line, gsize length,
			      AuditEntry *out_entry) G_GNUC_WARN_UNUSED_RESULT;

/* Writing */

typedef struct {
	/* entry for the last draw's agent, reused while the agent stays the same */
	GByteArray *entry;
	GByteArray *line;  /* the line for that entry */
	GByteArray *bytes; /* the appended lines; the caller clears them */
	guint n_lines;
	guint n_ids;       /* number of lines that contain an ID */
	guint64 n_missing; /* number of IDs that the other lines report as missing */
} AuditLines;

void audit_lines_init(AuditLines *self);
void audit_lines_clear(AuditLines *self);

void audit_lines_empty(AuditLines *self);

/* Appends lines for the IDs of @draw, at most @most lines, beginning with the ID at index @from.
 * Returns the index of the first ID without a line. */
guint audit_lines_append(AuditLines *self, const AuditDraw *draw, guint from, guint most);

/* Appends a line that reports @missing IDs as missing. @missing: 1 or more */
void audit_lines_append_missing(AuditLines *self, guint64 missing);
