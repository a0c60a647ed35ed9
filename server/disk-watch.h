/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/file/disk-call.h"

/*
 * Logs disk calls of the state directory that hang. The calling thread is blocked, so the main
 * thread checks once a second.
 */
typedef struct {
	DiskCall call; /* call that was reported as hanging and has not ended; number 0: none */
	gint64 reported_us; /* monotonic: time of its last report */
} DiskWatch;

#define DISK_WATCH_CHECK_MS 1000

typedef enum {
	DISK_WATCH_NOTHING,
	DISK_WATCH_HANGS,     /* the call hangs, for some seconds or for another minute */
	DISK_WATCH_RECOVERED, /* a call that was reported has ended */
} DiskWatchVerdict;

/* Returns what to report now. @call: (nullable): the call that is under way at @now_us */
DiskWatchVerdict disk_watch_judge(const DiskWatch *self, const DiskCall *call, gint64 now_us);

/* Logs whether the call that is under way hangs, or the last one that hung has ended. */
void disk_watch_check(DiskWatch *self, gint64 now_us);

void disk_watch_clear(DiskWatch *self);
