/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fork-guard.h"
#include "core/text.h"

/* Returns whether standard error is the journal, which interprets <4> at the start of a line as its
 * priority. A child process inherits JOURNAL_STREAM but may have a different standard error, so the
 * variable must match the file. */
static gboolean is_journal_stderr(void)
{
	const char *stream = g_getenv("JOURNAL_STREAM");
	char own[64];
	struct stat st;

	if (stream == NULL || fstat(STDERR_FILENO, &st) != 0)
		return FALSE;
	g_snprintf(own, sizeof own, "%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT, (guint64)st.st_dev,
		   (guint64)st.st_ino);
	return strcmp(stream, own) == 0;
}

/* Each line is one write(2), so that lines of several threads and processes do not mix. If standard
 * error is full, closed or broken, lines are lost and counted, but the server does not wait. */

#define REFUSED_INTERVAL_MS    60000
#define CONNECTION_INTERVAL_MS 1000 /* anyone who can reach the port can cause these events */
#define FLEET_INTERVAL_MS      1000 /* a relay switches servers as fast as it tries them */
#define CLOCK_INTERVAL_MS      1000 /* the clock is checked ten times a second */

typedef struct {
	const char *name;
	LogLevel level;
	gint64 interval_ms; /* minimum time between two lines of the event; 0 for no limit */
} EventInfo;

static const EventInfo EVENTS[LOG_N_EVENTS] = {
#define LOG_EVENT(event, name, level, interval_ms) [event] = {name, LOG_LEVEL_##level, interval_ms},
#include "common/log-events.h"
#undef LOG_EVENT
};

static const struct {
	const char *name;
	guint syslog_priority;
} LEVELS[] = {
	[LOG_LEVEL_ERROR] = {"error", 3},
	[LOG_LEVEL_WARNING] = {"warning", 4},
	[LOG_LEVEL_INFO] = {"info", 6},
	[LOG_LEVEL_DEBUG] = {"debug", 7},
};

static _Atomic LogLevel level_shown = LOG_LEVEL_INFO;
static _Atomic LogFormat format_used = LOG_FORMAT_AUTO;
static _Atomic gboolean names_postgresql;
static _Atomic guint64 lost_lines;

/* The repeated events of one type that have the same reason. */
typedef struct {
	char *reason;          /* NULL if unused, or not for a single reason */
	gint64 quiet_until_us; /* monotonic time until which the event is not logged */
	gint64 last_us;        /* monotonic time of the last suppressed line */
	guint64 suppressed;    /* number of suppressed lines that no line has reported yet */
} Repeats;

#define REASON      "reason"
/* elements of each event: one for no reason, six for one reason each, and one for all other
 * reasons */
#define MAX_REPEATS 8

/* Protected by the lock. An event's first element is for lines without a reason. The last one is
 * for all reasons for which no other element is free. */
static pthread_mutex_t repeats_lock = PTHREAD_MUTEX_INITIALIZER;
static Repeats repeats[LOG_N_EVENTS][MAX_REPEATS];
static guint64 told_lost_lines;
static GQueue glib_lines = G_QUEUE_INIT; /* strings for g_log(), each followed by its priority */

void log_set_level(LogLevel level)
{
	atomic_store(&level_shown, level);
}

void log_set_format(LogFormat format)
{
	atomic_store(&format_used, format);
}

gboolean log_shows(LogEvent event)
{
	return EVENTS[event].level <= atomic_load(&level_shown);
}

const char *log_event_name(LogEvent event)
{
	static const char *const POSTGRESQL_NAMES[LOG_N_EVENTS] = {
		[LOG_ZOOKEEPER_CONNECTED] = "postgresql-connected",
		[LOG_ZOOKEEPER_LOST] = "postgresql-lost",
		[LOG_ZOOKEEPER_UNREACHABLE] = "postgresql-unreachable",
		[LOG_ZOOKEEPER_REFUSED] = "postgresql-refused",
	};

	return atomic_load(&names_postgresql) && POSTGRESQL_NAMES[event] != NULL
		       ? POSTGRESQL_NAMES[event]
		       : EVENTS[event].name;
}

void log_name_postgresql(void)
{
	atomic_store(&names_postgresql, TRUE);
}

guint64 log_lost_lines(void)
{
	return atomic_load(&lost_lines);
}

/* Releases the lock, and then passes the queued lines to g_log(). The program's log handler may
 * fork, wait for a thread that forks, or use a node. So during the call, this thread holds no lock,
 * and its work is paused. */
static void unlock_repeats(void)
{
	static const GLogLevelFlags FLAGS[] = {
		[3] = G_LOG_LEVEL_MESSAGE,
		[4] = G_LOG_LEVEL_MESSAGE,
		[6] = G_LOG_LEVEL_INFO,
		[7] = G_LOG_LEVEL_DEBUG,
	};
	GQueue lines = glib_lines;
	char *text;

	g_queue_init(&glib_lines);
	pthread_mutex_unlock(&repeats_lock);
	if (g_queue_is_empty(&lines))
		return;
	fork_guard_pause();
	while ((text = g_queue_pop_head(&lines)) != NULL) {
		guint priority = GPOINTER_TO_UINT(g_queue_pop_head(&lines));

		g_log(LOG_DOMAIN, FLAGS[priority], "%s", text);
		g_free(text);
	}
	fork_guard_resume();
}

/* Sends the line to the journal's own socket. sd_journal_sendv() of libsystemd and
 * g_log_writer_journald() wait while that socket is full, so a stopped journald would stop the
 * server. This function does not wait. Returns FALSE if the journal does not run, or its socket is
 * full. The caller holds the lock. */
static gboolean send_to_journal(const LogLine *line)
{
	static const struct sockaddr_un JOURNAL = {
		.sun_family = AF_UNIX,
		.sun_path = "/run/systemd/journal/socket",
	};
	static int fd = -1; /* never closed */
	g_autoptr(GString) datagram = log_line_datagram(line);

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* use the socket's name each time, because a restarted journald creates a new socket */
	return sendto(fd, datagram->str, datagram->len, MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)&JOURNAL, sizeof JOURNAL) == (ssize_t)datagram->len;
}

/* Returns FALSE if the line is lost, because the server must not hang when nobody reads its output.
 * The caller holds the lock. */
static gboolean write_line(const LogLine *line)
{
	struct pollfd standard_error = {.fd = STDERR_FILENO, .events = POLLOUT};
	LogFormat format = atomic_load(&format_used);
	g_autoptr(GString) text = g_string_sized_new(256);
	gboolean is_journal = is_journal_stderr();

	if (format == LOG_FORMAT_GLIB) {
		log_line_append(text, line, FALSE, LOG_LINE_MOST_BYTES);
		g_queue_push_tail(&glib_lines, g_strdup(text->str));
		g_queue_push_tail(&glib_lines, GUINT_TO_POINTER(line->priority));
		return TRUE;
	}
	if ((format == LOG_FORMAT_JOURNAL || (format == LOG_FORMAT_AUTO && is_journal)) &&
	    send_to_journal(line))
		return TRUE;
	if (is_journal)
		g_string_printf(text, "<%u>", line->priority);
	if (format != LOG_FORMAT_JSON && !is_journal) {
		g_autofree char *now = text_time_ms(line->time_ms);

		g_string_printf(text, "%s %s ", now, line->level);
	}
	log_line_append(text, line, format == LOG_FORMAT_JSON, LOG_LINE_MOST_BYTES - text->len - 1);
	g_string_append_c(text, '\n');
	return poll(&standard_error, 1, 0) == 1 &&
	       write(STDERR_FILENO, text->str, text->len) == (ssize_t)text->len;
}

/* The caller holds the lock. @fields: (nullable) */
static void show_event(LogEvent event, Repeats *of, const LogField *fields)
{
	const EventInfo *info = &EVENTS[event];
	g_autoptr(GArray) all = g_array_new(TRUE, FALSE, sizeof(LogField));
	guint64 untold_lost = atomic_load(&lost_lines) - told_lost_lines;
	const LogField suppressed = log_number("suppressed", (gint64)of->suppressed);
	const LogField lost = log_number("lost_lines", (gint64)untold_lost);

	for (; fields != NULL && fields->key != NULL; fields++)
		g_array_append_vals(all, fields, 1);
	if (suppressed.number > 0)
		g_array_append_vals(all, &suppressed, 1);
	if (lost.number > 0)
		g_array_append_vals(all, &lost, 1);
	if (write_line(&(LogLine){
		    .time_ms = g_get_real_time() / 1000,
		    .level = LEVELS[info->level].name,
		    .priority = LEVELS[info->level].syslog_priority,
		    .event = log_event_name(event),
		    .fields = (const LogField *)(gpointer)all->data,
	    })) {
		of->suppressed = 0;
		told_lost_lines += untold_lost;
	} else {
		atomic_fetch_add(&lost_lines, 1);
	}
}

/* Reports the suppressed lines of events whose interval has ended at @now_us without another
 * repeat. Returns when the next interval ends; %G_MAXINT64 if there is none. The caller holds the
 * lock. */
static gint64 show_suppressed(gint64 now_us)
{
	gint64 next_us = G_MAXINT64;

	for (guint i = 0; i < LOG_N_EVENTS * MAX_REPEATS; i++) {
		LogEvent event = (LogEvent)(i / MAX_REPEATS);
		Repeats *of = &repeats[event][i % MAX_REPEATS];
		gint64 over_us = of->last_us + EVENTS[event].interval_ms * 1000;
		const LogField fields[] = {log_text(REASON, of->reason), {0}};

		if (of->suppressed == 0)
			continue;
		if (now_us >= over_us)
			show_event(event, of, of->reason != NULL ? fields : NULL);
		else
			next_us = MIN(next_us, over_us);
	}
	return next_us;
}

static gboolean on_timer(GSource *source, GSourceFunc callback G_GNUC_UNUSED,
			 gpointer user_data G_GNUC_UNUSED)
{
	gint64 next_us;

	pthread_mutex_lock(&repeats_lock);
	next_us = show_suppressed(g_get_monotonic_time());
	g_source_set_ready_time(source, next_us != G_MAXINT64 ? next_us : -1);
	unlock_repeats();
	return G_SOURCE_CONTINUE;
}

void log_hold_for_fork(void)
{
	pthread_mutex_lock(&repeats_lock);
}

void log_go_on_after_fork(void)
{
	pthread_mutex_unlock(&repeats_lock);
}

void log_tell_suppressed(void)
{
	pthread_mutex_lock(&repeats_lock);
	show_suppressed(G_MAXINT64);
	unlock_repeats();
}

/* The caller holds the lock. */
static Repeats *find_repeats(LogEvent event, const LogField *fields)
{
	Repeats *all = repeats[event], *unused = NULL;

	while (fields->key != NULL && strcmp(fields->key, REASON) != 0)
		fields++;
	if (fields->key == NULL || fields->text == NULL || EVENTS[event].interval_ms == 0)
		return all;
	for (guint i = 1; i < MAX_REPEATS - 1; i++) {
		if (g_strcmp0(all[i].reason, fields->text) == 0)
			return &all[i];
		if (unused == NULL && all[i].suppressed == 0 &&
		    g_get_monotonic_time() >= all[i].quiet_until_us)
			unused = &all[i];
	}
	if (unused == NULL)
		return &all[MAX_REPEATS - 1];
	g_free(unused->reason);
	unused->reason = g_strdup(fields->text);
	return unused;
}

void log_event_fields(LogEvent event, const LogField *fields)
{
	static GSourceFuncs functions = {.dispatch = on_timer};
	static GSource *timer; /* never freed */
	gint64 interval_us = EVENTS[event].interval_ms * 1000;
	gint64 now_us, ready_us;
	Repeats *of;

	if (!log_shows(event))
		return;
	pthread_mutex_lock(&repeats_lock);
	of = find_repeats(event, fields);
	/* read the clock while holding the lock, because an earlier time would make this event look
	 * like a repeat */
	now_us = g_get_monotonic_time();
	if (now_us >= of->quiet_until_us) {
		of->quiet_until_us = now_us + interval_us;
		show_event(event, of, fields);
	} else {
		of->suppressed++;
		of->last_us = now_us;
		if (timer == NULL) {
			timer = g_source_new(&functions, sizeof *timer);
			g_source_attach(timer, NULL);
		}
		ready_us = g_source_get_ready_time(timer);
		if (ready_us < 0 || now_us + interval_us < ready_us)
			g_source_set_ready_time(timer, now_us + interval_us);
	}
	unlock_repeats();
}
