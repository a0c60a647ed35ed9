/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"
#include "server/service.h"
#include "worker/file/disk-call.h"

/*
 * Knows whether a server is alive, for supervisors that restart it, and whether it is healthy and
 * ready, for load balancers. Any thread.
 */
typedef struct {
	const ServiceConfig *service;
	gint64 check_ms; /* interval of the watchdog's checks; set before there are other threads */
	_Atomic gint64 progress_at_us; /* time of the last health_note(), or of the next check */
} Health;

#define HEALTH_CHECK_MS 5000 /* unless systemd's watchdog needs a shorter interval */

/* @service: borrowed */
void health_init(Health *self, const ServiceConfig *service);

/* Records that every thread has made progress. @for_ms: the checks stop for this time, because
 * their thread is busy; 0: they continue */
void health_note(Health *self, gint64 for_ms);

/* Each of these functions returns (transfer full) (nullable): a line that says why the statement in
 * its comment is false; %NULL: it is true. */

/* The server is alive: no thread hangs. If a thread hangs, only a restart helps. */
char *health_why_not_alive(const Health *self);

/* The server is healthy: it is alive, has a worker ID, and enough of its reservation is left. If
 * the reservation cannot be extended, 10 s must be left, or a quarter of its length if that is
 * less. */
char *health_why_not_healthy(const Health *self);

/* The server is ready: it is healthy and does not drain, so calls should come here. */
char *health_why_not_ready(const Health *self);

/*
 * Watches for threads that hang. At each check at which every thread has made progress, systemd's
 * watchdog and the health are notified. Hanging disk calls of the state directory are logged: the
 * thread that makes such a call is blocked, so the main thread checks for them once a second.
 *
 * The main thread only.
 */
typedef struct {
	DiskCall call;         /* a reported call that has not ended; number 0: there is none */
	gint64 reported_at_us; /* monotonic time of its last report */
} DiskWatch;

typedef enum {
	DISK_WATCH_NOTHING,
	DISK_WATCH_HANGS,     /* the call has hung for some seconds, or for another minute */
	DISK_WATCH_RECOVERED, /* a reported call has ended */
} DiskWatchVerdict;

/* Returns what to report now. @call: (nullable): the call in progress at @now_us */
DiskWatchVerdict disk_watch_judge(const DiskWatch *self, const DiskCall *call, gint64 now_us);

/* Logs it if the call in progress hangs, or if a call that hung has ended. */
void disk_watch_check(DiskWatch *self, gint64 now_us);

typedef struct {
	RpcServer *rpc;
	Source *source;
	Health *health;
	DiskWatch disk_watch;
} Watchdog;

/* Starts the checks. @rpc, @source, @health: borrowed. @watches_disk: whether there is a state
 * directory */
void watchdog_start(Watchdog *self, RpcServer *rpc, Source *source, Health *health,
		    gboolean watches_disk);
void watchdog_clear(Watchdog *self);
