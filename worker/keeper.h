/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/generator.h"
#include "worker/keeper-state.h"
#include "worker/registry.h"

/* The keeper supplies the generator with a lease. It claims a worker ID and extends its reservation
 * after a quarter of its length (with a state directory, only if IDs are drawn). When it stops, it
 * releases the reservation. It also disciplines the clock ten times a second. Only its thread calls
 * the registry and publishes leases.
 *
 * If another process has changed the record of a lease (REGISTRY_ERROR_LOST), the lease is dropped
 * at once, and a worker ID is claimed again. */
typedef struct _Keeper Keeper;

typedef struct {
	KeeperState state;
	gint datacenter_id;
	gint worker_id; /* -1 if there is none yet, or it was given up or lost */
	/* time of the claim by the registry's clock, since the Unix epoch; 0 if there was none
	 * yet */
	gint64 claimed_at_ms;
	gint64 reserved_until_ms; /* since the Unix epoch; 0 if there is no reservation */
	gint64 reservation_ms;    /* length of that reservation; 0 if there is no reservation */
	/* There is a lease, and the last extension has failed, or the current one has been
	 * unanswered for a second. */
	gboolean extending_fails;
	RegistrySession session;
	/* (nullable): RegistryReport.registry_id; valid as long as the keeper */
	const char *registry_id;
	/* How far this clock is ahead of the registry's. ZooKeeper's clock is the clock of its
	 * leader, read by the last write. The error is up to a millisecond plus half the duration
	 * of that write. */
	gboolean registry_clock_known;
	gint64 registry_skew_ns;
	/* How far this clock is ahead of the peer clock that differs most, accurate to a
	 * millisecond or two. After a list of the workers has arrived, up to 16 peers are asked, at
	 * most every 30 s. */
	gboolean peers_skew_known;
	gint64 peers_skew_ns;
} KeeperStatus;

typedef struct {
	/* If the system clock jumps forward by more than this, the jump is not adopted at once. If
	 * the registry has a clock, the same applies to any step to a time that differs from that
	 * clock by more than this. */
	gint64 max_clock_skew_ms;
	/* Whether to claim another worker ID if a step back puts the last ID further ahead of the
	 * clock than @max_ahead_ms. If so, IDs contain the correct time, but increase only within
	 * each lease. */
	gboolean reclaim_on_step_back;
	gint64 max_ahead_ms; /* as in GeneratorPolicy */
	gint datacenter_id;  /* datacenter ID of this server */
	/* Called in the keeper's thread when a lease was published or extended, the state has
	 * changed, an attempt has failed, or a list of the workers has arrived or failed. Also
	 * called after a fatal error, which keeper_error() then returns. It may call all functions
	 * below except keeper_stop() and keeper_free(). */
	void (*changed)(gpointer user_data);
	gpointer user_data;
} KeeperConfig;

/* @registry: (transfer full)
 * @generator: borrowed
 * @clock: borrowed; from now on only the keeper sets its offset */
Keeper *keeper_new(Registry *registry, Generator *generator, SystemClock *clock,
		   const KeeperConfig *config);

/* Starts the thread, which claims at once. It claims again after WAIT, and after FAILED if there
 * was a lease before. FATAL ends the attempts, as does FAILED before the first lease. */
void keeper_start(Keeper *self);

/* The next three functions are for programs that run the keeper in their own thread, such as a
 * simulation in virtual time. Do not combine them with keeper_start() and keeper_stop(). */

/* Runs one round. Returns: when the next round is due (g_get_monotonic_time()), unless
 * registry->wake() or keeper_demand() requests an earlier one; 0 if at once */
gint64 keeper_run_round(Keeper *self);

/* Tells the keeper to stop in its next rounds, as keeper_stop() does. They wait for the registry
 * until @by_us (g_get_monotonic_time()). */
void keeper_ask_to_stop(Keeper *self, gint64 by_us);

/* Returns whether the keeper has stopped, so that no round is due. */
gboolean keeper_has_stopped(const Keeper *self);

/* Waits for the current operation, retires the lease, releases it and ends the thread. If the
 * registry cannot be reached within @timeout_ms, the lease is not released. The outcome is logged.
 * The function can be called again.
 *
 * Returns: %TRUE; or %FALSE, which is also logged, if the thread has not finished a second later.
 * In that case, a registry operation, such as a write to a disk, hangs, and can return at any time.
 * Until another call returns %TRUE, do not free the keeper or any object that was passed to it. The
 * process should exit. The IDs that it issues until then are reserved, so the next run of the
 * server waits for the end of the reservation */
gboolean keeper_stop(Keeper *self, gint64 timeout_ms);

/* Frees the keeper and the registry. The thread must have ended (keeper_stop() returned %TRUE), or
 * must never have been started. */
void keeper_free(Keeper *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Keeper, keeper_free)

/* The functions below can be called from any thread. */

void keeper_get_status(Keeper *self, KeeperStatus *out_status);

/* Returns: (transfer full) (nullable): the error that has ended the keeper's attempts; %NULL if
 * there was none. */
GError *keeper_error(Keeper *self);

/* Returns: (transfer full) (nullable): why there is no reservation: a repeated registry
 * error, the missing connection, or the hanging disk call; or, in KEEPER_WAITING, why no worker
 * ID is free, and the remedy. */
char *keeper_waiting_why(Keeper *self);

/* Returns the time since the thread's last round began, in ms; before keeper_start(), since
 * keeper_new(). Rounds begin at least ten times a second, unless a registry operation hangs. */
gint64 keeper_round_age_ms(Keeper *self);

/* Notifies the keeper that a draw was refused with DRAW_UNRESERVED, and wakes it if the reservation
 * has ended because no IDs were drawn. Repeated calls are cheap.
 * Returns: 0 if a lease is expected soon (wait for changed()); otherwise the time in ms until a
 * retry makes sense, 1 or more */
gint64 keeper_demand(Keeper *self);

/* Lists all workers in the registry, including this one after its claim. The list is empty if the
 * registry is not shared. If the last list is too old, another one is requested: call again after
 * changed(). The last list is returned if the registry is silent for 300 ms, if no list arrives
 * within 2 s, or if this server is stopping. The keeper also requests a list regularly, so that
 * there is a recent one when the registry is unreachable.
 * @max_age_ms: the maximum age of the list; values below 200 count as 200
 * @may_wait: if %FALSE, returns an older list instead of waiting
 * @out_workers: (out) (transfer full) (element-type SnowflakeClientWorker): copies; untouched
 * unless %TRUE
 * @out_as_of_ms: (out): the time of the list, since the Unix epoch, by the current clock; untouched
 * unless %TRUE
 * Returns: %TRUE; %FALSE without an error if a list is expected soon; %FALSE with
 * REGISTRY_ERROR_FAILED set if there has never been a list, and none has arrived within 2 s, or if
 * none will arrive. The next call after a second requests it again */
gboolean keeper_get_workers(Keeper *self, gint64 max_age_ms, gboolean may_wait,
			    GPtrArray **out_workers, gint64 *out_as_of_ms, GError **error);

/* Returns, without waiting, the quarantined worker IDs of all datacenters according to the last
 * list of the workers, except quarantines that have ended since. They do not include worker IDs
 * without a record, even if an operator has quarantined the datacenter.
 *
 * If the registry is reachable, and the list is older than 10 s, or in a large fleet older than
 * keeper_plan_list_age_us(), another list is requested for the next call.
 * @out_records: (out) (transfer full) (element-type SnowflakeClientWorker): copies of the
 * quarantined worker IDs, which a record reserves and no claim holds. Each contains the end of its
 * quarantine, and the address and nonce of the server that reserved it. For a damaged record,
 * address and nonce are "", and the end is the layout's end, because no server claims the worker
 * ID until the record is fixed. Untouched unless %TRUE
 * @out_as_of_ms: (out): see keeper_get_workers()
 * Returns: %FALSE if they are unknown, because no list has arrived yet, or because the registry has
 * no list */
gboolean keeper_get_quarantined(Keeper *self, GPtrArray **out_records, gint64 *out_as_of_ms);
