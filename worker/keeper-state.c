/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-state.h"

#define MOVE(state) (1u << KEEPER_##state)

static const struct {
	const char *name;
	guint moves; /* the states that may follow */
} STATES[] = {
	[KEEPER_STARTING] = {"starting", MOVE(WAITING) | MOVE(SERVING) | MOVE(STOPPED)},
	[KEEPER_WAITING] = {"waiting", MOVE(STARTING) | MOVE(SERVING) | MOVE(RECLAIMING) |
					       MOVE(UNAVAILABLE) | MOVE(STOPPED)},
	[KEEPER_SERVING] = {"serving",
			    MOVE(WAITING) | MOVE(RECLAIMING) | MOVE(UNAVAILABLE) | MOVE(STOPPED)},
	[KEEPER_RECLAIMING] = {"reclaiming", MOVE(WAITING) | MOVE(SERVING) | MOVE(STOPPED)},
	[KEEPER_UNAVAILABLE] = {"unavailable",
				MOVE(WAITING) | MOVE(SERVING) | MOVE(RECLAIMING) | MOVE(STOPPED)},
	[KEEPER_STOPPED] = {"stopped", 0},
};

const char *keeper_state_name(KeeperState state)
{
	return STATES[state].name;
}

gboolean keeper_state_may_follow(KeeperState state, KeeperState next)
{
	return (STATES[state].moves & 1u << next) != 0;
}

const char *keeper_session_name(KeeperSession session)
{
	static const char *const NAMES[KEEPER_N_SESSIONS] = {
		[KEEPER_SESSION_NONE] = "none",
		[KEEPER_SESSION_CONNECTING] = "connecting",
		[KEEPER_SESSION_CONNECTED] = "connected",
		[KEEPER_SESSION_LOST] = "lost",
	};

	return NAMES[session];
}
