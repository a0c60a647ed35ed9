/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/layout.h"

/*
 * The audit log: who got which ID. Each of its sinks (target.h) gets an entry for every ID, as
 * lines.h has it.
 *
 * Threads that draw put each draw into a queue of their own for each sink, which costs no lock, no
 * memory and no system call, and never waits. A thread for each sink makes lines of them and writes
 * them (writer.h). What a sink does not take is kept in the queues; what does not fit them is
 * dropped, and the log says at its place how many IDs are missing. Entries of different producers
 * mix, those of one stand in the order of its draws.
 *
 * The main thread's, where nothing else is said.
 */
typedef struct _AuditLog AuditLog;

/* Of one thread that draws. */
typedef struct _AuditProducer AuditProducer;

/**
 * audit_log_new:
 * @targets: of AuditTarget, 0 or more
 * @queue_bytes: of each queue, rounded down to a power of two; 1 KiB or more
 *
 * Opens the files. Servers are connected to later.
 *
 * Returns: (transfer full): a log, or %NULL with a GFileError set
 */
AuditLog *audit_log_new(const GPtrArray *targets, gsize queue_bytes, GError **error);
/* Frees the producers too. Ends what runs, whatever is left to write. */
void audit_log_free(AuditLog *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AuditLog, audit_log_free)

/* Before the start. (nullable): borrowed, lives as long as the log; %NULL if there are no sinks */
AuditProducer *audit_log_add_producer(AuditLog *self);

gboolean audit_log_start(AuditLog *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Opens the files again, soon. */
void audit_log_reopen(AuditLog *self);

/* Nobody draws any more: what is in the queues is written till @by_us, monotonic time. */
void audit_log_finish(AuditLog *self, gint64 by_us);

/* After audit_log_finish(): waits for that. What was not written is lost, and logged as such. */
void audit_log_join(AuditLog *self);

/* Any thread, summed up over the sinks: IDs that are not written yet; and those that were dropped,
 * since the start. */
guint64 audit_log_queued_ids(const AuditLog *self);
guint64 audit_log_dropped_ids(const AuditLog *self);

/* Any thread. @sink: as it was given */
typedef struct {
	const char *sink;
	guint64 queued_ids, dropped_ids;
	gboolean failing; /* it takes nothing now */
} AuditSinkStatus;

/* Of the first sink, the second, ...: %FALSE if there are no more. */
gboolean audit_log_get_sink(const AuditLog *self, guint nth, AuditSinkStatus *out_status);

/* The producer's thread: @agent, of @length bytes, 1 to AUDIT_AGENT_MAX_BYTES, got the IDs of
 * @run. */
void audit_producer_issued(AuditProducer *self, const IdRun *run, const char *agent, gsize length);
