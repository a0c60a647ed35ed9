/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/address.h"

/* The target of an audit log, as an operator writes it:
 *
 *   file:PATH                          an absolute path
 *   scribe://HOST[:PORT][/CATEGORY]    default: port 1463 and category "snowflake" */
typedef struct {
	char *text;       /* the target as the operator wrote it */
	char *path;       /* NULL for a Scribe server */
	Address *address; /* NULL for a file */
	char *category;   /* NULL for a file */
} AuditTarget;

/* Parses @text. Does not open a file or resolve a name. Returns: (transfer full): the target, or
 * %NULL with a GOptionError set, which quotes @text and gives the expected form. */
AuditTarget *audit_target_parse(const char *text, GError **error);
void audit_target_free(AuditTarget *self);

/* Returns whether the file of @self can be written now: it exists, or can be created in its
 * directory. If not, sets a GFileError. Does not create the file, and does not contact a Scribe
 * server. */
gboolean audit_target_check(const AuditTarget *self, GError **error);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AuditTarget, audit_target_free)

/* An open target: a file or a Scribe server. Only one thread may use it. Calls may block. */
typedef struct _AuditSink AuditSink;

typedef struct {
	guint max_lines; /* maximum number of lines in one write() */

	/* Writes @lines. After an error, some of them may have been written, and the caller writes
	 * the same lines again. @limit_ms: 1 or more; time after which a write to a server fails */
	gboolean (*write)(AuditSink *self, const GByteArray *lines, guint limit_ms, GError **error);

	/* Reopens a file that was renamed. @lines: the next lines to write, some of which may
	 * already have been written. After an error, the sink continues with the old file. NULL if
	 * the sink has no file. */
	gboolean (*reopen)(AuditSink *self, const GByteArray *lines, GError **error);

	/* Makes all written lines durable, after the last write. NULL if the sink needs no such
	 * step. */
	gboolean (*sync)(AuditSink *self, GError **error);

	void (*free)(AuditSink *self);
} AuditSinkOps;

/* The first member of every sink. */
struct _AuditSink {
	const AuditSinkOps *ops;
};

/* Appends to a regular file. If the file does not exist, it is created, and owner and group can
 * read it. If the file ends with an incomplete line, the first write ends that line.
 * Returns: (transfer full): a sink, or %NULL with a GFileError set */
AuditSink *audit_sink_new_file(const char *path, GError **error);

#define SCRIBE_DEFAULT_PORT     1463
#define SCRIBE_DEFAULT_CATEGORY "snowflake"

/* Sends lines to a Scribe server, as messages of one category, with the call
 *
 *   enum ResultCode { OK, TRY_LATER }
 *   struct LogEntry { 1: string category, 2: string message }
 *   ResultCode Log(1: list<LogEntry> messages)
 *
 * framed, in the binary protocol. Connects in the first write, and again after an error. If a reply
 * is lost, its messages are sent twice. Returns: (transfer full). @address: copied */
AuditSink *audit_sink_new_scribe(const Address *address, const char *category);
