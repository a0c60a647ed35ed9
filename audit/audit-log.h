/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/ring.h"
#include "audit/sink.h"

/*
 * The audit log: which agent received which ID. Each sink (sink.h) gets an entry for every ID
 * (entry.h).
 *
 * A thread that draws puts each draw into one queue (ring.h) per sink. It takes no lock, allocates
 * no memory, makes no system call and never waits. A thread per sink turns the draws into lines and
 * writes them. Draws that a sink does not accept stay in the queues. If a queue is full, its draws
 * are dropped, and the log reports at that place how many IDs are missing. Entries of one producer
 * are in the order of its draws, mixed with entries of other producers.
 *
 * Only the main thread calls these functions, unless their comment says otherwise.
 */
typedef struct _AuditLog AuditLog;

/* One thread that draws. */
typedef struct _AuditProducer AuditProducer;

/**
 * audit_log_new:
 * @targets: of AuditTarget, 0 or more
 * @queue_bytes: of each queue, rounded down to a power of two; 1 KiB or more
 *
 * Opens the files. Connections to servers are made later.
 *
 * Returns: (transfer full): a log, or %NULL with a GFileError set
 */
AuditLog *audit_log_new(const GPtrArray *targets, gsize queue_bytes, GError **error);
/* Also frees the producers. Ends the log's threads, even if some lines have not been written. */
void audit_log_free(AuditLog *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AuditLog, audit_log_free)

/* Adds a sink, before any producer. audit_log_new() adds the sinks of its targets. @sink: (transfer
 * full). @name: its name in the log */
void audit_log_add_sink(AuditLog *self, AuditSink *sink, const char *name);

/* Call it before the start. Returns: (nullable): borrowed, lives as long as the log; %NULL if there
 * are no sinks */
AuditProducer *audit_log_add_producer(AuditLog *self);

gboolean audit_log_start(AuditLog *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Lets the writers reopen their files. */
void audit_log_reopen(AuditLog *self);

/* Call it after the last draw. The writers empty the queues until @by_us, monotonic time. */
void audit_log_finish(AuditLog *self, gint64 by_us);

/* After audit_log_finish(): waits for the writers. Entries that are not written are lost, and
 * logged as lost. */
void audit_log_join(AuditLog *self);

typedef struct {
	const char *sink; /* the target as the operator wrote it; lives as long as the log */
	/* IDs that wait to be written, and IDs dropped since the start */
	guint64 queued_ids, dropped_ids;
	gboolean failing; /* the last log event of the sink says that it fails */
} AuditSinkStatus;

/* Can be called from any thread. Returns %FALSE if there are no more than @nth sinks. */
gboolean audit_log_get_sink(const AuditLog *self, guint nth, AuditSinkStatus *out_status);

/* Can be called from any thread. Returns the sums of the numbers of all sinks. */
AuditSinkStatus audit_log_sum(const AuditLog *self);

/* Records that @agent received the IDs in @run. Call it only in the producer's thread. @length:
 * length of @agent, 1 to AUDIT_AGENT_MAX_BYTES */
void audit_producer_issued(AuditProducer *self, const IdRun *run, const char *agent, gsize length);
