/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-state.h"

#define MOVE(state) (1u << WORKER_##state)

static const struct {
	const char *name;
	guint moves; /* the states that may follow */
} STATES[] = {
	[WORKER_STARTING] = {"starting", MOVE(WAITING) | MOVE(SERVING) | MOVE(STOPPED)},
	[WORKER_WAITING] = {"waiting", MOVE(STARTING) | MOVE(SERVING) | MOVE(RECLAIMING) |
					       MOVE(UNAVAILABLE) | MOVE(STOPPED)},
	[WORKER_SERVING] = {"serving",
			    MOVE(WAITING) | MOVE(RECLAIMING) | MOVE(UNAVAILABLE) | MOVE(STOPPED)},
	[WORKER_RECLAIMING] = {"reclaiming", MOVE(WAITING) | MOVE(SERVING) | MOVE(STOPPED)},
	[WORKER_UNAVAILABLE] = {"unavailable",
				MOVE(WAITING) | MOVE(SERVING) | MOVE(RECLAIMING) | MOVE(STOPPED)},
	[WORKER_STOPPED] = {"stopped", 0},
};

const char *keeper_state_name(WorkerState state)
{
	return STATES[state].name;
}

gboolean keeper_state_may_follow(WorkerState state, WorkerState next)
{
	return (STATES[state].moves & 1u << next) != 0;
}
