/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "tests/unit/hang-guard.h"

#define UNIT_TEST_SET_UP set_up_all
#include "tests/unit/unit-test.h"

#define TIME       "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
#define N_THREADS  8
#define N_LINES    1000
#define PIPE_BYTES 4096 /* PIPE_BUF */

static int saved_stderr;

/* Redirects standard error to @fd, which it closes, until restore_stderr(). */
static void replace_stderr(int fd)
{
	g_assert_cmpint(fd, >=, 0);
	saved_stderr = dup(STDERR_FILENO);
	g_assert_cmpint(dup2(fd, STDERR_FILENO), ==, STDERR_FILENO);
	close(fd);
}

static void restore_stderr(void)
{
	g_assert_cmpint(dup2(saved_stderr, STDERR_FILENO), ==, STDERR_FILENO);
	close(saved_stderr);
}

/* Path of the file that receives standard error until capture_end(), which returns the lines. */
static char *capture_path;

static void capture_begin(void)
{
	replace_stderr(g_file_open_tmp("log-XXXXXX", &capture_path, NULL));
}

static char **captured_lines(void)
{
	g_autofree char *text = NULL;

	g_assert_true(g_file_get_contents(capture_path, &text, NULL, NULL));
	g_assert_true(*text == '\0' || g_str_has_suffix(text, "\n"));
	text[*text == '\0' ? 0 : strlen(text) - 1] = '\0';
	return g_strsplit(text, "\n", -1);
}

static char **capture_end(void)
{
	char **lines = captured_lines();

	restore_stderr();
	unlink(capture_path);
	g_clear_pointer(&capture_path, g_free);
	return lines;
}

static void assert_matches(const char *line, const char *pattern)
{
	g_autofree char *whole = g_strdup_printf("^%s$", pattern);

	g_test_message("%s", line);
	g_assert_true(g_regex_match_simple(whole, line, G_REGEX_DOLLAR_ENDONLY, 0));
}

TEST("/log/level", test_level)
{
	static const struct {
		LogLevel level;
		guint n_lines; /* lines after an error, a warning and an info */
	} CASES[] = {
		{LOG_LEVEL_ERROR, 1},
		{LOG_LEVEL_WARNING, 2},
		{LOG_LEVEL_INFO, 3},
		{LOG_LEVEL_DEBUG, 3},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(GStrv) lines = NULL;

		log_set_level(CASES[i].level);
		capture_begin();
		log_event(LOG_FAILED, log_number("a", 1));
		log_event(LOG_WORKER_WAITING, log_number("a", 1));
		log_event(LOG_STATE, log_number("a", 1));
		lines = capture_end();
		g_assert_cmpuint(g_strv_length(lines), ==, CASES[i].n_lines);
	}
	log_set_level(LOG_LEVEL_INFO);
}

/* One line of each event, logged before the tests by a separate process, because a process does not
 * log an event with a rate limit again soon. */
static char **event_lines;

static void log_each_event(void)
{
	pid_t child;

	capture_begin();
	child = fork();
	if (child == 0) {
		log_set_level(LOG_LEVEL_DEBUG);
		for (LogEvent event = 0; event < LOG_N_EVENTS; event++)
			log_event(event, log_number("a", 1));
		_exit(0);
	}
	g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
	event_lines = capture_end();
	g_assert_cmpuint(g_strv_length(event_lines), ==, LOG_N_EVENTS);
}

/* Logs @event repeatedly until its second line is written. Returns this line, and the number of
 * calls before it. */
static char *second_line(LogEvent event, guint *out_before)
{
	gint64 limit_us = g_get_monotonic_time() + HANG_GUARD_US;
	g_auto(GStrv) lines = NULL;
	guint n = 0;

	do {
		poll(NULL, 0, 10);
		log_event(event, log_number("n", n++));
		g_strfreev(lines);
		lines = captured_lines();
		g_assert_cmpint(g_get_monotonic_time(), <, limit_us);
	} while (g_strv_length(lines) < 2);
	*out_before = n - 1;
	return g_strdup(lines[1]);
}

TEST("/log/repeats", test_repeats)
{
	static const LogEvent LIMITED[] = {LOG_CONNECTION_CLOSED, LOG_ACCEPT_FAILED};

	for (gsize i = 0; i < G_N_ELEMENTS(LIMITED); i++) {
		gint64 begin_us = g_get_monotonic_time();
		g_autofree char *line = NULL;
		g_autofree char *pattern = NULL;
		g_autofree char *suppressed = NULL;
		guint before;

		capture_begin();
		line = second_line(LIMITED[i], &before);
		g_strfreev(capture_end());
		g_assert_cmpint(g_get_monotonic_time() - begin_us, >=, G_USEC_PER_SEC);
		/* No line is suppressed if the machine stalls for that long after the first. */
		suppressed = before > 1 ? g_strdup_printf(" suppressed=%u", before - 1) : NULL;
		pattern = g_strdup_printf(".* event=(connection-closed|accept-failed) n=%u%s",
					  before, suppressed != NULL ? suppressed : "");
		assert_matches(line, pattern);
	}
}

/* The last repeats are reported when their interval ends, even if nothing more is logged, and only
 * once. */
TEST("/log/repeats-end", test_repeats_end)
{
	gint64 begin_us = g_get_monotonic_time();
	gint64 limit_us = begin_us + HANG_GUARD_US;
	g_auto(GStrv) lines = NULL;

	capture_begin();
	for (guint i = 0; i < 5; i++)
		log_event(LOG_SIGNAL_IGNORED, log_number("n", i));
	do {
		g_assert_cmpint(g_get_monotonic_time(), <, limit_us);
		poll(NULL, 0, 10);
		g_main_context_iteration(NULL, FALSE);
		g_strfreev(lines);
		lines = captured_lines();
	} while (g_strv_length(lines) < 2);
	g_assert_cmpint(g_get_monotonic_time() - begin_us, >=, G_USEC_PER_SEC);
	log_tell_suppressed();
	g_assert_false(g_main_context_pending(NULL));
	g_strfreev(lines);
	lines = capture_end();
	g_assert_cmpuint(g_strv_length(lines), ==, 2);
	assert_matches(lines[0], TIME "warning event=signal-ignored n=0");
	assert_matches(lines[1], TIME "warning event=signal-ignored suppressed=4");
}

/* Repeats are also reported when the server ends. The interval of this event is a minute. */
TEST("/log/report-suppressed", test_report_suppressed)
{
	g_auto(GStrv) lines = NULL;

	capture_begin();
	for (guint i = 0; i < 3; i++)
		log_event(LOG_ZOOKEEPER_REFUSED, log_number("n", i));
	log_tell_suppressed();
	log_tell_suppressed();
	lines = capture_end();
	g_assert_cmpuint(g_strv_length(lines), ==, 2);
	assert_matches(lines[1], TIME "error event=zookeeper-refused suppressed=2");
}

/* Each reason of an event has a separate limit. */
TEST("/log/reasons", test_reasons)
{
	g_auto(GStrv) lines = NULL;

	capture_begin();
	for (guint i = 0; i < 3; i++) {
		log_event(LOG_CONNECTION_REFUSED, log_number("n", i), log_text("reason", "one"));
		log_event(LOG_CONNECTION_REFUSED, log_number("n", i), log_text("reason", "other"));
	}
	log_event(LOG_CONNECTION_REFUSED, log_number("n", 3), log_text("reason", "other"));
	log_tell_suppressed();
	lines = capture_end();
	g_assert_cmpuint(g_strv_length(lines), ==, 4);
	assert_matches(lines[0], TIME "error event=connection-refused n=0 reason=one");
	assert_matches(lines[1], TIME "error event=connection-refused n=0 reason=other");
	assert_matches(lines[2], TIME "error event=connection-refused reason=one suppressed=2");
	assert_matches(lines[3], TIME "error event=connection-refused reason=other suppressed=3");
}

/* The slot of a reason that was not logged for its interval is used for another reason. Otherwise
 * "b" would share a limit with "a", which is always logged before it. */
TEST("/log/many-reasons", test_many_reasons)
{
	static const char *const REASONS[] = {"1", "2", "3", "4", "5", "6"};
	gint64 limit_us = g_get_monotonic_time() + HANG_GUARD_US;
	g_autofree char *text = NULL;

	capture_begin();
	for (gsize i = 0; i < G_N_ELEMENTS(REASONS); i++)
		log_event(LOG_HANDSHAKE_FAILED, log_text("reason", REASONS[i]));
	do {
		g_assert_cmpint(g_get_monotonic_time(), <, limit_us);
		poll(NULL, 0, 10);
		log_event(LOG_HANDSHAKE_FAILED, log_text("reason", "a"));
		log_event(LOG_HANDSHAKE_FAILED, log_text("reason", "b"));
		g_free(text);
		g_assert_true(g_file_get_contents(capture_path, &text, NULL, NULL));
	} while (strstr(text, " reason=b") == NULL);
	log_tell_suppressed();
	g_strfreev(capture_end());
}

TEST("/log/journal", test_journal)
{
	static const struct {
		LogEvent event;
		const char *line;
	} CASES[] = {
		{LOG_FAILED, "<3>event=failed a=1"},
		{LOG_WORKER_WAITING, "<4>event=worker-waiting a=1"},
		{LOG_STATE, "<6>event=state a=1"},
	};
	g_autofree char *own = NULL;
	g_auto(GStrv) lines = NULL;
	struct stat st;

	capture_begin();
	g_assert_cmpint(fstat(STDERR_FILENO, &st), ==, 0);
	own = g_strdup_printf("%lu:%lu", (gulong)st.st_dev, (gulong)st.st_ino);
	g_setenv("JOURNAL_STREAM", own, TRUE);
	log_set_format(LOG_FORMAT_LOGFMT); /* keeps the lines out of a journal on this machine */
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		log_event(CASES[i].event, log_number("a", 1));
	lines = capture_end();
	log_set_format(LOG_FORMAT_AUTO);
	g_unsetenv("JOURNAL_STREAM");
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		g_assert_cmpstr(lines[i], ==, CASES[i].line);
}

TEST("/log/another-journal", test_another_journal)
{
	static const char *const OTHERS[] = {"", "1:2", "x", "8:999999999999"};

	for (gsize i = 0; i < G_N_ELEMENTS(OTHERS); i++) {
		g_auto(GStrv) lines = NULL;

		g_setenv("JOURNAL_STREAM", OTHERS[i], TRUE);
		capture_begin();
		log_event(LOG_STATE, log_number("a", 1));
		lines = capture_end();
		g_unsetenv("JOURNAL_STREAM");
		assert_matches(lines[0], TIME "info event=state a=1");
	}
}

/* A line that cannot be written is lost, but counted. */
TEST("/log/write-fails", test_write_fails)
{
	g_auto(GStrv) lines = NULL;
	guint64 lost_before = log_lost_lines();

	replace_stderr(open("/dev/full", O_WRONLY | O_CLOEXEC));
	log_event(LOG_STATE, log_number("a", 1));
	log_event(LOG_STATE, log_number("a", 2));
	restore_stderr();
	capture_begin();
	log_event(LOG_STATE, log_number("a", 3));
	log_event(LOG_STATE, log_number("a", 4));
	lines = capture_end();
	assert_matches(lines[0], TIME "info event=state a=3 lost_lines=2");
	assert_matches(lines[1], TIME "info event=state a=4");
	g_assert_cmpuint(log_lost_lines() - lost_before, ==, 2);
}

/* The pipe has no reader: the test would hang if logging blocked. */
TEST("/log/full-pipe", test_full_pipe)
{
	g_autofree char *text = g_strnfill(PIPE_BYTES / 2, 'x');
	char buffer[PIPE_BYTES];
	gint64 written = 0;
	ssize_t n;
	int fds[2];

	g_assert_cmpint(pipe(fds), ==, 0);
	g_assert_cmpint(fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES), >=, 0);
	g_assert_cmpint(fcntl(fds[0], F_SETFL, O_NONBLOCK), ==, 0);
	replace_stderr(fds[1]);
	for (guint i = 0; i < 10; i++)
		log_event(LOG_WORKER_WAITING, log_text("text", text));
	while ((n = read(fds[0], buffer, sizeof buffer)) > 0)
		written += n;
	log_event(LOG_WORKER_WAITING, log_number("a", 1));
	n = read(fds[0], buffer, sizeof buffer - 1);
	restore_stderr();
	close(fds[0]);
	g_assert_cmpint(written, >, PIPE_BYTES / 2);
	g_assert_cmpint(written, <=, PIPE_BYTES);
	g_assert_cmpint(n, >, 0);
	buffer[n] = '\0';
	g_assert_nonnull(strstr(buffer, "event=worker-waiting a=1 lost_lines=9\n"));
}

TEST("/log/long-line", test_long_line)
{
	g_autofree char *text = g_strnfill(10 * PIPE_BYTES, 'x');
	g_auto(GStrv) lines = NULL;

	capture_begin();
	log_event(LOG_STATE, log_text("text", text));
	log_event(LOG_STATE, log_number("a", 1));
	lines = capture_end();
	g_assert_cmpuint(strlen(lines[0]), <, PIPE_BYTES);
	g_assert_cmpuint(strlen(lines[0]), >, PIPE_BYTES / 4);
	g_assert_true(g_str_has_suffix(lines[0], "x..."));
	g_assert_true(g_str_has_suffix(lines[1], "event=state a=1"));
}

static void *log_many(void *thread)
{
	for (guint i = 0; i < N_LINES; i++)
		log_event(LOG_STATE, log_number("thread", GPOINTER_TO_UINT(thread)),
			  log_number("line", i));
	return NULL;
}

TEST("/log/threads", test_threads)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
	pthread_t threads[N_THREADS];
	g_auto(GStrv) lines = NULL;

	capture_begin();
	for (guint i = 0; i < N_THREADS; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, log_many, GUINT_TO_POINTER(i)),
				==, 0);
	for (guint i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	lines = capture_end();
	g_assert_cmpuint(g_strv_length(lines), ==, N_THREADS * N_LINES);
	for (char **line = lines; *line != NULL; line++) {
		char *fields = strstr(*line, " info event=state thread=");

		g_assert_nonnull(fields);
		g_assert_true(g_hash_table_add(seen, fields));
	}
}

/* Each event has a unique name that needs no quotes. The manual documents exactly these events,
 * with their levels. It also lists their IDs, in a table that the test prints if it is wrong. */
TEST("/log/events", test_events)
{
	g_autofree char *path =
		g_test_build_filename(G_TEST_DIST, "docs", "man", "snowflaked.8", NULL);
	g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
	g_autoptr(GString) table = g_string_new("\n.nf\n");
	g_autofree char *manual = NULL;
	g_auto(GStrv) entries = NULL;
	char *ids;

	g_assert_true(g_file_get_contents(path, &manual, NULL, NULL));
	ids = strstr(manual, "\n.SS Message IDs\n");
	g_assert_nonnull(ids);
	*ids = '\0';
	entries = g_strsplit(strstr(manual, "\n.SS Events\n"), "\n.TP\n", -1);
	g_assert_cmpuint(g_strv_length(entries), ==, LOG_N_EVENTS + 1);
	for (LogEvent event = 0; event < LOG_N_EVENTS; event++) {
		/* time, level, event=... */
		g_auto(GStrv) words = g_strsplit(event_lines[event], " ", 0);
		const char *name = strchr(words[2], '=') + 1;
		g_auto(GStrv) parts = g_strsplit(name, "-", 0);
		g_autofree char *written = g_strjoinv("\\-", parts);
		g_autofree char *begin = g_strdup_printf(".B %s\n(%s)", written, words[1]);
		g_autofree char *id = log_line_message_id(name);

		assert_matches(event_lines[event],
			       TIME "(error|warning|info|debug) event=[a-z]+(-[a-z]+)* a=1");
		g_assert_true(g_hash_table_add(names, strstr(event_lines[event], "event=")));
		g_test_message("%s", begin);
		g_assert_true(g_str_has_prefix(entries[event + 1], begin));
		g_string_append_printf(table, "%s %s\n", id, written);
	}
	g_string_append(table, ".fi\n");
	*ids = '\n';
	if (strstr(ids, table->str) == NULL)
		g_test_message("%s", table->str);
	g_assert_nonnull(strstr(ids, table->str));
}

static void set_up_all(void)
{
	g_unsetenv("JOURNAL_STREAM");
	log_each_event();
}
