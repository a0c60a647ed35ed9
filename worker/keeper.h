/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/generator.h"
#include "worker/keeper-state.h"
#include "worker/registry.h"

/*
 * The keeper supplies the generator with a lease. It claims a worker ID and extends its reservation
 * when a quarter of its length has passed (with files only if IDs are drawn). It hands the
 * reservation back at the end. It also disciplines the clock ten times a second. Its thread is the
 * only one that calls the registry, and the only one that publishes leases.
 *
 * If the record of a lease is not as this server wrote it (REGISTRY_ERROR_LOST), the lease is
 * dropped as soon as that is known, and a worker ID is claimed again.
 */
typedef struct _Keeper Keeper;

typedef struct {
	KeeperState state;
	gint datacenter_id;
	gint worker_id;           /* -1: none yet, or given up, or lost */
	gint64 claimed_at_ms;     /* since the Unix epoch, by the registry; 0: not yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved now */
	gint64 reservation_ms;    /* length of that reservation; 0: nothing is reserved now */
	/* There is a lease, and the last extension has failed, or the one under way has had no
	 * answer for a second. */
	gboolean extending_fails;
	RegistrySession session;
	/* How far this clock is ahead of the registry's. ZooKeeper's clock is the leader's, read
	 * with the last write, up to a millisecond and half the duration of that write. */
	gboolean registry_clock_known;
	gint64 registry_skew_ns;
	/* How far this clock is ahead of the peer's that is furthest from it, to a millisecond or
	 * two. After a list of the workers has come, 16 peers at most are asked, every 30 s at
	 * most. */
	gboolean peers_skew_known;
	gint64 peers_skew_ns;
} KeeperStatus;

typedef struct {
	/* A jump of the system's clock forward by more than this is not believed at once. If the
	 * registry has a clock, neither is a step that ends further than this from it. */
	gint64 max_clock_skew_ms;
	/* If a step back puts the last ID further ahead of the clock than @max_ahead_ms, give up
	 * the worker ID and claim another, to go on in true time. The order of IDs is then kept for
	 * each lease only. */
	gboolean reclaim_on_step_back;
	gint64 max_ahead_ms; /* the generator's */
	gint datacenter_id;  /* of this server */
	/* Called in the keeper's thread: after a lease was published or extended, the state
	 * changed, an attempt failed, or a list of the workers came or failed; also for a fatal
	 * error, which keeper_error() then returns. It can call all functions below but
	 * keeper_stop() and keeper_free(). */
	void (*changed)(gpointer user_data);
	gpointer user_data;
} KeeperConfig;

/**
 * keeper_new:
 * @registry: (transfer full)
 * @generator: borrowed
 * @clock: borrowed; from now on only the keeper sets its offset
 */
Keeper *keeper_new(Registry *registry, Generator *generator, SystemClock *clock,
		   const KeeperConfig *config);

/* Starts the thread, which claims at once. After WAIT it claims again, and after FAILED, if there
 * was a lease before. FAILED without one ends the attempts, and so does FATAL. */
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
 * @timeout_ms: how long to wait for the registry, 0 or more
 *
 * Waits for the end of the operation under way, retires the lease, hands it back and ends the
 * thread. If the registry is not reached in that time, the release is given up. The outcome is
 * logged. It can be called again.
 *
 * Returns: %TRUE; or %FALSE, which is logged too, if the thread has not ended a second later. A
 * call of the registry hangs then, such as a write to a disk, and can end at any time. Until
 * another call returns %TRUE, neither the keeper nor anything that it was given may be freed. The
 * process should end. The IDs that it issues until then are reserved, so the next run of the server
 * waits for the end of the reservation
 */
gboolean keeper_stop(Keeper *self, gint64 timeout_ms);

/* Frees the registry, too. The thread must have ended (keeper_stop() returned %TRUE), or never have
 * been started. */
void keeper_free(Keeper *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Keeper, keeper_free)

/* Any thread can call the functions below. */

void keeper_get_status(Keeper *self, KeeperStatus *out_status);

/* (transfer full) (nullable): the error that ended the keeper's attempts, if one did. */
GError *keeper_error(Keeper *self);

/* (transfer full) (nullable): why there is no reservation: an error that the registry repeats; that
 * there is no connection to the registry; in KEEPER_WAITING, why no worker ID is free, and the
 * remedy; or the disk call that hangs. */
char *keeper_waiting_why(Keeper *self);

/* Returns the time since the thread's last round began, in ms; before keeper_start(), since the
 * keeper was made. Rounds begin ten times a second or more, unless a call of the registry hangs. */
gint64 keeper_round_age_ms(Keeper *self);

/**
 * keeper_demand:
 *
 * Tells the keeper that a draw was refused with DRAW_UNRESERVED, and wakes it if the reservation
 * has ended because no IDs were drawn. It is cheap to call again and again.
 *
 * Returns: 0 if a lease is expected within a moment (wait for changed()), else how long until
 * another try makes sense, in ms, 1 or more
 */
gint64 keeper_demand(Keeper *self);

/**
 * keeper_get_workers:
 * @max_age_ms: how old the list may be; less than 200 counts as 200
 * @may_wait: %FALSE: an older list will do
 * @out_workers: (out) (transfer full): of SnowflakeClientWorker, copies; untouched unless %TRUE
 * @out_as_of_ms: (out): the time of the list, since the Unix epoch, by the present clock; untouched
 *   unless %TRUE
 *
 * Returns all workers that the registry knows, this one included once it has a claim; none if the
 * registry knows only this one. If the last list is older, another is requested: call again after
 * changed(). If the registry is silent for 300 ms, or no list comes within 2 s, or this server is
 * stopping, the last list will do. The keeper also requests a list from time to time, so that there
 * is one if the registry is away.
 *
 * Returns: %TRUE; %FALSE without an error if a list is expected in a moment; if there never was
 * one, %FALSE with REGISTRY_ERROR_FAILED set if it did not come within 2 s, or will not come any
 * more. A second after that, the next call requests it again
 */
gboolean keeper_get_workers(Keeper *self, gint64 max_age_ms, gboolean may_wait,
			    GPtrArray **out_workers, gint64 *out_as_of_ms, GError **error);

/**
 * keeper_get_quarantined:
 * @out_records: (out) (transfer full): of SnowflakeClientWorker, copies: the worker IDs that a
 *   record reserves and no claim holds, each with the end of its quarantine, and the address and
 *   nonce of the server that reserved it. Of a damaged record these are "", and the end is the
 * layout's, because nobody claims it before it is fixed. Untouched unless %TRUE
 * @out_as_of_ms: (out): as for keeper_get_workers()
 *
 * Does not wait: it returns what the last list of the workers has shown, of all datacenters, except
 * for quarantines that have ended since. A worker ID without a record is not among them, even if an
 * operator has quarantined the datacenter.
 *
 * If the list is older than 10 s, and in a large fleet older than keeper_plan_list_age_us(), and
 * the registry is reachable, another list is requested, for the next call.
 *
 * Returns: %FALSE if it is unknown: no list has come yet, or the registry has none
 */
gboolean keeper_get_quarantined(Keeper *self, GPtrArray **out_records, gint64 *out_as_of_ms);
