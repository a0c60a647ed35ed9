/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

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

/* A server, or a node that is embedded in another program, as the registry shows it to others. */
typedef struct {
	gint datacenter_id;
	gint worker_id; /* -1: none yet */
	char *address;  /* host:port; "": it takes no calls, or nobody can tell */
	char *nonce;
	gint64 claimed_at_ms;     /* since the Unix epoch: when the claim was made */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved */
	char *program; /* (nullable): that it is embedded in, as PROGRAM@HOST; NULL: a server */
} Worker;

void worker_free(Worker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Worker, worker_free)

typedef struct _Registry Registry;

typedef struct {
	/* Begins a claim: of the worker ID that is configured, or of one that is free. The new end
	 * is the tick of the writing + @length_ticks. */
	void (*claim)(Registry *self, gint64 length_ticks);
	/* Begins to extend what is held, up to @end_tick. */
	void (*extend)(Registry *self, gint64 end_tick);
	/* Begins to hand back what is held. @last_tick: of the last ID issued, or the one before
	 * the first reserved. The lease is retired, and stays so whatever comes of this. While
	 * nobody can be reached it ends with FAILED at once; if the server stops, at stop_by_us,
	 * when it ends anyway. */
	void (*hand_back)(Registry *self, gint64 last_tick);
	/**
	 * poll:
	 * @now_tick: the tick now, which the layout has: 0 to layout_max_tick()
	 * @out_result: (out): set if an operation has come to its end, or a lease is lost
	 *
	 * Goes on with what is under way and with the registry's own upkeep. Blocks no longer than
	 * a write to a disk of this machine.
	 *
	 * Returns: whether the operation under way has come to its end; or, if none is, whether
	 * what is held is LOST
	 */
	gboolean (*poll)(Registry *self, gint64 now_tick, RegistryResult *out_result);
	/* Asks the operation under way, if there is one, to come to its end without waiting for
	 * anybody: poll() will say how; with FAILED if nothing was written, or nobody can tell by
	 * stop_by_us. NULL: none ever waits. */
	void (*cancel)(Registry *self);
	/* Asks for another reading of the registry's clock; poll() takes it when it can. NULL: it
	 * has no clock. */
	void (*ask_clock)(Registry *self);
	/* Asks for a list of all workers; poll() leaves it in @workers. NULL: it knows of none but
	 * this one. */
	void (*list)(Registry *self);
	/* Called after the keeper's thread has ended, by whoever frees the keeper. Lets others
	 * know that this server is gone, and waits for that for 2 s at most. */
	void (*free)(Registry *self);
} RegistryOps;

/* The clock of a registry, as its offset to CLOCK_BOOTTIME: no less than the one, no more than the
 * other. */
typedef struct {
	gboolean known;
	gint64 least_ns;
	gint64 most_ns;
} RegistryClock;

/* The clocks of other servers, as they were when some were asked last. */
typedef struct {
	gboolean known;
	gint64 ahead_ns; /* of the one that is furthest from ours: how far ours is ahead of it */
} RegistryPeers;

struct _Registry {
	const RegistryOps *ops;
	/* How long reservations are, in ms: the first one, and the longest; each extension may
	 * double it. */
	gint64 first_length_ms;
	gint64 max_length_ms;
	/* Whether to extend while no IDs are asked for. */
	gboolean extend_when_idle;

	/* Set by the keeper, for poll() to read. */
	gint64 stop_by_us; /* monotonic: the server stops, and waits for nobody after that; 0: it
			      does not stop */

	/* Set by poll(), for the keeper to read after it. */
	gint64 poll_at_us;  /* monotonic: call it then, if nobody wakes before; or G_MAXINT64 */
	gboolean retry_now; /* what is to be extended, or waits, or has failed, is due now; the
			   keeper takes note and clears it */
	gboolean reachable; /* a hand-back now would get somewhere */
	RegistryClock clock;
	KeeperSession session;
	gint64 claimed_at_ms; /* since the Unix epoch: when what shows this server to others was
				 made, last; 0: not yet */
	gint64 heard_us;      /* monotonic: when it was answered last, whatever it had asked */
	char *hindrance;      /* (nullable): why the keeper's request cannot be completed, and the
				 remedy; NULL: unknown, or there is no obstacle */
	GPtrArray *workers;  /* (nullable): of Worker, what list() asked for; the keeper takes it */
	gint64 workers_ns;   /* CLOCK_BOOTTIME: when the reading of @workers began */
	guint workers_reads; /* how many reads it took, last; 0: there was none */
	/* With @workers, and taken with it: of Worker: the worker IDs that a record reserves and no
	 * claim holds; address and nonce are of who reserved it. */
	GPtrArray *quarantined;
	RegistryPeers peers;

	/* Set by the keeper before the first call: poll() is due. Any thread may call it. */
	void (*wake)(gpointer user_data);
	gpointer wake_data;
};
