/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/sink-report.h"

#include "common/log.h"

/* A sink counts as recovered after this time without a failure, so that a sink that fails
 * intermittently does not fill the log. */
#define RECOVERED_AFTER_US G_TIME_SPAN_SECOND

/* The minimum time between two events about missing IDs, and between two events about dropped IDs
 * during an outage. */
#define GAPS_EVERY_US  G_TIME_SPAN_MINUTE
#define DROPS_EVERY_US (5 * G_TIME_SPAN_MINUTE)

void audit_sink_report_failure(AuditSinkReport *self, const char *error, guint64 dropped_ids,
			       gint64 now_us)
{
	g_free(self->last_error);
	self->last_error = g_strdup(error);
	self->failed_last_at_us = now_us;
	self->n_consecutive_failures++;
	self->n_outage_failures++;
	if (self->is_failing)
		return;
	self->is_failing = TRUE;
	self->n_outage_failures = 1;
	self->failed_first_at_us = now_us;
	self->dropped_at_start = dropped_ids;
	self->dropped_reported = dropped_ids;
	log_event(LOG_AUDIT_FAILED, log_text("sink", self->sink), log_text("error", error));
}

void audit_sink_report_log(AuditSinkReport *self, guint64 dropped_ids, gint64 now_us,
			   gboolean is_end)
{
	if (self->is_failing && self->n_consecutive_failures == 0 && !is_end &&
	    now_us - self->failed_last_at_us >= RECOVERED_AFTER_US) {
		gint64 failed_us = self->failed_last_at_us - self->failed_first_at_us;

		self->is_failing = FALSE;
		log_event(
			LOG_AUDIT_RECOVERED, log_text("sink", self->sink),
			log_number("failures", self->n_outage_failures),
			log_number("failed_ms", failed_us / G_TIME_SPAN_MILLISECOND),
			log_number("dropped_ids", (gint64)(dropped_ids - self->dropped_at_start)));
	}
	if (self->is_failing && dropped_ids > self->dropped_reported &&
	    now_us >= self->next_drop_event_at_us) {
		log_event(LOG_AUDIT_DROPPING, log_text("sink", self->sink),
			  log_text("error", self->last_error),
			  log_number("ids", (gint64)(dropped_ids - self->dropped_reported)),
			  log_number("total_ids", (gint64)dropped_ids),
			  log_text("meaning", "the queue is full, and the audit log gets no "
					      "entries for these IDs"));
		self->dropped_reported = dropped_ids;
		self->next_drop_event_at_us = now_us + DROPS_EVERY_US;
	}
	if (self->unlogged_missing > 0 && (is_end || now_us >= self->next_gap_event_at_us)) {
		log_event(LOG_AUDIT_GAP, log_text("sink", self->sink),
			  log_number("ids", (gint64)self->unlogged_missing));
		self->unlogged_missing = 0;
		self->next_gap_event_at_us = now_us + GAPS_EVERY_US;
	}
}
