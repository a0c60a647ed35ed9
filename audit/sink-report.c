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

void audit_sink_report_clear(AuditSinkReport *self)
{
	g_clear_pointer(&self->last_error, g_free);
}

void audit_sink_report_failure(AuditSinkReport *self, const char *error, guint64 dropped_ids,
			       gint64 now_us)
{
	g_free(self->last_error);
	self->last_error = g_strdup(error);
	self->failed_last_at_us = now_us;
	self->failures++;
	self->all_failures++;
	if (self->failing)
		return;
	self->failing = TRUE;
	self->all_failures = 1;
	self->failed_first_at_us = now_us;
	self->dropped_at_start = dropped_ids;
	self->dropped_reported = dropped_ids;
	log_event(LOG_AUDIT_FAILED, log_text("sink", self->sink), log_text("error", error));
}

void audit_sink_report_success(AuditSinkReport *self)
{
	self->failures = 0;
}

void audit_sink_report_missing(AuditSinkReport *self, guint64 ids)
{
	self->unlogged_missing += ids;
}

static void log_recovery(AuditSinkReport *self, guint64 dropped_ids)
{
	gint64 failed_us = self->failed_last_at_us - self->failed_first_at_us;

	self->failing = FALSE;
	log_event(LOG_AUDIT_RECOVERED, log_text("sink", self->sink),
		  log_number("failures", self->all_failures),
		  log_number("failed_ms", failed_us / G_TIME_SPAN_MILLISECOND),
		  log_number("dropped_ids", (gint64)(dropped_ids - self->dropped_at_start)));
}

static void log_drops(AuditSinkReport *self, guint64 dropped_ids, gint64 now_us)
{
	log_event(LOG_AUDIT_DROPPING, log_text("sink", self->sink),
		  log_text("error", self->last_error),
		  log_number("ids", (gint64)(dropped_ids - self->dropped_reported)),
		  log_number("total_ids", (gint64)dropped_ids),
		  log_text("meaning", "the queue is full, and the audit log gets no entries for "
				      "these IDs"));
	self->dropped_reported = dropped_ids;
	self->next_drop_event_at_us = now_us + DROPS_EVERY_US;
}

void audit_sink_report_log(AuditSinkReport *self, guint64 dropped_ids, gint64 now_us,
			   gboolean is_end)
{
	if (self->failing && self->failures == 0 && !is_end &&
	    now_us - self->failed_last_at_us >= RECOVERED_AFTER_US)
		log_recovery(self, dropped_ids);
	if (self->failing && dropped_ids > self->dropped_reported &&
	    now_us >= self->next_drop_event_at_us)
		log_drops(self, dropped_ids, now_us);
	if (self->unlogged_missing > 0 && (is_end || now_us >= self->next_gap_event_at_us)) {
		log_event(LOG_AUDIT_GAP, log_text("sink", self->sink),
			  log_number("ids", (gint64)self->unlogged_missing));
		self->unlogged_missing = 0;
		self->next_gap_event_at_us = now_us + GAPS_EVERY_US;
	}
}
