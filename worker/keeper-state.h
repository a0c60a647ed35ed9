/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

typedef enum {
	WORKER_STARTING,    /* no claim was answered yet */
	WORKER_WAITING,     /* what a life before, or another server, has reserved must pass first;
			     * or the clock is outside the layout, and must be set right */
	WORKER_SERVING,     /* holds a lease that is, or on demand will be, good for the time now */
	WORKER_RECLAIMING,  /* lost its worker ID, or gave it up, and claims another */
	WORKER_UNAVAILABLE, /* the reservation has run out; extending it fails, or hangs */
	WORKER_STOPPED,     /* retired and handed back */
} WorkerState;

/* "starting", "waiting", ... */
const char *keeper_state_name(WorkerState state);

/* Whether the keeper may go from @state to @next. */
gboolean keeper_state_may_follow(WorkerState state, WorkerState next);
