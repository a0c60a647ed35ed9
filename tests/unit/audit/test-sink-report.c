/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/sink-report.h"

#include <string.h>

#include "common/log.h"

#define UNIT_TEST_SET_UP capture_log
#include "tests/unit/unit-test.h"

#define SECOND  G_TIME_SPAN_SECOND
#define MINUTE  G_TIME_SPAN_MINUTE
#define NO_ROOM "No space left on device"

static GPtrArray *lines; /* (element-type utf8): the events that were logged */

static void on_line(const char *domain G_GNUC_UNUSED, GLogLevelFlags level G_GNUC_UNUSED,
		    const char *line, gpointer data G_GNUC_UNUSED)
{
	g_ptr_array_add(lines, g_strdup(line));
}

static void capture_log(void)
{
	lines = g_ptr_array_new_with_free_func(g_free);
	log_set_format(LOG_FORMAT_GLIB);
	g_log_set_handler(LOG_DOMAIN, G_LOG_LEVEL_MASK, on_line, NULL);
}

/* Checks that exactly these events were logged since the last call, each of which begins with its
 * text. */
static void assert_logged(const char *const *begins)
{
	g_assert_cmpuint(lines->len, ==, g_strv_length((char **)begins));
	for (guint i = 0; i < lines->len; i++) {
		g_test_message("%s", (char *)lines->pdata[i]);
		g_assert_true(g_str_has_prefix(lines->pdata[i], begins[i]));
	}
	g_ptr_array_set_size(lines, 0);
}

#define assert_events(...) assert_logged((const char *const[]){__VA_ARGS__, NULL})

/* A sink fails for 12 minutes. Its queue is full after 10 s, and then a thousand IDs are dropped
 * every 2 s. */
TEST("/sink-report/long-outage", test_long_outage)
{
	AuditSinkReport report = {.sink = "s"};
	gint64 now_us = 1000 * SECOND;
	gint64 end_us = now_us + 12 * MINUTE;
	guint64 dropped = 7; /* before the outage */

	for (guint i = 0; now_us < end_us; i++, now_us += 2 * SECOND) {
		audit_sink_report_failure(&report, NO_ROOM, dropped, now_us);
		dropped += i >= 5 ? 1000 : 0;
		audit_sink_report_log(&report, dropped, now_us, FALSE);
	}
	g_assert_true(report.is_failing);
	assert_events(
		"event=audit-failed sink=s error=\"" NO_ROOM "\"",
		"event=audit-dropping sink=s error=\"" NO_ROOM "\" ids=1000 total_ids=1007 "
		"meaning=",
		"event=audit-dropping sink=s error=\"" NO_ROOM "\" ids=150000 total_ids=151007 ",
		"event=audit-dropping sink=s error=\"" NO_ROOM "\" ids=150000 total_ids=301007 ");
	/* it writes again, and first reports what is missing */
	report.n_consecutive_failures = 0;
	report.unlogged_missing += dropped - 7;
	audit_sink_report_log(&report, dropped, report.failed_last_at_us + SECOND, FALSE);
	g_assert_false(report.is_failing);
	assert_events("event=audit-recovered sink=s failures=360 failed_ms=718000 "
		      "dropped_ids=355000",
		      "event=audit-gap sink=s ids=355000");
	audit_sink_report_log(&report, dropped, now_us + MINUTE, TRUE);
	g_assert_cmpuint(lines->len, ==, 0);
	g_free(report.last_error);
}

/* If the queue holds all draws, nothing is lost. */
TEST("/sink-report/nothing-dropped", test_nothing_dropped)
{
	AuditSinkReport report = {.sink = "s"};

	for (gint64 now_us = 0; now_us < 20 * MINUTE; now_us += 2 * SECOND) {
		audit_sink_report_failure(&report, NO_ROOM, 5, now_us);
		audit_sink_report_log(&report, 5, now_us, FALSE);
	}
	assert_events("event=audit-failed ");
	report.n_consecutive_failures = 0;
	audit_sink_report_log(&report, 5, 20 * MINUTE, FALSE);
	assert_events("event=audit-recovered sink=s failures=600 failed_ms=1198000 dropped_ids=0");
	g_free(report.last_error);
}

/* Each outage has its own count, but the events of all outages share the limit. */
TEST("/sink-report/two-outages", test_two_outages)
{
	AuditSinkReport report = {.sink = "s"};

	audit_sink_report_failure(&report, NO_ROOM, 0, 0);
	audit_sink_report_log(&report, 10, 0, FALSE);
	assert_events("event=audit-failed ", "event=audit-dropping ");
	report.n_consecutive_failures = 0;
	audit_sink_report_log(&report, 15, 2 * SECOND, FALSE);
	assert_events("event=audit-recovered sink=s failures=1 failed_ms=0 dropped_ids=15");
	audit_sink_report_failure(&report, "gone", 15, MINUTE);
	audit_sink_report_log(&report, 20, 5 * MINUTE - 1, FALSE);
	assert_events("event=audit-failed sink=s error=gone");
	audit_sink_report_log(&report, 40, 5 * MINUTE, FALSE);
	assert_events("event=audit-dropping sink=s error=gone ids=25 total_ids=40 ");
	g_free(report.last_error);
}

/* A success does not end an outage at once, and a failure soon after it continues the outage. */
TEST("/sink-report/intermittent", test_intermittent)
{
	AuditSinkReport report = {.sink = "s"};

	for (gint64 now_us = 0; now_us < MINUTE; now_us += SECOND / 2) {
		audit_sink_report_failure(&report, NO_ROOM, 0, now_us);
		audit_sink_report_log(&report, 0, now_us, FALSE);
		report.n_consecutive_failures = 0;
		audit_sink_report_log(&report, 0, now_us + SECOND / 4, FALSE);
	}
	assert_events("event=audit-failed ");
	audit_sink_report_log(&report, 0, 2 * MINUTE, TRUE); /* the end reports no recovery */
	g_assert_cmpuint(lines->len, ==, 0);
	g_free(report.last_error);
}
