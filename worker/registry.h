/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/* The registry, which stores reservations: the worker ID of each server, and the last tick
 * reserved.
 *
 * It is an interface. file/registry.c implements it in a directory of this machine,
 * registration/registration.c implements it in a store that many machines share. Only the keeper's
 * thread calls it. The keeper begins an operation, and poll() continues it until its end; only one
 * is in progress at a time. A record is the stored reservation of one worker ID. Each
 * implementation follows these rules:
 *
 * 1. A record holds the last reserved tick and the owner's nonce, which is new for each process.
 *
 * 2. Every write is conditional on the version that was read. A lease begins after the end that was
 *    read, and only the release of a retired lease lowers the end.
 *
 * 3. A write takes effect for the server when it is confirmed. If its outcome is unknown, the
 *    record is read again.
 *
 * 4. Records are never deleted. A record that does not parse is an error, and never means an end of
 *    0. */

#define REGISTRY_ERROR (registry_error_quark())
GQuark registry_error_quark(void);

typedef enum {
	/* A failure that can end by itself: registry unreachable, disk full. The keeper retries.
	 * Before its first lease, the server exits instead, so that the user sees the reason. */
	REGISTRY_ERROR_FAILED,
	/* for a claim only: no worker ID is free. The message contains the reason and the
	 * remedy. */
	REGISTRY_ERROR_WAIT,
	/* The record is not what this server last wrote: it belongs to another server, was set
	 * back, or is gone. So no more IDs may be issued, because another server may issue the same
	 * IDs. The reservation is no longer held, and must not be released. poll() returns this at
	 * once, as the end of the operation in progress, or without an operation. For a release, it
	 * only means that the release failed. The functions of file/ also return it if another
	 * process holds the lock of the worker ID; a claim then returns FATAL or WAIT instead. */
	REGISTRY_ERROR_LOST,
	/* A failure that lasts until an operator acts: a worker ID that a live server holds, a
	 * different layout, a different machine, a wrong owner, a wrong clock. Also a record that
	 * does not parse, unless another worker ID can be claimed. */
	REGISTRY_ERROR_FATAL,
} RegistryError;

typedef enum {
	REGISTRY_NONE,
	REGISTRY_CLAIM,  /* claim the configured worker ID, or a free one */
	REGISTRY_EXTEND, /* extend the held reservation */
	/* release the held reservation, whose lease stays retired regardless of the outcome */
	REGISTRY_RELEASE,
} RegistryOperation;

/* The result of a claim. */
typedef struct {
	guint datacenter_id;
	guint worker_id;
	gint64 first_tick; /* first tick of the lease, after the previous end and after the floor */
	gint64 end_tick;   /* last reserved tick */
} Reservation;

/* How an operation ended. */
typedef struct {
	GError *error;           /* (transfer full); NULL if the operation succeeded */
	Reservation reservation; /* after a claim */
	/* after an extension: the confirmed end, which can be later than requested */
	gint64 end_tick;
	/* after a claim with WAIT: when to retry; G_MAXINT64 if unknown */
	gint64 wait_until_tick;
} RegistryResult;

/* A list of all workers: servers and embedded nodes. The members state and as_of_ms are not set;
 * see keeper_get_workers(). */
typedef struct {
	GPtrArray *workers; /* (element-type SnowflakeClientWorker) */
	/* (element-type SnowflakeClientWorker): worker IDs that a record reserves and no claim
	 * holds, with the address and nonce of the server that reserved each */
	GPtrArray *quarantined;
	gint64 read_at_ns; /* time by CLOCK_BOOTTIME at the start of the read */
	guint n_reads;     /* number of reads for this list */
} WorkerList;

WorkerList *worker_list_new(void);
void worker_list_free(WorkerList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WorkerList, worker_list_free)

/* The clock of a registry. Its offset from CLOCK_BOOTTIME is between @min_offset_ns and
 * @max_offset_ns. */
typedef struct {
	gboolean known;
	gint64 min_offset_ns;
	gint64 max_offset_ns;
} RegistryClock;

/* Returns the minimum by which a clock at @offset_ns is ahead of the registry's; negative if it is
 * behind. 0 if the clock may be right, or if the registry's clock is unknown. */
gint64 registry_clock_ahead_ns(const RegistryClock *clock, gint64 offset_ns);

/* The state of the connection to the registry. */
typedef enum {
	REGISTRY_SESSION_NONE,       /* the registry needs no session: a state directory */
	REGISTRY_SESSION_CONNECTING, /* there has been no session yet */
	REGISTRY_SESSION_CONNECTED,
	/* the connection was lost, or the session was lost and there is no new one */
	REGISTRY_SESSION_LOST,
	REGISTRY_N_SESSIONS,
} RegistrySession;

/* Returns "none", "connecting", "connected" or "lost". */
const char *registry_session_name(RegistrySession session);

/* The clocks of the peers that were last asked. */
typedef struct {
	gboolean known;
	gint64 ahead_ns; /* how far this server's clock is ahead of the one that differs most */
} RegistryPeers;

/* The output of a poll. */
typedef struct {
	RegistryResult result; /* if poll() has returned %TRUE: how the operation ended */
	/* monotonic time of the next poll, unless wake() is called earlier; or G_MAXINT64 */
	gint64 poll_at_us;
	/* an extension, a waiting claim or the retry of a failed attempt is due now */
	gboolean retry_now;
	gboolean is_reachable; /* a release would reach the registry now */
	RegistryClock clock;
	RegistrySession session;
	/* when the claim record that shows this server to others was created, since the Unix epoch;
	 * 0 if not yet */
	gint64 claimed_at_ms;
	gint64 heard_at_us; /* monotonic time of the registry's last answer */
	/* (nullable): why the operation cannot finish, and the remedy; NULL if this is unknown, or
	 * if the operation can finish. Valid until the next poll */
	const char *hindrance;
	/* (nullable): the registry's ID; NULL if it is unknown, or if there is none. Valid as long
	 * as the registry. Once it is known, it changes only if the state directory is replaced */
	const char *registry_id;
	WorkerList *list; /* (transfer full) (nullable): the list that list() requested */
	RegistryPeers peers;
} RegistryReport;

typedef struct _Registry Registry;

typedef struct {
	/* Begins an operation. While the registry is unreachable, a release ends with FAILED at
	 * once or, if the server is stopping, at poll()'s stop_by_us. After a failed release, the
	 * worker ID is quarantined until the reservation's end.
	 * @ticks: claim: the length of the reservation, from the tick of the write; extension: its
	 * end; release: the tick of the last ID issued, or the tick before the first reserved one
	 */
	void (*begin)(Registry *self, RegistryOperation operation, gint64 ticks);
	/* Continues the operation in progress and the registry's own maintenance. Blocks no longer
	 * than a write to a local disk.
	 * @now_tick: the current tick, within the layout: 0 to layout_max_tick()
	 * @stop_by_us: monotonic time until which a stopping server waits; 0 if the server is not
	 * stopping
	 * @out_report: (out): all members are set
	 * Returns: whether the operation in progress has ended; without an operation, whether the
	 * held reservation is LOST */
	gboolean (*poll)(Registry *self, gint64 now_tick, gint64 stop_by_us,
			 RegistryReport *out_report);
	/* Tells the current operation, if there is one, to end without waiting. poll() returns its
	 * outcome: FAILED if nothing was written, or if the outcome is still unknown at stop_by_us.
	 * NULL if no operation ever waits. */
	void (*cancel)(Registry *self);
	/* Requests that the registry's clock be read again, which poll() does as soon as possible.
	 * NULL if the registry has no clock. */
	void (*ask_clock)(Registry *self);
	/* Requests a list of all workers, which poll() returns. NULL if the registry is not shared.
	 */
	void (*list)(Registry *self);
	/* Frees the registry. Called after the keeper's thread has ended, by the thread that frees
	 * the keeper. Shows other servers that this one has ended, and waits at most 2 s for
	 * that. */
	void (*free)(Registry *self);
} RegistryOps;

/* The interface of a registry. The implementation sets the first members when it creates the
 * registry. The keeper sets the last two before the first call. None of them changes later. */
struct _Registry {
	const RegistryOps *ops;
	/* Lengths of the first and of the longest reservation, in ms. Each extension can double the
	 * length. */
	gint64 first_length_ms;
	gint64 max_length_ms;
	gboolean extend_when_idle;   /* extend the reservation even if no IDs are drawn */
	RegistryReport first_report; /* report to use before the first poll */
	/* Notifies the keeper that a poll is due. Can be called from any thread. */
	void (*wake)(gpointer user_data);
	gpointer wake_data;
};
