/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Where lines of the audit log go. A sink has a thread of its own, which alone calls it, and may
 * wait in it.
 */
typedef struct _AuditSink AuditSink;

typedef struct {
	guint max_lines; /* in a write */

	/* Takes @lines, all of them or, with an error, not for sure: then it is called again, with
	 * the same. @limit_ms: 1 or more. It fails if it takes longer, where it can tell. */
	gboolean (*write)(AuditSink *self, const GByteArray *lines, guint limit_ms, GError **error);

	/* Opens again what may have been renamed. @lines: the next ones to write, of which part may
	 * have been written. After an error it goes on as it was. NULL: there is nothing to open.
	 */
	gboolean (*reopen)(AuditSink *self, const GByteArray *lines, GError **error);

	/* After the last write: what was taken is to outlive the machine. NULL: nothing to do. */
	gboolean (*sync)(AuditSink *self, GError **error);

	void (*free)(AuditSink *self);
} AuditSinkOps;

/* What every sink begins with. */
struct _AuditSink {
	const AuditSinkOps *ops;
};
