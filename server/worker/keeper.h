/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/generator.h"
#include "server/worker/registry.h"

/*
 * Keeps the generator supplied with a lease: claims a worker ID, extends its reservation as soon as
 * a quarter of its length has passed, hands it back at the end; and disciplines the clock ten
 * times a second. One thread of its own, the only one that calls the registry and the only one
 * that publishes leases.
 */
typedef struct _Keeper Keeper;

typedef enum {
	WORKER_STARTING,   /* no claim was answered yet */
	WORKER_WAITING,    /* what a life before, or another server, has reserved must pass first */
	WORKER_SERVING,    /* holds a lease that is, or on demand will be, good for the time now */
	WORKER_RECLAIMING, /* lost its worker ID, or gave it up, and claims another */
	WORKER_UNAVAILABLE, /* the reservation has run out and cannot be extended */
	WORKER_STOPPED,     /* retired and handed back */
} WorkerState;

/* "starting", "waiting", ... */
const char *worker_state_name(WorkerState state);

typedef struct {
	WorkerState state;
	gint datacenter_id;       /* -1: none yet */
	gint worker_id;           /* -1: none yet, or lost */
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing reserved */
} WorkerStatus;

typedef struct {
	/* A jump of the system's clock forward by more than this is not believed at once. */
	gint64 max_clock_skew_ms;
	/* Called in the keeper's thread, after a lease was published or extended, the state changed
	 * or an attempt failed; also for a fatal error, which keeper_error() then returns. It may
	 * call everything below but keeper_stop() and keeper_free(). */
	void (*changed)(gpointer user_data);
	gpointer user_data;
} KeeperConfig;

/**
 * keeper_new:
 * @registry: (transfer full)
 * @generator: borrowed
 * @clock: borrowed; the keeper becomes the one who sets its offset
 */
Keeper *keeper_new(Registry *registry, Generator *generator, SystemClock *clock,
		   const KeeperConfig *config);

/* Starts the thread, which claims at once: again and again where the registry says FAILED or WAIT,
 * to the end where it says FATAL. */
void keeper_start(Keeper *self);

/* Retires the lease, hands it back and ends the thread. The hand-back is tried once; what came of
 * it is logged. Idempotent. */
void keeper_stop(Keeper *self);

/* Stops if that was not done. */
void keeper_free(Keeper *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Keeper, keeper_free)

/* Any thread. */
void keeper_get_status(Keeper *self, WorkerStatus *out_status);

/* Any thread: (transfer full) (nullable): the error that ended the keeper's trying, if one did. */
GError *keeper_error(Keeper *self);

/**
 * keeper_demand:
 *
 * Any thread: says that a draw was refused with DRAW_UNRESERVED. Wakes the keeper if it let the
 * reservation lapse because nobody asked. Cheap when called again and again.
 *
 * Returns: 0 if a lease is expected within a moment (wait for changed()), else how long until
 * another try makes sense, in ms, 1 or more
 */
gint64 keeper_demand(Keeper *self);
