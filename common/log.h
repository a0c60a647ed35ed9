/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <limits.h>

/*
 * The server's log, a sequence of events with fields. On standard error, an event is one line,
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
 * This list contains every event; the comment of an event lists its fields. Names and fields do not
 * change, because operators' alerts depend on them. Thread-safe. Never blocks: a line that cannot
 * be written at once is lost, and counted. A write to a broken pipe raises SIGPIPE, which the
 * program ignores.
 */
typedef enum {
	/* the server */
	LOG_STARTING,        /* version, pid, registry, datacenter_id, worker_id, layout, threads */
	LOG_OPTION,          /* name, value. For each option that is not at its default. */
	LOG_LISTENING,       /* address */
	LOG_ADMIN_LISTENING, /* address. The admin port. */
	LOG_SOCKETS_PASSED,  /* count, meaning. Sockets were passed, for example by systemd. */
	LOG_READY,           /* datacenter_id, worker_id, startup_ms. The first lease is usable. */
	LOG_STOPPING,        /* signal, drain_ms. The server still serves for drain_ms. */
	/* pid (sender of SIGHUP); changed, needs_restart (options, separated by commas). */
	LOG_RELOAD,
	LOG_RELOAD_FAILED, /* pid, error. The options are unchanged. */
	LOG_CERTIFICATE,   /* file, expires. Clients get this certificate from now on. */
	/* file, expires, days_left, meaning. Logged once a day during the last 30 days. */
	LOG_CERTIFICATE_ENDS_SOON,
	LOG_SIGNAL_IGNORED, /* signal, pid (the sender). */
	LOG_STOPPED,        /* ids, calls, exceptions, uptime_s */
	LOG_FAILED,         /* error. The server stops, or does not start. */
	/* file_descriptors, max_connections, remedy. Fewer connections are possible than the
	 * options allow. */
	LOG_LIMITS,
	/* the worker ID */
	LOG_STATE,           /* from, to. States of the registration. */
	LOG_WORKER_CLAIMED,  /* datacenter_id, worker_id, first, reserved_until */
	LOG_WORKER_WAITING,  /* why, until (only if waiting helps). */
	LOG_WORKER_RELEASED, /* datacenter_id, worker_id, last */
	/* error, reserved_until; during a stop, meaning. The next owner waits until the reservation
	 * ends. */
	LOG_RELEASE_FAILED,
	LOG_WORKER_LOST, /* error. The record belongs to another owner. */
	/* count, addresses, error, remedy. Servers could not be asked before a claim. */
	LOG_PEERS_UNREACHABLE,
	/* address, zookeeper, remedy. Others cannot reach the registered address. */
	LOG_ADDRESS_LOCAL,
	/* error. The peers are asked again before the contradiction counts. */
	LOG_PEERS_CONTRADICT,
	/* Neither ID was given, so IDs are unique only within the state directory. */
	LOG_UNIQUE_IN_DIRECTORY,
	/* worker_id, from, meaning. The worker ID is only as unique as its origin. */
	LOG_WORKER_ID_DERIVED,
	LOG_EXTEND_FAILED,       /* error, reserved_until */
	LOG_EXTEND_RECOVERED,    /* failures (0 if the extension was only late), failed_ms. */
	LOG_RESERVATION_SPENT,   /* reserved_until. Calls are refused from now on. */
	LOG_RESERVATION_WRITTEN, /* worker_id, reserved_until, took_us */
	/* operation, path, for_ms. A call to the state directory's disk has not returned. */
	LOG_DISK_HANGS,
	LOG_DISK_RECOVERED, /* operation, path, for_ms. The call has returned. */
	/* ZooKeeper */
	LOG_ZOOKEEPER_CONNECTED,   /* session, timeout_ms */
	LOG_ZOOKEEPER_LOST,        /* servers. IDs are issued until the reservation ends. */
	LOG_ZOOKEEPER_UNREACHABLE, /* error. Logged once a minute until ZooKeeper is reachable. */
	LOG_ZOOKEEPER_RESOLVE_FAILED,    /* error. The last known addresses are tried. */
	LOG_ZOOKEEPER_RESOLVE_RECOVERED, /* failures (number of failed DNS lookups). */
	LOG_ZOOKEEPER_REFUSED,           /* error. Waiting does not help. */
	LOG_SESSION_EXPIRED, /* session. A new session is opened; the worker ID stays. */
	/* datacenter_id, path, remedy: the registry had no records of the datacenter */
	LOG_DATACENTER_CREATED,
	LOG_CLAIM_MADE,          /* path, registry_id */
	LOG_REGISTRATION,        /* from, to. Steps of the registration. */
	LOG_ZOOKEEPER_SESSION,   /* what. Every event, including those logged above. */
	LOG_ZOOKEEPER_OPERATION, /* operation, path, outcome, took_us */
	LOG_WORKER_ID_CHOSEN,    /* worker_id, wanted, preferred, claims, reservations, lost_race,
				    passed_over, refused */
	/* the audit log */
	LOG_AUDIT_FAILED, /* sink, error. New entries wait in the queues. */
	/* sink, error, ids, total_ids, meaning: dropped since the last event, and since the start;
	 * logged every 5 minutes while the sink fails and IDs are dropped */
	LOG_AUDIT_DROPPING,
	LOG_AUDIT_RECOVERED, /* sink, failures, failed_ms, dropped_ids */
	LOG_AUDIT_GAP,       /* sink, ids (number of IDs dropped because the queue was full). */
	LOG_AUDIT_LOST, /* sink, ids (number of missing IDs that the audit log does not report). */
	LOG_AUDIT_REOPENED,      /* sink */
	LOG_AUDIT_REOPEN_FAILED, /* sink, error. The old file stays in use. */
	/* a relay; each is limited to one line a second */
	/* server, datacenter_id, worker_id, away_ms (0 after the start). The first usable server
	 * after none was usable. */
	LOG_RELAY_SERVER,
	/* error. No server is usable. Logged for each of the first 16 different errors, then once a
	 * minute with the current error. The count restarts after a minute without an error. */
	LOG_RELAY_NO_SERVER,
	LOG_RELAY_DISCONNECTED, /* server, error. The last usable server, and its error. */
	/* server, nonce, first_sender, error, servers, remedy. The server is excluded for 10
	 * minutes, because its IDs are not unique. first_sender: server that sent the same ID
	 * before; empty if IDs decreased. servers: number of such servers since the start. Not
	 * limited. */
	LOG_RELAY_SERVER_EXCLUDED,
	LOG_RELAY_LAYOUT_DIFFERS, /* id, layout, remedy. The servers use a different layout. */
	/* the clock; its steps are limited to one line a second */
	LOG_CLOCK_BACK,    /* by_ms. Calls may be refused until the clock has caught up. */
	LOG_CLOCK_FORWARD, /* by_ms */
	LOG_CLOCK_HELD,    /* by_ms. The jump is ignored until it is confirmed. */
	/* by_ms (how far the clock is ahead of the registry's; negative if behind). */
	LOG_CLOCK_DIFFERS,
	LOG_CLOCK_JUDGED, /* verdict, by_us, registry_least_us, registry_most_us */
	/* last, days_left, meaning. Logged once a day during the last year. */
	LOG_LAYOUT_ENDS_SOON,
	/* connections; each is limited to one line a second, refusals to one a minute, with the
	 * number of suppressed lines */
	LOG_CONNECTION_REFUSED, /* reason, address, connections, remedy */
	/* reason, address, connections, remedy. Only connections from this address are refused. */
	LOG_ADDRESS_REFUSED,
	LOG_NOT_ALLOWED,      /* peer, certificate, remedy. Refused by the allow list. */
	LOG_HANDSHAKE_FAILED, /* reason, peer. A TLS handshake has failed. */
	/* reason, peer. The connection exceeded a limit, sent invalid bytes, or made room for
	 * another. */
	LOG_CONNECTION_CLOSED,
	LOG_ACCEPT_FAILED,       /* error */
	LOG_CONNECTION_ACCEPTED, /* peer, connections (current number). Not limited. */
	LOG_CONNECTION_ENDED,    /* peer; for TCP, received_bytes and sent_bytes. Not limited. */
	LOG_ADMIN_REQUEST,       /* peer, method, path, status, took_us. Not limited. */
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

/**
 * log_event:
 * @event: a LogEvent
 * @...: one LogField or more
 *
 * Some events are limited: one line per interval for each value of the field "reason". Up to six
 * reasons are limited separately at a time. Further reasons share a limit until one of the six has
 * had no event for the interval. The next line of the event with the same reason reports the
 * suppressed lines as suppressed=N. If there is no such line within the interval, the main loop
 * (GLib's default context) reports them in a line with only the reason. Lost lines are reported as
 * lost_lines=N in the next line. No line is longer than 4096 bytes: longer strings are truncated.
 */
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
 * (https://systemd.io/JOURNAL_NATIVE_PROTOCOL); its message is the line in
 * logfmt. */
GString *log_line_datagram(const LogLine *line);

/* Returns: (transfer full): the journal's MESSAGE_ID: the version 5 UUID (RFC 4122) of the
 * event's name in LOG_LINE_NAMESPACE, as 32 hexadecimal digits. */
char *log_line_message_id(const char *event);

#define LOG_LINE_NAMESPACE "411c39f6-c277-48bd-9fa5-a82c1512df5a"
