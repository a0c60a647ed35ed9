/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/ring.h"

/*
 * The lines of the audit log, as the original service wrote them: base64 of an AuditLogEntry (1:
 * i64 id, 2: string useragent, 3: i64 tag) in Thrift's binary protocol, and a newline.
 *
 * The tag belongs to the entry: it is the same in every sink and every delivery, and an ID that was
 * issued twice has two tags. The tag of ID number n of a draw is tags + n, mixed; the tags of the
 * producer's next draw follow. The first draw begins at a random number.
 *
 * Where entries are missing, the log contains an entry with ID 0 and an empty useragent, which no
 * call can have. Its tag is the number of missing IDs.
 */

/* Reading */

#define AUDIT_ENTRY_MAX_LINE_BYTES 4096 /* the service's own are below 400 */

/* Points into itself, so it must not be copied. */
typedef struct {
	gint64 id; /* 0 or more */
	gint64 tag;
	const char *agent; /* any bytes, not terminated */
	guint agent_length;
	guint64 missing; /* 0: an entry; otherwise so many IDs are missing, and all else is 0 */
	guint8 bytes[AUDIT_ENTRY_MAX_LINE_BYTES / 4 * 3 + 3];
} AuditEntry;

/**
 * audit_entry_parse:
 * @line: without its end
 * @out_entry: (out): undefined on failure
 * @out_reason: (out): on failure what is wrong with it
 *
 * Accepts what a Thrift library writes, also the original service's, and nothing else: fields in
 * their order, no others, no bytes after them, base64 without blanks.
 */
gboolean audit_entry_parse(const char *line, gsize length, AuditEntry *out_entry,
			   const char **out_reason) G_GNUC_WARN_UNUSED_RESULT;

/* Writing */

typedef struct {
	GByteArray *entry; /* the last draw's agent, reused while the agent stays the same ... */
	GByteArray *line;  /* ... and its line */
	GByteArray *bytes; /* the lines; the user empties them */
	guint n_lines;
	guint n_ids;       /* lines that contain an ID */
	guint64 n_missing; /* IDs that the other lines report missing */
} AuditLines;

void audit_lines_init(AuditLines *self);
void audit_lines_clear(AuditLines *self);

void audit_lines_empty(AuditLines *self);

/* Appends lines for the IDs of @draw from number @from on, up to @most lines in all. Returns the
 * number of the first ID without a line. */
guint audit_lines_append(AuditLines *self, const AuditDraw *draw, guint from, guint most);

/* Appends a line that reports @missing IDs, 1 or more. */
void audit_lines_append_missing(AuditLines *self, guint64 missing);
