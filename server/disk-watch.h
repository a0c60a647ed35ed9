/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/file/disk-call.h"

/*
 * Logs which call to the disk of a state directory hangs. The thread that makes it cannot, so the
 * main thread looks once a second.
 */
typedef struct {
	DiskCall call;      /* that was reported last as hanging; number 0: none */
	gint64 reported_us; /* monotonic: that, last */
} DiskWatch;

#define DISK_WATCH_LOOK_MS 1000

typedef enum {
	DISK_WATCH_NOTHING,
	DISK_WATCH_HANGS,     /* for some seconds, or for another minute */
	DISK_WATCH_RECOVERED, /* a call that was reported has ended */
} DiskWatchVerdict;

/* Returns: what is to be reported now. @call: (nullable): that is under way at @now_us */
DiskWatchVerdict disk_watch_judge(const DiskWatch *self, const DiskCall *call, gint64 now_us);

/* Looks at the call that is under way, and logs what is to be reported. */
void disk_watch_look(DiskWatch *self);

void disk_watch_clear(DiskWatch *self);
