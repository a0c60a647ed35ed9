/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/address.h"

/*
 * Where an audit log goes, as an operator writes it:
 *
 *   file:PATH                          an absolute path
 *   scribe://HOST[:PORT][/CATEGORY]    port 1463 and category "snowflake", if they are left out
 */
typedef struct {
	char *text;       /* as it was given */
	char *path;       /* NULL: a server of Scribe */
	Address *address; /* NULL: a file */
	char *category;   /* NULL: a file */
} AuditTarget;

/* (transfer full) (nullable): or %NULL with a GOptionError set, which quotes @text and says what to
 * write. Nothing is opened or looked up. */
AuditTarget *audit_target_parse(const char *text, GError **error);
void audit_target_free(AuditTarget *self);

/* Returns whether the file of @self can be written now: it exists, or can be created in its
 * directory. %FALSE with a GFileError set. Creates nothing. A Scribe server is not contacted. */
gboolean audit_target_check(const AuditTarget *self, GError **error);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AuditTarget, audit_target_free)

/*
 * The destination itself, a file or a Scribe server. Only one thread calls a sink, and a call can
 * block it.
 */
typedef struct _AuditSink AuditSink;

typedef struct {
	guint max_lines; /* in a write */

	/* Writes @lines. After an error part of them can be written: the caller writes the same
	 * lines again. @limit_ms: 1 or more; a sink that can time out fails after it. */
	gboolean (*write)(AuditSink *self, const GByteArray *lines, guint limit_ms, GError **error);

	/* Opens again a file that was renamed. @lines: the next ones to write, of which part can be
	 * written. After an error the sink continues unchanged. NULL: there is nothing to open. */
	gboolean (*reopen)(AuditSink *self, const GByteArray *lines, GError **error);

	/* Makes all written lines durable, after the last write. NULL: there is nothing to do. */
	gboolean (*sync)(AuditSink *self, GError **error);

	void (*free)(AuditSink *self);
} AuditSinkOps;

/* Every sink begins with this. */
struct _AuditSink {
	const AuditSinkOps *ops;
};

/**
 * audit_sink_new_file:
 *
 * Appends to a regular file. If it does not exist, it is created for owner and group. If the file
 * ends within a line, the first write ends that line.
 *
 * Returns: (transfer full): a sink, or %NULL with a GFileError set
 */
AuditSink *audit_sink_new_file(const char *path, GError **error);

#define SCRIBE_DEFAULT_PORT     1463
#define SCRIBE_DEFAULT_CATEGORY "snowflake"

/**
 * audit_sink_new_scribe:
 * @address: copied
 *
 * Sends lines as messages of a category to a Scribe server, by its call
 *
 *   enum ResultCode { OK, TRY_LATER }
 *   struct LogEntry { 1: string category, 2: string message }
 *   ResultCode Log(1: list<LogEntry> messages)
 *
 * framed, in the binary protocol. Connects with the first write, and again after an error. If a
 * reply is lost, its messages are sent twice.
 *
 * Returns: (transfer full)
 */
AuditSink *audit_sink_new_scribe(const Address *address, const char *category);
