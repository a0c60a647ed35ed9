/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"
#include "server/service.h"
#include "worker/file/disk-call.h"

/*
 * Whether a server is alive, for supervisors that restart it, and whether it is healthy and ready,
 * for load balancers. Any thread.
 */
typedef struct {
	const ServiceConfig *service;
	gint64 check_ms; /* interval of the watchdog's checks; set before there are other threads */
	_Atomic gint64 progress_at_us; /* time of the last health_note(), or of the next check */
} Health;

#define HEALTH_CHECK_MS 5000 /* unless systemd's watchdog needs a shorter interval */

/* @service: borrowed */
void health_init(Health *self, const ServiceConfig *service);

/* Every thread has made progress. @for_ms: the checks stop for this time, since their thread is
 * busy; 0: they go on */
void health_note(Health *self, gint64 for_ms);

/* Each of these returns (transfer full) (nullable): a line that says why not; %NULL: it is so. */

/* No thread hangs. If a thread does, only a restart helps. */
char *health_why_not_alive(const Health *self);

/* It is alive, has a worker ID, and enough of its reservation is left: where it
 * cannot be extended, 10 s, or a quarter of its length if that is less. */
char *health_why_not_healthy(const Health *self);

/* It is healthy, and not about to stop: calls should come here. */
char *health_why_not_ready(const Health *self);

/*
 * Watches for threads that hang. At each check at which every thread has made progress, systemd's
 * watchdog and the health are notified. Disk calls of the state directory that hang are logged: the
 * thread that makes such a call is blocked, so the main thread checks it once a second.
 *
 * The main thread only.
 */
typedef struct {
	DiskCall call; /* a call that was reported and has not ended; its number is 0: none */
	gint64 reported_at_us; /* monotonic: time of its last report */
} DiskWatch;

typedef enum {
	DISK_WATCH_NOTHING,
	DISK_WATCH_HANGS,     /* the call hangs, for some seconds or for another minute */
	DISK_WATCH_RECOVERED, /* a call that was reported has ended */
} DiskWatchVerdict;

/* Returns what to report now. @call: (nullable): the call that is under way at @now_us */
DiskWatchVerdict disk_watch_judge(const DiskWatch *self, const DiskCall *call, gint64 now_us);

/* Logs whether the call that is under way hangs, or the last one that hung has ended. */
void disk_watch_check(DiskWatch *self, gint64 now_us);

typedef struct {
	RpcServer *rpc;
	Source *source;
	Health *health;
	DiskWatch disk_watch;
} Watchdog;

/* Begins to check. @rpc, @source, @health: borrowed. @watches_disk: there is a state directory */
void watchdog_start(Watchdog *self, RpcServer *rpc, Source *source, Health *health,
		    gboolean watches_disk);
void watchdog_clear(Watchdog *self);
