/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"
#include "server/health.h"
#include "server/source.h"
#include "worker/file/disk-call.h"

/* Watches for threads that hang. Each time a check finds that every thread has made progress, it
 * notifies systemd's watchdog and Health. Hanging disk calls of the state directory are logged: the
 * thread that makes such a call is blocked, so the main thread checks for them once a second.
 *
 * Only the main thread may use it.
 */
typedef struct {
	DiskCall call; /* a reported call that has not returned; its number is 0 if there is none */
	gint64 reported_at_us; /* monotonic time of its last report */
} DiskWatch;

typedef enum {
	DISK_WATCH_NOTHING,
	/* the call has hung for some seconds, or for another minute since the last report */
	DISK_WATCH_HANGS,
	DISK_WATCH_RECOVERED, /* a reported call has returned */
} DiskWatchVerdict;

/* Returns what to report now. @call: (nullable): the call that is in progress at @now_us */
DiskWatchVerdict disk_watch_judge(const DiskWatch *self, const DiskCall *call, gint64 now_us);

/* Logs whether the call in progress hangs, or a hanging call has returned. */
void disk_watch_check(DiskWatch *self, gint64 now_us);

typedef struct {
	RpcServer *rpc;
	Source *source;
	Health *health;
	DiskWatch disk_watch;
} Watchdog;

/* Starts the checks.
 * @rpc, @source, @health: borrowed
 * @watches_disk: whether there is a state directory */
void watchdog_start(Watchdog *self, RpcServer *rpc, Source *source, Health *health,
		    gboolean watches_disk);
void watchdog_clear(Watchdog *self);
