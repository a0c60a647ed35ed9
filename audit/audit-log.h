/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/ring.h"
#include "audit/sink.h"

/* The audit log: which agent received which ID. Each sink (sink.h) gets an entry for every ID
 * (entry.h).
 *
 * For each sink, a drawing thread puts each draw into a queue (ring.h). It takes no lock, allocates
 * no memory, makes no system call and never waits. A thread per sink turns the draws into lines and
 * writes them. Draws that a sink does not accept stay in the queues. If a queue is full, draws are
 * dropped, and the sink gets a line with the number of missing IDs in their place. The entries of
 * one producer are in the order of its draws, and are interleaved with those of other producers.
 *
 * Only the main thread calls these functions, unless their comment says otherwise. */
typedef struct _AuditLog AuditLog;

/* A thread that draws. */
typedef struct _AuditProducer AuditProducer;

/* Opens the files. Connections to servers are made later.
 * @targets: (element-type AuditTarget): 0 or more
 * @queue_bytes: size of each queue, rounded down to a power of two; 1 KiB or more
 * Returns: (transfer full): a log, or %NULL with a GFileError set */
AuditLog *audit_log_new(const GPtrArray *targets, gsize queue_bytes, GError **error);
/* Frees the log and its producers. Ends the log's threads, even if some lines have not been
 * written. */
void audit_log_free(AuditLog *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AuditLog, audit_log_free)

/* Adds a sink. Call it before adding a producer. audit_log_new() adds the sinks of its targets.
 * @sink: (transfer full). @name: its name in the log */
void audit_log_add_sink(AuditLog *self, AuditSink *sink, const char *name);

/* Adds a producer. Call it before the start. Returns: (nullable): borrowed; lives as long as the
 * log; %NULL if there are no sinks */
AuditProducer *audit_log_add_producer(AuditLog *self);

gboolean audit_log_start(AuditLog *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Lets the writers reopen their files. */
void audit_log_reopen(AuditLog *self);

/* Starts to empty the queues, until @by_us, a monotonic time. Call it after the last draw. */
void audit_log_finish(AuditLog *self, gint64 by_us);

/* Waits for the writers, after audit_log_finish(). Entries that are not written by then are lost,
 * and a log event reports them. */
void audit_log_join(AuditLog *self);

typedef struct {
	const char *sink; /* the target as the operator wrote it; lives as long as the log */
	/* IDs that wait to be written, and IDs dropped since the start */
	guint64 queued_ids, dropped_ids;
	gboolean is_failing; /* the sink is failing, according to its last log event */
} AuditSinkStatus;

/* Can be called from any thread. Returns %FALSE if there is no sink number @nth, counted from 0. */
gboolean audit_log_get_sink(const AuditLog *self, guint nth, AuditSinkStatus *out_status);

/* Can be called from any thread. Returns the sums of the numbers of all sinks. */
AuditSinkStatus audit_log_sum(const AuditLog *self);

/* Records that @agent received the IDs in @run. Call it only in the producer's thread. @length:
 * length of @agent, 1 to AUDIT_AGENT_MAX_BYTES */
void audit_producer_issued(AuditProducer *self, const IdRun *run, const char *agent, gsize length);
