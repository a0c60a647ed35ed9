/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"

/*
 * A line is one write(2), so that lines of several threads and processes do not mix. A standard
 * error that is full, closed or broken costs lines, which are counted, never time and never more
 * than the log.
 */

#define REFUSED_INTERVAL_MS    60000
#define CONNECTION_INTERVAL_MS 1000 /* anybody who reaches the port can cause these events */

typedef struct {
	const char *name;
	LogLevel level;
	gint64 interval_ms; /* between two lines of the event; 0: no limit */
} EventInfo;

static const EventInfo EVENTS[LOG_N_EVENTS] = {
	[LOG_STARTING] = {"starting", LOG_LEVEL_INFO, 0},
	[LOG_LISTENING] = {"listening", LOG_LEVEL_INFO, 0},
	[LOG_ADMIN_LISTENING] = {"admin-listening", LOG_LEVEL_INFO, 0},
	[LOG_READY] = {"ready", LOG_LEVEL_INFO, 0},
	[LOG_STOPPING] = {"stopping", LOG_LEVEL_INFO, 0},
	[LOG_RELOAD] = {"reload", LOG_LEVEL_INFO, 0},
	[LOG_SIGNAL_IGNORED] = {"signal-ignored", LOG_LEVEL_WARNING, CONNECTION_INTERVAL_MS},
	[LOG_STOPPED] = {"stopped", LOG_LEVEL_INFO, 0},
	[LOG_FAILED] = {"failed", LOG_LEVEL_ERROR, 0},
	[LOG_LIMITS] = {"limits", LOG_LEVEL_WARNING, 0},
	[LOG_STATE] = {"state", LOG_LEVEL_INFO, 0},
	[LOG_WORKER_CLAIMED] = {"worker-claimed", LOG_LEVEL_INFO, 0},
	[LOG_WORKER_WAITING] = {"worker-waiting", LOG_LEVEL_WARNING, 0},
	[LOG_WORKER_HANDED_BACK] = {"worker-handed-back", LOG_LEVEL_INFO, 0},
	[LOG_HAND_BACK_FAILED] = {"hand-back-failed", LOG_LEVEL_WARNING, 0},
	[LOG_WORKER_LOST] = {"worker-lost", LOG_LEVEL_ERROR, 0},
	[LOG_PEERS_UNREACHABLE] = {"peers-unreachable", LOG_LEVEL_WARNING, 0},
	[LOG_PEERS_CONTRADICT] = {"peers-contradict", LOG_LEVEL_WARNING, 0},
	[LOG_DIRECTORY_UNIQUE] = {"directory-unique", LOG_LEVEL_WARNING, 0},
	[LOG_WORKER_ID_DERIVED] = {"worker-id-derived", LOG_LEVEL_WARNING, 0},
	[LOG_EXTEND_FAILED] = {"extend-failed", LOG_LEVEL_WARNING, 0},
	[LOG_EXTEND_RECOVERED] = {"extend-recovered", LOG_LEVEL_INFO, 0},
	[LOG_RESERVATION_SPENT] = {"reservation-spent", LOG_LEVEL_ERROR, 0},
	[LOG_ZOOKEEPER_CONNECTED] = {"zookeeper-connected", LOG_LEVEL_INFO, 0},
	[LOG_ZOOKEEPER_LOST] = {"zookeeper-lost", LOG_LEVEL_WARNING, 0},
	[LOG_ZOOKEEPER_NAMES_UNKNOWN] = {"zookeeper-names-unknown", LOG_LEVEL_WARNING, 0},
	[LOG_ZOOKEEPER_REFUSED] = {"zookeeper-refused", LOG_LEVEL_ERROR, REFUSED_INTERVAL_MS},
	[LOG_SESSION_EXPIRED] = {"session-expired", LOG_LEVEL_WARNING, 0},
	[LOG_CLAIM_MADE] = {"claim-made", LOG_LEVEL_INFO, 0},
	[LOG_REGISTRY_SECURED] = {"registry-secured", LOG_LEVEL_WARNING, 0},
	[LOG_REGISTRATION] = {"registration", LOG_LEVEL_DEBUG, 0},
	[LOG_AUDIT_FAILED] = {"audit-failed", LOG_LEVEL_WARNING, 0},
	[LOG_AUDIT_RECOVERED] = {"audit-recovered", LOG_LEVEL_INFO, 0},
	[LOG_AUDIT_GAP] = {"audit-gap", LOG_LEVEL_WARNING, 0},
	[LOG_AUDIT_LOST] = {"audit-lost", LOG_LEVEL_ERROR, 0},
	[LOG_AUDIT_REOPENED] = {"audit-reopened", LOG_LEVEL_INFO, 0},
	[LOG_AUDIT_REOPEN_FAILED] = {"audit-reopen-failed", LOG_LEVEL_WARNING, 0},
	[LOG_CLOCK_BACK] = {"clock-back", LOG_LEVEL_WARNING, 0},
	[LOG_CLOCK_FORWARD] = {"clock-forward", LOG_LEVEL_WARNING, 0},
	[LOG_CLOCK_HELD] = {"clock-held", LOG_LEVEL_WARNING, 0},
	[LOG_CLOCK_DIFFERS] = {"clock-differs", LOG_LEVEL_WARNING, 0},
	[LOG_LAYOUT_ENDS_SOON] = {"layout-ends-soon", LOG_LEVEL_WARNING, 0},
	[LOG_CONNECTION_REFUSED] = {"connection-refused", LOG_LEVEL_ERROR, REFUSED_INTERVAL_MS},
	[LOG_ADDRESS_REFUSED] = {"address-refused", LOG_LEVEL_ERROR, REFUSED_INTERVAL_MS},
	[LOG_CONNECTION_CLOSED] = {"connection-closed", LOG_LEVEL_INFO, CONNECTION_INTERVAL_MS},
	[LOG_ACCEPT_FAILED] = {"accept-failed", LOG_LEVEL_WARNING, CONNECTION_INTERVAL_MS},
};

static const struct {
	const char *name;
	int syslog_priority;
} LEVELS[] = {
	[LOG_LEVEL_ERROR] = {"error", 3},
	[LOG_LEVEL_WARNING] = {"warning", 4},
	[LOG_LEVEL_INFO] = {"info", 6},
	[LOG_LEVEL_DEBUG] = {"debug", 7},
};

static _Atomic LogLevel level_shown = LOG_LEVEL_INFO;

/* What was left out, and until when to leave out more; under the lock. */
static pthread_mutex_t repeats_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	gint64 quiet_until_us; /* monotonic time */
	guint64 suppressed;
} repeats[LOG_N_EVENTS];

void log_set_level(LogLevel level)
{
	atomic_store(&level_shown, level);
}

/* JOURNAL_STREAM is inherited by children whose standard error may be something else, hence the
 * comparison. */
static gboolean stderr_is_journal(void)
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

static GString *begin_line(const EventInfo *info)
{
	GString *line = g_string_sized_new(256);

	if (stderr_is_journal()) {
		g_string_printf(line, "<%d>", LEVELS[info->level].syslog_priority);
	} else {
		g_autofree char *now = text_time_ms(g_get_real_time() / 1000);

		g_string_printf(line, "%s %s ", now, LEVELS[info->level].name);
	}
	g_string_append_printf(line, "event=%s", info->name);
	return line;
}

/* %FALSE if the line is lost: a reader that does not read must not hold up the server. */
static gboolean put_line(const GString *line)
{
	struct pollfd standard_error = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&standard_error, 1, 0) == 1 &&
	       write(STDERR_FILENO, line->str, line->len) == (ssize_t)line->len;
}

static void G_GNUC_PRINTF(2, 0) show_event(LogEvent event, const char *fields, va_list arguments)
{
	g_autoptr(GString) line = begin_line(&EVENTS[event]);

	g_string_append_c(line, ' ');
	g_string_append_vprintf(line, fields, arguments);
	if (repeats[event].suppressed > 0)
		g_string_append_printf(line, " suppressed=%" G_GUINT64_FORMAT,
				       repeats[event].suppressed);
	/* what fits a pipe that is writable does not block */
	g_string_truncate(line, MIN(line->len, PIPE_BUF - 1));
	g_string_append_c(line, '\n');
	if (put_line(line))
		repeats[event].suppressed = 0;
	else
		repeats[event].suppressed++;
}

void log_event(LogEvent event, const char *fields, ...)
{
	va_list arguments;
	gint64 now_us;

	if (EVENTS[event].level > atomic_load(&level_shown))
		return;
	va_start(arguments, fields);
	pthread_mutex_lock(&repeats_lock);
	/* read under the lock: a reading from before the wait for it would look like a repeat */
	now_us = g_get_monotonic_time();
	if (now_us < repeats[event].quiet_until_us) {
		repeats[event].suppressed++;
	} else {
		show_event(event, fields, arguments);
		repeats[event].quiet_until_us = now_us + EVENTS[event].interval_ms * 1000;
	}
	pthread_mutex_unlock(&repeats_lock);
	va_end(arguments);
}

/* The escapes of JSON, which readers of logfmt know. */
static void append_escaped(GString *quoted, gunichar character)
{
	switch (character) {
	case '\n':
		g_string_append(quoted, "\\n");
		break;
	case '\r':
		g_string_append(quoted, "\\r");
		break;
	case '\t':
		g_string_append(quoted, "\\t");
		break;
	case '"':
	case '\\':
		g_string_append_c(quoted, '\\');
		g_string_append_c(quoted, (char)character);
		break;
	default:
		g_string_append_printf(quoted, "\\u%04x", character);
	}
}

char *log_quote(const char *text)
{
	g_autoptr(GString) quoted = g_string_new("\"");
	gboolean plain = *text != '\0';

	for (const char *p = text; *p != '\0';) {
		gunichar c = g_utf8_get_char_validated(p, -1);
		gboolean valid = (gint)c >= 0;
		gsize length = valid ? (gsize)(g_utf8_next_char(p) - p) : 1;

		if (valid && g_unichar_isprint(c) && c != '"' && c != '\\') {
			g_string_append_len(quoted, p, (gssize)length);
			plain = plain && c != ' ' && c != '=';
		} else {
			append_escaped(quoted, valid ? c : (guchar)*p);
			plain = FALSE;
		}
		p += length;
	}
	if (plain)
		return g_strdup(text);
	g_string_append_c(quoted, '"');
	return g_string_free(g_steal_pointer(&quoted), FALSE);
}
