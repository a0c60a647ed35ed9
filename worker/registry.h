/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/*
 * The registry, in which reservations are written: which worker ID a server has, and up to which
 * tick.
 *
 * It is an interface. file/registry.c implements it in a directory of this machine,
 * registration/registration.c in a store that many machines share. Only the keeper's thread calls
 * it. The keeper begins an operation, and poll() continues it until its end; one is under way at a
 * time. Each implementation keeps these rules:
 *
 * 1. A record holds the last reserved tick and the owner's nonce, which is new for each process.
 * 2. Every write is conditional on the version that was read, and the new end is computed from that
 *    reading. The end only grows; only the release of a retired lease lowers it.
 * 3. A write counts when it is confirmed. If its outcome is unknown, the record is read again.
 * 4. Records are never deleted. A record that does not parse is an error, not zero.
 */

#define REGISTRY_ERROR (registry_error_quark())
GQuark registry_error_quark(void);

typedef enum {
	/* It failed and can succeed later: not reachable, disk full. The keeper tries again, but
	 * not before its first lease: then the server ends, so that its starter sees why. */
	REGISTRY_ERROR_FAILED,
	/* claim only: no worker ID is free; the message says why, and the remedy. */
	REGISTRY_ERROR_WAIT,
	/* The record is not as this server has written it last: another server's, set back, or
	 * gone. So no more IDs may be issued from it: others may issue the same. The reservation is
	 * held no more, and must not be released. poll() returns this as soon as it is known, as
	 * the end of the operation under way, or without one. For a release it only means that it
	 * failed. */
	REGISTRY_ERROR_LOST,
	/* It lasts until an operator acts: held by a live server, another layout, another machine,
	 * a wrong owner, a clock that is off, a record that does not parse (if there are others to
	 * claim, they are claimed). */
	REGISTRY_ERROR_FATAL,
} RegistryError;

typedef enum {
	REGISTRY_NONE,
	REGISTRY_CLAIM,   /* the worker ID that is configured, or one that is free */
	REGISTRY_EXTEND,  /* the reservation that is held */
	REGISTRY_RELEASE, /* the same; its lease is retired, and stays so whatever the outcome */
} RegistryOperation;

/* The outcome of a claim. */
typedef struct {
	guint datacenter_id;
	guint worker_id;
	gint64 first_tick; /* the tick after the end that stood in the record before */
	gint64 end_tick;   /* the last tick reserved */
} Reservation;

/* How an operation ended. */
typedef struct {
	GError *error;           /* (transfer full); NULL: it succeeded */
	Reservation reservation; /* of a claim */
	gint64 end_tick;         /* of an extension: the confirmed end, which can be a later one
				    than was asked for */
	gint64 wait_until_tick;  /* of a claim with WAIT: when to try again; G_MAXINT64: unknown */
} RegistryResult;

/* A list of all workers: servers, and nodes that are embedded in other programs. Without state and
 * as_of_ms: see keeper_get_workers(). */
typedef struct {
	GPtrArray *workers; /* of SnowflakeClientWorker */
	/* of SnowflakeClientWorker: the worker IDs that a record reserves and no claim holds;
	 * address and nonce are of the server that reserved it */
	GPtrArray *quarantined;
	gint64 read_at_ns; /* CLOCK_BOOTTIME: when the reading began */
	guint n_reads;     /* that it took */
} WorkerList;

WorkerList *worker_list_new(void);
void worker_list_free(WorkerList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WorkerList, worker_list_free)

/* The clock of a registry, as its offset to CLOCK_BOOTTIME: between @least_ns and @most_ns. */
typedef struct {
	gboolean known;
	gint64 least_ns;
	gint64 most_ns;
} RegistryClock;

/* Returns how far a clock at @offset_ns is ahead of the registry's, at least; negative: behind it.
 * 0 if it can be right, or the registry's clock is unknown. */
gint64 registry_clock_ahead_ns(const RegistryClock *clock, gint64 offset_ns);

/* How the registry is reached. */
typedef enum {
	REGISTRY_SESSION_NONE,       /* it needs no session: files */
	REGISTRY_SESSION_CONNECTING, /* there was none yet */
	REGISTRY_SESSION_CONNECTED,
	REGISTRY_SESSION_LOST, /* the connection is lost; or the session, and there is no new one */
	REGISTRY_N_SESSIONS,
} RegistrySession;

/* "none", "connecting", "connected", "lost" */
const char *registry_session_name(RegistrySession session);

/* The clocks of the peers, as they were when some were asked last. */
typedef struct {
	gboolean known;
	gint64 ahead_ns; /* how far our clock is ahead of the one that is furthest from it */
} RegistryPeers;

/* What a poll returns. */
typedef struct {
	RegistryResult result; /* if poll() returned %TRUE: how the operation ended */
	gint64 poll_at_us;     /* monotonic: poll again then, unless wake() is called earlier; or
				  G_MAXINT64 */
	gboolean retry_now;    /* an extension, a claim that waits or a failed attempt is due now */
	gboolean is_reachable; /* a release now would reach the registry */
	RegistryClock clock;
	RegistrySession session;
	gint64 claimed_at_ms; /* since the Unix epoch: when the claim that shows this server to
				 others was made; 0: not yet */
	gint64 heard_at_us;   /* monotonic: time of the registry's last answer */
	const char
		*hindrance; /* (nullable): why the keeper's request cannot be completed, and the
			       remedy; NULL: unknown, or no obstacle. Valid until the next poll */
	WorkerList *list;   /* (transfer full) (nullable): that list() requested */
	RegistryPeers peers;
} RegistryReport;

typedef struct _Registry Registry;

typedef struct {
	/**
	 * begin:
	 * @ticks: of a claim: the length of the reservation, from the tick of the write; of an
	 *   extension: its end; of a release: the tick of the last ID issued, or the one before
	 *   the first reserved
	 *
	 * Begins an operation. While the registry is out of reach, a release ends with FAILED at
	 * once; if the server stops, at poll()'s stop_by_us. If it fails, the worker ID is
	 * quarantined until the reservation's end.
	 */
	void (*begin)(Registry *self, RegistryOperation operation, gint64 ticks);
	/**
	 * poll:
	 * @now_tick: the tick now, within the layout: 0 to layout_max_tick()
	 * @stop_by_us: monotonic: the server stops, and waits for nothing after that; 0: it does
	 *   not stop
	 * @out_report: (out): all of it is set
	 *
	 * Continues the operation under way and the registry's own upkeep. Blocks no longer than a
	 * write to a disk of this machine.
	 *
	 * Returns: whether the operation under way has ended; or, if there is none, whether the
	 *   held reservation is LOST
	 */
	gboolean (*poll)(Registry *self, gint64 now_tick, gint64 stop_by_us,
			 RegistryReport *out_report);
	/* Asks the operation under way, if there is one, to end without waiting. poll() returns
	 * its outcome: FAILED if nothing was written, or if it is unknown at stop_by_us. NULL: no
	 * operation ever waits. */
	void (*cancel)(Registry *self);
	/* Requests another reading of the registry's clock; poll() reads it when it can. NULL: it
	 * has no clock. */
	void (*ask_clock)(Registry *self);
	/* Requests a list of all workers; poll() returns it. NULL: the registry knows only this
	 * one. */
	void (*list)(Registry *self);
	/* Called after the keeper's thread has ended, by the thread that frees the keeper. Tells
	 * other servers that this one is gone, and waits for that for 2 s at most. */
	void (*free)(Registry *self);
} RegistryOps;

/* The implementation sets the first members when it makes the registry, the keeper the last two
 * before the first call. None changes later. */
struct _Registry {
	const RegistryOps *ops;
	/* How long reservations are, in ms: the first one, and the longest; each extension may
	 * double it. */
	gint64 first_length_ms;
	gint64 max_length_ms;
	gboolean extend_when_idle;   /* extend although no IDs are drawn */
	RegistryReport first_report; /* what is known before the first poll */
	/* A poll is due. Any thread may call it. */
	void (*wake)(gpointer user_data);
	gpointer wake_data;
};
