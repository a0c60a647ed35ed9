/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <limits.h>

/*
 * The server's log: events, which have fields. On standard error an event is one line, as logfmt:
 *
 *   2026-01-31T12:00:00.000Z warning event=extend-failed error="no space left on device"
 *
 * or as an object of JSON. In the journal (systemd-journald) it is an entry with a message, which
 * is the line from event= on, and a field for each field: SNOWFLAKE_ERROR. If the journal does not
 * accept an entry, it goes to standard error. If that is the journal's too (JOURNAL_STREAM), the
 * line begins with the level, for journald to read, and has no time: <4>event=....
 *
 * This list contains every event that an operator could alert on, so that names and fields stay.
 * Thread-safe. Never blocks: a line that is not accepted at once is lost, and counted. A write to a
 * broken pipe raises SIGPIPE, which the program ignores.
 */
typedef enum {
	/* the server */
	LOG_STARTING,        /* version, pid, registry, datacenter_id, worker_id, layout, threads */
	LOG_OPTION,          /* one that is not at its default: name, value */
	LOG_LISTENING,       /* address */
	LOG_ADMIN_LISTENING, /* HTTP for operators: address */
	LOG_SOCKETS_PASSED,  /* by systemd, say: count, meaning */
	LOG_READY,           /* the first lease is usable: datacenter_id, worker_id, startup_ms */
	LOG_STOPPING,        /* signal, drain_ms: how long it serves on */
	LOG_RELOAD,          /* pid: the sender of SIGHUP; options, separated by commas: changed,
				needs_restart */
	LOG_RELOAD_FAILED,   /* pid; error: the options stay as they were */
	LOG_CERTIFICATE,     /* that others are shown from now on: file, expires */
	LOG_CERTIFICATE_ENDS_SOON, /* within 30 days, once a day: file, expires, days_left, meaning
				    */
	LOG_SIGNAL_IGNORED,        /* signal, pid: its sender */
	LOG_STOPPED,               /* ids, calls, exceptions, uptime_s */
	LOG_FAILED,                /* error: the server ends, or does not start */
	LOG_LIMITS,                /* fewer connections than the options ask for: file_descriptors,
				      max_connections, remedy */
	/* the worker ID */
	LOG_STATE,               /* from, to: the registration */
	LOG_WORKER_CLAIMED,      /* datacenter_id, worker_id, first, reserved_until */
	LOG_WORKER_WAITING,      /* why; until, where time will help */
	LOG_WORKER_RELEASED,     /* datacenter_id, worker_id, last */
	LOG_RELEASE_FAILED,      /* the next owner waits for its end: error, reserved_until; at a
				      stop meaning */
	LOG_WORKER_LOST,         /* the record is another owner's: error */
	LOG_PEERS_UNREACHABLE,   /* servers that were to be asked before a claim: count, addresses,
				  * error, remedy */
	LOG_ADDRESS_LOCAL,       /* others cannot reach the registered address: address, zookeeper,
				    remedy */
	LOG_PEERS_CONTRADICT,    /* asked again before it counts: error */
	LOG_UNIQUE_IN_DIRECTORY, /* neither ID was given: unique per state directory only */
	LOG_WORKER_ID_DERIVED,   /* unique as what it was made of is: worker_id, from, meaning */
	LOG_EXTEND_FAILED,       /* error, reserved_until */
	LOG_EXTEND_RECOVERED,    /* failures, 0 if it was only late; failed_ms */
	LOG_RESERVATION_SPENT,   /* calls are refused from now on: reserved_until */
	LOG_RESERVATION_WRITTEN, /* worker_id, reserved_until, took_us */
	LOG_DISK_HANGS,          /* a call to the disk of the state directory has not ended:
				    operation, path, for_ms */
	LOG_DISK_RECOVERED,      /* it has: operation, path, for_ms */
	/* ZooKeeper */
	LOG_ZOOKEEPER_CONNECTED,         /* session, timeout_ms */
	LOG_ZOOKEEPER_LOST,              /* servers: IDs go on to the end of the reservation */
	LOG_ZOOKEEPER_UNREACHABLE,       /* error: why; once a minute as long as it lasts */
	LOG_ZOOKEEPER_RESOLVE_FAILED,    /* error: where it was is tried, if that is known */
	LOG_ZOOKEEPER_RESOLVE_RECOVERED, /* all of them again: failures, look-ups that failed */
	LOG_ZOOKEEPER_REFUSED,           /* error: something that time does not mend */
	LOG_SESSION_EXPIRED,             /* session: another is made, with the same worker ID */
	LOG_CLAIM_MADE,                  /* path */
	LOG_REGISTRATION,                /* from, to: its steps */
	LOG_ZOOKEEPER_SESSION,           /* what: each event, also those logged otherwise */
	LOG_ZOOKEEPER_OPERATION,         /* operation, path, outcome, took_us */
	LOG_WORKER_ID_CHOSEN, /* worker_id, wanted, preferred, claims, reservations, lost_race,
				 passed_over, refused */
	/* the audit log */
	LOG_AUDIT_FAILED,        /* sink, error: what comes waits in the queues */
	LOG_AUDIT_RECOVERED,     /* sink, failures, failed_ms */
	LOG_AUDIT_GAP,           /* sink, ids: dropped, for the queue was full */
	LOG_AUDIT_LOST,          /* sink, ids: missing, and the audit log does not say so */
	LOG_AUDIT_REOPENED,      /* sink */
	LOG_AUDIT_REOPEN_FAILED, /* sink, error: it goes on as it was */
	/* a relay; a fleet that comes and goes is worth a line a second */
	LOG_RELAY_SERVER,    /* there is one to ask for IDs, after there was none: server,
				datacenter_id, worker_id, away_ms: 0: it has just begun */
	LOG_RELAY_NO_SERVER, /* no server can be asked for IDs: error. Up to 16 different ones, then
				the current one once a minute */
	LOG_RELAY_DISCONNECTED,    /* no server can be asked for IDs: server, the last one; error */
	LOG_RELAY_SERVER_EXCLUDED, /* for 10 minutes, because its IDs are not unique, each server
				    * without a limit: server, nonce, first_sender: server that sent
				    * the same ID before, empty if IDs went back; error, servers:
				    * number since the start, remedy */
	LOG_RELAY_LAYOUT_DIFFERS,  /* from that of its servers: id, layout, remedy */
	/* the clock; its steps are limited to a line a second */
	LOG_CLOCK_BACK,       /* by_ms: calls may be refused until it has caught up */
	LOG_CLOCK_FORWARD,    /* by_ms */
	LOG_CLOCK_HELD,       /* by_ms: a jump that is not believed yet */
	LOG_CLOCK_DIFFERS,    /* by_ms: ahead of the registry's clock; negative: behind it */
	LOG_CLOCK_JUDGED,     /* verdict, by_us, registry_least_us, registry_most_us */
	LOG_LAYOUT_ENDS_SOON, /* within a year, once a day: last, days_left, meaning */
	/* connections; each is limited to a line a second, refusals to one a minute, with the
	 * number left out */
	LOG_CONNECTION_REFUSED,  /* reason, address, connections, remedy */
	LOG_ADDRESS_REFUSED,     /* reason, address, connections, remedy: that address only */
	LOG_NOT_ALLOWED,         /* peer, certificate, remedy: by the allow list */
	LOG_HANDSHAKE_FAILED,    /* of TLS: reason, peer */
	LOG_CONNECTION_CLOSED,   /* reason, peer: a limit was passed, the bytes made no sense, or
				    another needed the room */
	LOG_ACCEPT_FAILED,       /* error */
	LOG_CONNECTION_ACCEPTED, /* peer, connections: how many there are now; without a limit */
	LOG_CONNECTION_ENDED,    /* peer; of TCP received_bytes, sent_bytes; without a limit */
	LOG_ADMIN_REQUEST,       /* peer, method, path, status, took_us; without a limit */
	LOG_N_EVENTS
} LogEvent;

typedef enum { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } LogLevel;

typedef enum {
	LOG_FORMAT_AUTO, /* the journal if it is standard error, else logfmt */
	LOG_FORMAT_LOGFMT,
	LOG_FORMAT_JSON,
	LOG_FORMAT_JOURNAL,
	LOG_FORMAT_GLIB, /* for a library: g_log() with LOG_DOMAIN, for the program to handle. No
			  * option offers it */
} LogFormat;

/* For LOG_FORMAT_GLIB: errors and warnings become messages, which GLib prints by default, because
 * programs, and above all tests, can end at g_warning(). */
#define LOG_DOMAIN "Snowflake"

/* Events above this level are left out; LOG_LEVEL_INFO until set. */
void log_set_level(LogLevel level);

/* LOG_FORMAT_AUTO until set. */
void log_set_format(LogFormat format);

/* A field of an event, made by log_text() or log_number(); borrowed until log_event() returns. */
typedef struct {
	const char *key; /* of a-z and _; not time, level or event */
	const char *text;
	gint64 number; /* if @text is NULL */
} LogField;

/* @text: any bytes, quoted as the format requires; NULL: "" */
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
 * An event with a limit has at most one line within the limit's time for each text "reason". Six
 * reasons are counted separately at a time; further ones share a count until one of the six has
 * been quiet for that time. Suppressed lines are reported as suppressed=N in the next line of the
 * event with that reason. If none comes within the limit's time, a line with only the reason
 * reports them, from the main loop (GLib's default context), which wakes up only for that. Lines
 * that were lost are in lost_lines=N of the next that is not. No line is longer than 4096 bytes:
 * longer texts are cut.
 */
#define log_event(event, ...) log_event_fields((event), (const LogField[]){__VA_ARGS__, {0}})

/* @fields: ends with a key of NULL */
void log_event_fields(LogEvent event, const LogField *fields);

/* Whether the event is logged at all, for callers whose fields are expensive to make. */
gboolean log_shows(LogEvent event);

/* Returns: the value of event= in the lines of @event */
const char *log_event_name(LogEvent event);

/* Logs the repeats that no line has reported. For the end, when no main loop runs. */
void log_tell_suppressed(void);

/* For handlers of pthread_atfork(): between the two no line is being written, nor in the child. */
void log_hold_for_fork(void);
void log_go_on_after_fork(void);

/* The lines that neither standard error nor the journal accepted since the start. */
guint64 log_lost_lines(void);

/* Formatting one event (log-line.c): for log.c and tests. Nothing below writes. */
typedef struct {
	gint64 time_ms; /* since the Unix epoch */
	const char *level;
	guint priority; /* as syslog(3) numbers them */
	const char *event;
	const LogField *fields; /* ends with a key of NULL */
} LogLine;

/* The limit of a line with its end: a writable pipe accepts this much without blocking. In a longer
 * line the longest texts are cut, and end with "...". */
#define LOG_LINE_MOST_BYTES 4096
G_STATIC_ASSERT(LOG_LINE_MOST_BYTES <= PIPE_BUF);

/* Appends event=NAME and the fields, in at most @room bytes. */
void log_line_append_logfmt(GString *out, const LogLine *line, gsize room);

/* Appends one object: time, level, event and the fields, in at most @room bytes. */
void log_line_append_json(GString *out, const LogLine *line, gsize room);

/* (transfer full): a datagram for the journal (https://systemd.io/JOURNAL_NATIVE_PROTOCOL); its
 * message is the line of log_line_append_logfmt(). */
GString *log_line_datagram(const LogLine *line);

/* (transfer full): the journal's MESSAGE_ID: the UUID of version 5 (RFC 4122) of the event's name
 * in LOG_LINE_NAMESPACE, in 32 digits. */
char *log_line_message_id(const char *event);

#define LOG_LINE_NAMESPACE "411c39f6-c277-48bd-9fa5-a82c1512df5a"
