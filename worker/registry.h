/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "worker/keeper-state.h"

/*
 * Where reservations are written: which worker ID is mine, and up to which tick.
 *
 * An interface: file/registry.c is a directory of this machine, zookeeper/registry.c a service that
 * many machines share. One thread calls it, the keeper. An operation is begun, and poll() goes on
 * with it until it has come to its end; one is under way at a time. The rules that hold for each
 * implementation:
 *
 * 1. A record holds the last reserved tick and the owner's nonce, fresh for each process start.
 * 2. Every write is conditional on the version that was read, and the new end is computed from that
 *    same reading. The end only grows; only the hand-back of a retired lease lowers it.
 * 3. A write counts when it is confirmed. After any doubt: read again, and what is read is held.
 * 4. Records are never deleted. One that does not parse is an error, not zero.
 */

#define REGISTRY_ERROR (registry_error_quark())
GQuark registry_error_quark(void);

typedef enum {
	/* It did not work and may work later: not reachable, disk full. What to make of it is for
	 * the keeper: it tries again, but not before its first lease, when whoever started the
	 * server is there to be told. */
	REGISTRY_ERROR_FAILED,
	/* claim only: no worker ID is free; the message says why, and the remedy. */
	REGISTRY_ERROR_WAIT,
	/* The record is not as this server has written it last: another's, set back, or gone. So
	 * nothing more may be issued by it: others may be about to issue the same. What was held
	 * is held no more, and is not to be handed back. poll() says so as soon as it knows: that
	 * is how the extend() under way ends, or, with nothing under way, it comes unasked. A
	 * hand_back() that ends with it did not work, and that is all. */
	REGISTRY_ERROR_LOST,
	/* Stays so until an operator acts: held by a live server, another layout, another machine,
	 * a wrong owner, a clock that is off, a record that does not parse (where there are others
	 * to claim, those are claimed). */
	REGISTRY_ERROR_FATAL,
} RegistryError;

/* What the keeper asks for, and the functions below begin. */
typedef enum {
	REGISTRY_NONE, /* nothing */
	REGISTRY_CLAIM,
	REGISTRY_EXTEND,
	REGISTRY_HAND_BACK,
} RegistryOperation;

/* What a claim gained. */
typedef struct {
	guint datacenter_id;
	guint worker_id;
	gint64 first_tick; /* the tick after the end that stood in the record before */
	gint64 end_tick;   /* the last tick reserved */
} Reservation;

/* How an operation ended. */
typedef struct {
	GError *error;           /* (transfer full) NULL: it worked, and what it gained follows */
	Reservation reservation; /* of claim() */
	gint64 end_tick;        /* of extend(): what is confirmed now, what was asked for or more */
	gint64 wait_until_tick; /* of claim() with WAIT: when to try again; G_MAXINT64: unknown */
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

/* The clocks of other servers, as they were when some were asked last. */
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
	gboolean is_reachable; /* a hand-back now would reach the registry */
	RegistryClock clock;
	KeeperSession session;
	gint64 claimed_at_ms; /* since the Unix epoch: when the claim that shows this server to
				 others was made; 0: not yet */
	gint64 heard_at_us;   /* monotonic: time of the registry's last answer */
	const char
		*hindrance; /* (nullable): why the keeper's request cannot be completed, and the
			       remedy; NULL: unknown, or no obstacle. Valid until the next poll */
	WorkerList *list;   /* (transfer full) (nullable): what list() asked for */
	RegistryPeers peers;
} RegistryReport;

typedef struct _Registry Registry;

typedef struct {
	/* Begins a claim: of the worker ID that is configured, or of one that is free. The new end
	 * is the tick of the writing + @length_ticks. */
	void (*claim)(Registry *self, gint64 length_ticks);
	/* Begins to extend what is held, up to @end_tick. */
	void (*extend)(Registry *self, gint64 end_tick);
	/* Begins to hand back what is held. @last_tick: of the last ID issued, or the one before
	 * the first reserved. The lease is retired, and stays so whatever comes of this. While
	 * the registry is out of reach it ends with FAILED at once; if the server stops, at
	 * poll()'s stop_by_us. If it fails, the worker ID is quarantined to the reservation's
	 * end. */
	void (*hand_back)(Registry *self, gint64 last_tick);
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
	 * Returns: whether the operation under way has ended; or, if there is none, whether what
	 *   is held is LOST
	 */
	gboolean (*poll)(Registry *self, gint64 now_tick, gint64 stop_by_us,
			 RegistryReport *out_report);
	/* Asks the operation under way, if there is one, to end without waiting: poll() returns
	 * how; FAILED if nothing was written, or if the outcome is unknown at stop_by_us. NULL: no
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
	gboolean extend_when_idle;   /* extend although no IDs are asked for */
	RegistryReport first_report; /* what is known before the first poll */
	/* A poll is due. Any thread may call it. */
	void (*wake)(gpointer user_data);
	gpointer wake_data;
};
