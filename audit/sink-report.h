/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Reports the failures of one sink in the server's log: that it fails, how many IDs are dropped
 * meanwhile, that it works again, and how many IDs are missing. Each event about lost IDs contains
 * the number since the last one, and is logged at most once in an interval.
 *
 * Only one thread may use it. The caller passes the monotonic time. */
typedef struct {
	const char *sink; /* the name of the sink in the log; borrowed */
	/* the last event says that the sink fails; any thread can read it */
	_Atomic gboolean is_failing;
	guint n_consecutive_failures; /* the user sets it to 0 after a success */
	/* the current or last outage, which begins with the event that the sink fails */
	guint n_outage_failures;
	gint64 failed_first_at_us, failed_last_at_us;
	char *last_error;         /* (nullable): freed by the user */
	guint64 dropped_at_start; /* IDs that were dropped before this outage */
	guint64 dropped_reported; /* IDs that were dropped before this outage, or are in an event */
	gint64 next_drop_event_at_us;
	/* missing IDs that no event has reported yet; the user adds those that a line in the sink
	 * reports */
	guint64 unlogged_missing;
	gint64 next_gap_event_at_us;
} AuditSinkReport;

/* Records a failed write. @dropped_ids: see audit_sink_report_log() */
void audit_sink_report_failure(AuditSinkReport *self, const char *error, guint64 dropped_ids,
			       gint64 now_us);

/* Logs what is due.
 * @dropped_ids: number of IDs that were dropped since the start
 * @is_end: this is the last call */
void audit_sink_report_log(AuditSinkReport *self, guint64 dropped_ids, gint64 now_us,
			   gboolean is_end);
