/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The server's log: one line an event, on standard error, as logfmt:
 *
 *   2026-01-31T12:00:00.000Z warning event=extend-failed error="no space left on device"
 *
 * Under systemd (JOURNAL_STREAM names standard error) the time is left out and the level stands
 * in front as journald reads it: <4>event=....
 *
 * Every event that an operator could alert on is in this list, so that its name and its fields
 * stay. Thread-safe. Never blocks: a line that standard error does not take at once is left out,
 * and counted. Writing to a broken pipe raises SIGPIPE, which the program ignores.
 */
typedef enum {
	/* the server */
	LOG_STARTING,        /* version, pid, registry, datacenter_id, worker_id, layout, threads */
	LOG_LISTENING,       /* address */
	LOG_ADMIN_LISTENING, /* HTTP for operators: address */
	LOG_READY,           /* the first lease is usable: datacenter_id, worker_id, startup_ms */
	LOG_STOPPING,        /* signal, drain_ms: how long it serves on */
	LOG_RELOAD,          /* pid: of whoever sent SIGHUP */
	LOG_SIGNAL_IGNORED,  /* signal, pid: of whoever sent it */
	LOG_STOPPED,         /* ids, calls, exceptions, uptime_s */
	LOG_FAILED,          /* error: the server ends, or does not start */
	LOG_LIMITS,          /* fewer connections than the options ask for: file_descriptors,
				max_connections, remedy */
	/* the worker ID */
	LOG_STATE,              /* from, to: the registration */
	LOG_WORKER_CLAIMED,     /* datacenter_id, worker_id, first, reserved_until */
	LOG_WORKER_WAITING,     /* why; until, where time will help */
	LOG_WORKER_HANDED_BACK, /* datacenter_id, worker_id, last */
	LOG_HAND_BACK_FAILED,   /* whoever is next waits for its end: error, reserved_until; of a
				   stop meaning */
	LOG_WORKER_LOST,        /* the record is another owner's: error */
	LOG_PEERS_UNREACHABLE,  /* servers that were to be asked before a claim: count, addresses */
	LOG_PEERS_CONTRADICT,   /* asked again before it counts: error */
	LOG_DIRECTORY_UNIQUE,   /* neither ID was given: unique per state directory only */
	LOG_WORKER_ID_DERIVED,  /* unique as what it was made of is: worker_id, from, meaning */
	LOG_EXTEND_FAILED,      /* error, reserved_until */
	LOG_EXTEND_RECOVERED,   /* failed_ms */
	LOG_RESERVATION_SPENT,  /* calls are refused from now on: reserved_until */
	/* ZooKeeper */
	LOG_ZOOKEEPER_CONNECTED,     /* session, timeout_ms */
	LOG_ZOOKEEPER_LOST,          /* servers: IDs go on to the end of the reservation */
	LOG_ZOOKEEPER_NAMES_UNKNOWN, /* error: where it was is tried, if that is known */
	LOG_ZOOKEEPER_REFUSED,       /* error: something that time does not mend */
	LOG_SESSION_EXPIRED,         /* session: another is made, with the same worker ID */
	LOG_CLAIM_MADE,              /* path */
	LOG_REGISTRY_SECURED, /* what was open to anyone is closed: root, datacenter_id, znodes,
				 open_claims: of servers that may not write it any more */
	LOG_REGISTRATION,     /* from, to: its steps */
	/* the audit log */
	LOG_AUDIT_FAILED,        /* sink, error: what comes waits in the queues */
	LOG_AUDIT_RECOVERED,     /* sink, failed_ms */
	LOG_AUDIT_GAP,           /* sink, ids: dropped, for the queue was full */
	LOG_AUDIT_LOST,          /* sink, ids: missing, and the audit log does not say so */
	LOG_AUDIT_REOPENED,      /* sink */
	LOG_AUDIT_REOPEN_FAILED, /* sink, error: it goes on as it was */
	/* the clock */
	LOG_CLOCK_BACK,       /* by_ms: calls may be refused until it has caught up */
	LOG_CLOCK_FORWARD,    /* by_ms */
	LOG_CLOCK_HELD,       /* by_ms: a jump that is not believed yet */
	LOG_CLOCK_DIFFERS,    /* by_ms: ahead of the registry's clock, or negative: behind it */
	LOG_LAYOUT_ENDS_SOON, /* within a year, once a day: last, days_left, meaning */
	/* connections; each is limited to a line a second, refusals to one a minute, with the
	 * number left out */
	LOG_CONNECTION_REFUSED, /* reason, address, connections, remedy */
	LOG_ADDRESS_REFUSED,    /* reason, address, connections, remedy: that address only */
	LOG_CONNECTION_CLOSED,  /* reason, peer: a limit was passed, the bytes made no sense, or
				   another needed the room */
	LOG_ACCEPT_FAILED,      /* error */
	LOG_N_EVENTS
} LogEvent;

typedef enum { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } LogLevel;

/* Events above this level are left out; LOG_LEVEL_INFO until set. */
void log_set_level(LogLevel level);

/**
 * log_event:
 * @fields: a printf format of key=value pairs with a space between. A value that may hold spaces,
 *   quotes or control characters goes through log_quote()
 *
 * Repeats of an event that has a limit are counted instead, and the next line of the event says
 * suppressed=N. A line is cut at PIPE_BUF bytes.
 */
void log_event(LogEvent event, const char *fields, ...) G_GNUC_PRINTF(2, 3);

/* (transfer full): @text in double quotes with quotes, backslashes and whatever is not printable
 * UTF-8 escaped as in JSON; without the quotes where nothing needs them. */
char *log_quote(const char *text);
