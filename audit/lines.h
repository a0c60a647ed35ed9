/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/ring.h"

/*
 * The audit log's lines, as the service of 2010 wrote them: each is base64 of an AuditLogEntry (1:
 * i64 id, 2: string useragent, 3: i64 tag) in Thrift's binary protocol, and a newline. The tag
 * belongs to the entry: it is the same in every sink and every delivery, and an ID that was issued
 * twice has two tags. The tag of ID number n of a draw is tags + n, mixed; the next draw of the
 * producer begins after its last ID. The first begins at a random number.
 *
 * Where entries are missing stands an entry with ID 0 and no useragent, which no call can have: its
 * tag is how many IDs are missing there.
 */
typedef struct {
	GByteArray *entry; /* of the last draw's agent, for the next one's ... */
	GByteArray *line;  /* ... and what it becomes */
	GByteArray *bytes; /* the lines; to be emptied by the user */
	guint n_lines;
	guint n_ids;       /* of them, those that are IDs */
	guint64 n_missing; /* IDs that the others say are missing */
} AuditLines;

void audit_lines_init(AuditLines *self);
void audit_lines_clear(AuditLines *self);

void audit_lines_empty(AuditLines *self);

/* Appends lines of @draw from its ID number @from on, so that there are @most in all at the most.
 * Returns how many IDs of it there are lines of now, @from included. */
guint audit_lines_append(AuditLines *self, const AuditDraw *draw, guint from, guint most);

/* Appends a line that says how many IDs, 1 or more, are missing. */
void audit_lines_append_missing(AuditLines *self, guint64 missing);
