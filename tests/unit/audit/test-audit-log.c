/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-log.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/sink.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

static gint64 end_us(void)
{
	return g_get_monotonic_time() + HANG_GUARD_US;
}

static IdRun run_of(guint64 first, guint count)
{
	return (IdRun){
		.first_cursor = first, .count = count, .sequence_bits = 12, .time_shift = 12};
}

static AuditSinkStatus status_of(const AuditLog *log, guint nth)
{
	AuditSinkStatus status;

	g_assert_true(audit_log_get_sink(log, nth, &status));
	return status;
}

/* The status of each sink: the first has written all lines, the second has no listener. */
TEST("/audit-log/status", test_status)
{
	g_autofree char *directory = g_dir_make_tmp("audit-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "log", NULL);
	g_autofree char *file = g_strconcat("file:", path, NULL);
	g_autoptr(GPtrArray) targets =
		g_ptr_array_new_with_free_func((GDestroyNotify)audit_target_free);
	gint64 limit_us = end_us();
	const IdRun run = run_of(1000, 5);
	AuditSinkStatus untouched = {.sink = "untouched"};
	g_autoptr(AuditLog) log = NULL;
	AuditProducer *producer;

	g_ptr_array_add(targets, audit_target_parse(file, NULL));
	g_ptr_array_add(targets, audit_target_parse("scribe://127.0.0.1:1", NULL));
	log = audit_log_new(targets, 65536, NULL);
	producer = audit_log_add_producer(log);
	audit_producer_issued(producer, &run, "agent", 5);
	for (guint nth = 0; nth < 2; nth++) {
		g_assert_cmpuint(status_of(log, nth).queued_ids, ==, 5);
		g_assert_false(status_of(log, nth).is_failing);
	}
	g_assert_true(audit_log_start(log, NULL));
	while ((status_of(log, 0).queued_ids > 0 || !status_of(log, 1).is_failing) &&
	       g_get_monotonic_time() < limit_us)
		g_usleep(1000); /* lint: allow sleep: until both have tried */
	g_assert_cmpstr(status_of(log, 0).sink, ==, file);
	g_assert_cmpuint(status_of(log, 0).queued_ids, ==, 0);
	g_assert_cmpuint(status_of(log, 0).dropped_ids, ==, 0);
	g_assert_false(status_of(log, 0).is_failing);
	g_assert_cmpstr(status_of(log, 1).sink, ==, "scribe://127.0.0.1:1");
	g_assert_cmpuint(status_of(log, 1).queued_ids, ==, 5);
	g_assert_true(status_of(log, 1).is_failing);
	g_assert_false(audit_log_get_sink(log, 2, &untouched));
	g_assert_cmpstr(untouched.sink, ==, "untouched");
	g_assert_cmpint(g_unlink(path), ==, 0);
	g_assert_cmpint(g_rmdir(directory), ==, 0);
}

/* A sink that accepts nothing until a test allows it, from any thread. */
typedef struct {
	AuditSink sink;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	gboolean works;
	guint tries;
	GString *taken;
} Sink;

static gboolean sink_write(AuditSink *sink, const GByteArray *lines, guint limit_ms G_GNUC_UNUSED,
			   GError **error)
{
	Sink *self = (Sink *)sink;
	gboolean works;

	pthread_mutex_lock(&self->mutex);
	works = self->works;
	self->tries++;
	if (works)
		g_string_append_len(self->taken, (const char *)lines->data, lines->len);
	else
		g_set_error_literal(error, G_FILE_ERROR, G_FILE_ERROR_NOSPC, "no room");
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
	return works;
}

static void sink_free(AuditSink *sink G_GNUC_UNUSED)
{
}

static const AuditSinkOps SINK_OPS = {.max_lines = 10, .write = sink_write, .free = sink_free};

static void sink_init(Sink *self)
{
	*self = (Sink){.sink = {&SINK_OPS}, .taken = g_string_new(NULL)};
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
}

static void sink_clear(Sink *self)
{
	g_string_free(self->taken, TRUE);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
}

static void sink_await_tries(Sink *self, guint tries)
{
	pthread_mutex_lock(&self->mutex);
	while (self->tries < tries)
		pthread_cond_wait(&self->changed, &self->mutex);
	pthread_mutex_unlock(&self->mutex);
}

static void sink_mend(Sink *self)
{
	pthread_mutex_lock(&self->mutex);
	self->works = TRUE;
	pthread_mutex_unlock(&self->mutex);
}

/* The last line says that IDs are missing. */
static gboolean sink_has_gap(const Sink *self, guint64 ids)
{
	g_auto(GStrv) lines = g_strsplit(self->taken->str, "\n", -1);
	gsize length;
	g_autofree guchar *entry = g_base64_decode(lines[g_strv_length(lines) - 2], &length);
	guint64 tag;

	memcpy(&tag, entry + length - 9, sizeof tag);
	return length == 30 && GUINT64_FROM_BE(tag) == ids;
}

/* Issues the same run @draws times, and checks that both sinks receive the same lines. Returns:
 * (transfer full): the lines */
static char *issue_to_two_files(const IdRun *run, guint draws)
{
	g_autofree char *directory = g_dir_make_tmp("audit-XXXXXX", NULL);
	g_autoptr(GPtrArray) targets =
		g_ptr_array_new_with_free_func((GDestroyNotify)audit_target_free);
	g_autoptr(AuditLog) log = NULL;
	AuditProducer *producer;
	char *texts[2];

	for (guint i = 0; i < 2; i++) {
		g_autofree char *target = g_strdup_printf("file:%s/%u", directory, i);

		g_ptr_array_add(targets, audit_target_parse(target, NULL));
	}
	log = audit_log_new(targets, 65536, NULL);
	producer = audit_log_add_producer(log);
	for (guint i = 0; i < draws; i++)
		audit_producer_issued(producer, run, "agent", 5);
	g_assert_true(audit_log_start(log, NULL));
	audit_log_finish(log, end_us());
	audit_log_join(log);
	for (guint i = 0; i < 2; i++) {
		const char *path = ((const AuditTarget *)targets->pdata[i])->path;

		g_assert_true(g_file_get_contents(path, &texts[i], NULL, NULL));
		g_assert_cmpint(g_unlink(path), ==, 0);
	}
	g_assert_cmpint(g_rmdir(directory), ==, 0);
	g_assert_cmpstr(texts[0], ==, texts[1]);
	g_free(texts[1]);
	return texts[0];
}

/* Tags differ although the IDs are the same. */
TEST("/audit-log/tags", test_tags)
{
	const IdRun run = run_of(1000, 2);
	g_autofree char *text = issue_to_two_files(&run, 2);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

	g_assert_cmpuint(g_strv_length(lines), ==, 5); /* the last one is empty */
	g_assert_cmpstr(lines[0], !=, lines[2]);
	g_assert_cmpstr(lines[1], !=, lines[3]);
}

/* Returns: (transfer full): a log with @sink alone */
static AuditLog *log_to_sink(Sink *sink, AuditProducer **out_producer)
{
	g_autoptr(GPtrArray) no_targets = g_ptr_array_new();
	AuditLog *log = audit_log_new(no_targets, 1024, NULL);

	sink_init(sink);
	audit_log_add_sink(log, &sink->sink, "test");
	*out_producer = audit_log_add_producer(log);
	return log;
}

static void issue_many(AuditProducer *producer, guint draws)
{
	for (guint i = 0; i < draws; i++) {
		const IdRun run = run_of(1 + i, 1);

		audit_producer_issued(producer, &run, "agent", 5);
	}
}

/* The log buffers what fits, drops the rest, and accounts for each ID at the end. */
TEST("/audit-log/sink-that-fails", test_sink_that_fails)
{
	Sink sink;
	AuditProducer *producer;
	g_autoptr(AuditLog) log = log_to_sink(&sink, &producer);
	guint64 dropped;

	g_assert_true(audit_log_start(log, NULL));
	issue_many(producer, 10);
	sink_await_tries(&sink, 2);
	issue_many(producer, 100);
	dropped = audit_log_sum(log).dropped_ids;
	g_assert_cmpuint(dropped, >=, 100 - 21);
	g_assert_cmpuint(audit_log_sum(log).queued_ids, ==, 110 - dropped);
	sink_mend(&sink);
	audit_log_finish(log, end_us());
	audit_log_join(log);
	g_assert_cmpuint(audit_log_sum(log).queued_ids, ==, 0);
	g_assert_true(sink_has_gap(&sink, dropped));
	g_clear_pointer(&log, audit_log_free);
	sink_clear(&sink);
}

TEST("/audit-log/end-of-patience", test_end_of_patience)
{
	Sink sink;
	AuditProducer *producer;
	g_autoptr(AuditLog) log = log_to_sink(&sink, &producer);

	issue_many(producer, 5);
	g_assert_true(audit_log_start(log, NULL));
	sink_await_tries(&sink, 1);
	audit_log_finish(log, g_get_monotonic_time());
	audit_log_join(log);
	g_assert_cmpuint(audit_log_sum(log).queued_ids, ==, 5);
	g_clear_pointer(&log, audit_log_free);
	sink_clear(&sink);
}
