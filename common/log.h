/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <limits.h>

/* The server's log, a sequence of events with fields. On standard error, an event is one line,
 * in logfmt:
 *
 *   2026-01-31T12:00:00.000Z warning event=extend-failed error="no space left on device"
 *
 * or a JSON object. In the journal (systemd-journald), it is an entry with a journal field such as
 * SNOWFLAKE_ERROR for each field. Its message is the part of the line that begins with event=. If
 * the journal does not accept an entry, the event is written to standard error. If standard error
 * also belongs to the journal (JOURNAL_STREAM), the line contains no time, and begins with the
 * priority for journald: <4>event=....
 *
 * log-events.h lists all events. Thread-safe. Never blocks: a line that cannot be written at once
 * is lost, and counted. A write to a broken pipe raises SIGPIPE, which the program ignores. */
typedef enum {
#define LOG_EVENT(event, name, level, interval_ms) event,
#include "common/log-events.h"
#undef LOG_EVENT
	LOG_N_EVENTS
} LogEvent;

typedef enum { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } LogLevel;

typedef enum {
	LOG_FORMAT_AUTO, /* the journal if standard error is the journal, otherwise logfmt */
	LOG_FORMAT_LOGFMT,
	LOG_FORMAT_JSON,
	LOG_FORMAT_JOURNAL,
	/* for the library: g_log() with LOG_DOMAIN, which the program handles; not a value of
	 * --log-format */
	LOG_FORMAT_GLIB,
} LogFormat;

/* For LOG_FORMAT_GLIB: errors and warnings become messages, which GLib prints by default, because
 * some programs, especially tests, abort at g_warning(). */
#define LOG_DOMAIN "Snowflake"

/* Sets the least severe level that is logged; LOG_LEVEL_INFO by default. */
void log_set_level(LogLevel level);

/* From now on, the names of the events of the shared registry begin with postgresql- instead of
 * zookeeper-. */
void log_name_postgresql(void);

/* Sets the format; LOG_FORMAT_AUTO by default. */
void log_set_format(LogFormat format);

/* A field of an event, created by log_text() or log_number(). Its strings are borrowed until
 * log_event() returns. */
typedef struct {
	const char *key; /* consists of a to z and _; must not be time, level or event */
	const char *text;
	gint64 number; /* the value if text is NULL */
} LogField;

/* @text: any bytes, quoted as the format requires; NULL for "" */
static inline LogField log_text(const char *key, const char *text)
{
	return (LogField){.key = key, .text = text != NULL ? text : ""};
}

static inline LogField log_number(const char *key, gint64 number)
{
	return (LogField){.key = key, .number = number};
}

/* Some events are limited: one line per interval for each value of the field "reason". Up to six
 * reasons are limited separately at a time. Further reasons share a limit until one of the six has
 * had no event for the interval. The next line of the event with the same reason reports the
 * suppressed lines as suppressed=N. If there is no such line within the interval, the main loop
 * (GLib's default context) reports them in a line with only the reason. Lost lines are reported as
 * lost_lines=N in the next line. No line is longer than 4096 bytes: longer strings are truncated.
 * @event: a LogEvent
 * @...: one LogField or more */
#define log_event(event, ...) log_event_fields((event), (const LogField[]){__VA_ARGS__, {0}})

/* @fields: ends with an element whose key is NULL */
void log_event_fields(LogEvent event, const LogField *fields);

/* Returns whether the event is logged at the current level, for callers whose fields are expensive
 * to compute. */
gboolean log_shows(LogEvent event);

/* Returns: the value of event= in the lines of @event */
const char *log_event_name(LogEvent event);

/* Reports all suppressed lines. Call it at the end, when no main loop runs. */
void log_tell_suppressed(void);

/* Handlers for pthread_atfork(). No thread writes a line between the two calls, so the child can
 * log too. */
void log_hold_for_fork(void);
void log_go_on_after_fork(void);

/* Returns the number of lines that have been lost since the start, because neither standard error
 * nor the journal accepted them. */
guint64 log_lost_lines(void);

/* Formats one event. The functions below are in log-line.c, and are used by log.c and by tests. */
typedef struct {
	gint64 time_ms; /* since the Unix epoch */
	const char *level;
	guint priority; /* a priority of syslog(3) */
	const char *event;
	const LogField *fields; /* ends with an element whose key is NULL */
} LogLine;

/* The maximum length of a line, including its newline: a writable pipe accepts this many bytes
 * without blocking. In a longer line, the longest strings are shortened, and end with "...". */
#define LOG_LINE_MOST_BYTES 4096
G_STATIC_ASSERT(LOG_LINE_MOST_BYTES <= PIPE_BUF);

/* Appends at most @room bytes: event=NAME and the fields in logfmt, or one JSON object: time,
 * level, event and the fields. */
void log_line_append(GString *out, const LogLine *line, gboolean is_json, gsize room);

/* Returns: (transfer full): a datagram for the journal
 * (https://systemd.io/JOURNAL_NATIVE_PROTOCOL); its message is the line in logfmt. */
GString *log_line_datagram(const LogLine *line);

/* Returns: (transfer full): the journal's MESSAGE_ID: the version 5 UUID (RFC 4122) of the
 * event's name in LOG_LINE_NAMESPACE, as 32 hexadecimal digits. */
char *log_line_message_id(const char *event);

#define LOG_LINE_NAMESPACE "411c39f6-c277-48bd-9fa5-a82c1512df5a"
