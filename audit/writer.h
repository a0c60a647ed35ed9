/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/ring.h"
#include "audit/sink.h"

/*
 * A thread that takes draws out of rings and writes their lines to one sink. What the sink does not
 * take is kept and tried again; meanwhile the rings fill up, and then they drop. So whatever the
 * sink does, no more memory is used than the rings and the lines at hand, and whoever puts does not
 * wait.
 *
 * Nobody wakes the thread for a draw: it looks 100 times a second while there are some, and 5 times
 * a second when there are none.
 *
 * Logs what becomes of the sink. The main thread's only.
 */
typedef struct _AuditWriter AuditWriter;

/* @sink: (transfer full). @name: what the log calls it */
AuditWriter *audit_writer_new(AuditSink *sink, const char *name);
/* If it runs, ends it first, whatever is left to write. One that hangs is not freed. */
void audit_writer_free(AuditWriter *self);

/* Before the start. A ring to take from; borrowed, lives as long as the writer. */
AuditRing *audit_writer_add_ring(AuditWriter *self, gsize bytes);

gboolean audit_writer_start(AuditWriter *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Has the sink opened again; see AuditSinkOps. */
void audit_writer_reopen(AuditWriter *self);

/* Nobody puts any more: the thread ends when all is written, or at @by_us, monotonic time. */
void audit_writer_finish(AuditWriter *self, gint64 by_us);

/* After audit_writer_finish(). Waits for the end, a moment longer than was said there; a thread
 * that hangs in the sink is left alone then, until the process ends. */
void audit_writer_join(AuditWriter *self);

/* Any thread: what the log calls the sink, borrowed; and whether the log said last that it is
 * failing. */
const char *audit_writer_name(const AuditWriter *self);
gboolean audit_writer_is_failing(const AuditWriter *self);

/* Any thread: IDs that were put and are not written yet; and those that were dropped. */
guint64 audit_writer_queued_ids(const AuditWriter *self);
guint64 audit_writer_dropped_ids(const AuditWriter *self);
