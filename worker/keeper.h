/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/generator.h"
#include "worker/keeper-state.h"
#include "worker/registry.h"

/*
 * Keeps the generator supplied with a lease: claims a worker ID, extends its reservation when a
 * quarter of its length has passed (with files only if IDs are asked for), hands it back at the
 * end; and disciplines the clock ten times a second. One thread of its own, the only one that calls
 * the registry and the only one that publishes leases.
 *
 * A lease whose record is not as it was written (REGISTRY_ERROR_LOST) is dropped as soon as that is
 * known, and a worker ID claimed anew.
 */
typedef struct _Keeper Keeper;

typedef struct {
	KeeperState state;
	gint datacenter_id;
	gint worker_id;           /* -1: none yet, or given up, or lost */
	gint64 claimed_at_ms;     /* since the Unix epoch: the registry's; 0: not yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved now */
	gint64 reservation_ms;    /* how long that reservation is; 0: nothing is reserved now */
	/* The last extension has failed, and none has worked since; or the one under way has had no
	 * answer for a second. Not without a lease. */
	gboolean extending_fails;
	KeeperSession session;
	/* How far this clock is ahead of the registry's (ZooKeeper's leader's, as it was read last,
	 * with a write: up to a millisecond and half the time that the write took), ... */
	gboolean registry_clock_known;
	gint64 registry_skew_ns;
	/* ... and of the one of the other servers of the datacenter that is furthest from it, to a
	 * millisecond or two: of 16 at most, which are asked after a list of the workers has come,
	 * every 30 s at most. */
	gboolean peers_skew_known;
	gint64 peers_skew_ns;
} KeeperStatus;

typedef struct {
	/* A jump of the system's clock forward by more than this is not believed at once; nor, with
	 * a registry that has a clock, is a step that ends further than this from it. */
	gint64 max_clock_skew_ms;
	/* After a step back by which the last ID is further ahead of the clock than
	 * @max_ahead_ms, give the worker ID up and claim another, to go on in true time; the order
	 * of IDs is then kept for each lease only. */
	gboolean reclaim_on_step_back;
	gint64 max_ahead_ms; /* the generator's; for the above */
	gint datacenter_id;  /* of this server */
	/* Called in the keeper's thread, after a lease was published or extended, the state
	 * changed, an attempt failed or a list of workers came or failed to; also for a fatal
	 * error, which keeper_error() then returns. It may call everything below but keeper_stop()
	 * and keeper_free(). */
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

/* Starts the thread, which claims at once: again and again where the registry says WAIT. FAILED is
 * tried again once there was a lease; before that it ends the trying, as FATAL always does. */
void keeper_start(Keeper *self);

/*
 * For a program that runs the keeper in its own thread, such as a simulation in virtual time. Do
 * not call keeper_start() and keeper_stop() then.
 */

/* Runs one round. Returns: when the next round is due, by g_get_monotonic_time(), unless
 * registry->wake() or keeper_demand() requests one before; 0: at once */
gint64 keeper_run_round(Keeper *self);

/* Makes the next rounds stop the keeper, as keeper_stop() does. They wait for the registry until
 * @by_us, by g_get_monotonic_time(). */
void keeper_ask_to_stop(Keeper *self, gint64 by_us);

/* Whether the keeper has stopped: no round is due. */
gboolean keeper_has_stopped(const Keeper *self);

/**
 * keeper_stop:
 * @timeout_ms: how long to wait for who must answer the registry, 0 or more
 *
 * Lets the operation under way come to its end, retires the lease, hands it back and ends the
 * thread. Whoever is away may come back in that time; then it is given up. What came of it is
 * logged. May be called again.
 *
 * Returns: %TRUE; or %FALSE, which is logged too, if the thread has not ended a second after that:
 * a call of the registry hangs, as a write to a disk may. It may end later: until another call
 * returns %TRUE, neither the keeper nor anything that it was given may be freed. The process is
 * about to end. What it issues till then is reserved, but the next life waits for the reservation
 * to pass
 */
gboolean keeper_stop(Keeper *self, gint64 timeout_ms);

/* Frees the registry, too. The thread must have ended (keeper_stop() returned %TRUE), or never have
 * been started. */
void keeper_free(Keeper *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Keeper, keeper_free)

/* Any thread. */
void keeper_get_status(Keeper *self, KeeperStatus *out_status);

/* Any thread: (transfer full) (nullable): the error that ended the keeper's trying, if one did. */
GError *keeper_error(Keeper *self);

/* Any thread: (transfer full) (nullable): why there is no reservation: an error that the registry
 * keeps returning; in KEEPER_WAITING, why no worker ID is free, and the remedy; or the disk call
 * that hangs. */
char *keeper_waiting_why(Keeper *self);

/* Any thread: how long ago the thread's last round began, in ms; before keeper_start(), how long
 * ago the keeper was made. Rounds begin ten times a second or more, unless a call of the registry
 * hangs. */
gint64 keeper_idle_ms(Keeper *self);

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

/**
 * keeper_get_workers:
 * @max_age_ms: how old the list may be; less than 200 counts as that
 * @may_wait: %FALSE: an older one will do
 * @out_workers: (out) (transfer full): of SnowflakeClientWorker, the caller's own; untouched unless
 * %TRUE
 * @out_as_of_ms: (out): since the Unix epoch, by the clock as it is now: when that was so;
 * untouched unless %TRUE
 *
 * Any thread: all workers that the registry knows of, this one maybe among them; of a registry that
 * knows of none but this one, none. If what is known is older, the registry is asked; call again
 * after changed(). If nothing at all is heard of it for 300 ms, or no list for 2 s, or this server
 * is stopping, the last list will do. The keeper takes one from time to time, too, so that there is
 * one when the registry is away.
 *
 * Returns: %TRUE; %FALSE without an error if a list is expected in a moment; or, if there never was
 * one, %FALSE with REGISTRY_ERROR_FAILED set if it did not come within 2 s, or will not come any
 * more. A second after one did not come the next call asks again
 */
gboolean keeper_get_workers(Keeper *self, gint64 max_age_ms, gboolean may_wait,
			    GPtrArray **out_workers, gint64 *out_as_of_ms, GError **error);

/**
 * keeper_get_quarantined:
 * @out_records: (out) (transfer full): of SnowflakeClientWorker, the caller's own: worker_id is one
 * that a record reserves and no claim holds, reserved_until_ms is until when nobody claims it,
 * address and nonce are those of the server that has reserved it; of a record that is damaged "",
 * and the end of the layout, as nobody claims that before it is mended; untouched unless %TRUE
 * @out_as_of_ms: (out): as keeper_get_workers() has it
 *
 * Any thread, and nothing is waited for: what the last list of the workers has shown, of all
 * datacenters, but for what has ended since. A worker ID that has no record is not among them,
 * even where an operator has quarantined the datacenter.
 *
 * If that list is older than 10 s, or in a large fleet so old that all servers together read 1,000
 * znodes a second at most for it, the registry is asked for another, if it can be reached now: this
 * is for who calls again.
 *
 * Returns: %FALSE if it is not known: no list has come yet, or the registry has none
 */
gboolean keeper_get_quarantined(Keeper *self, GPtrArray **out_records, gint64 *out_as_of_ms);
