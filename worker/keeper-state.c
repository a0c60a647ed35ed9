/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-state.h"

const char *keeper_state_name(KeeperState state)
{
	static const char *const NAMES[] = {
		[KEEPER_STARTING] = "starting",       [KEEPER_WAITING] = "waiting",
		[KEEPER_SERVING] = "serving",         [KEEPER_RECLAIMING] = "reclaiming",
		[KEEPER_UNAVAILABLE] = "unavailable", [KEEPER_STOPPED] = "stopped",
	};

	return NAMES[state];
}

KeeperState keeper_state_guess(gint worker_id, gboolean is_reserved)
{
	if (worker_id < 0)
		return KEEPER_STARTING;
	return is_reserved ? KEEPER_SERVING : KEEPER_UNAVAILABLE;
}

gboolean keeper_state_may_follow(KeeperState state, KeeperState next)
{
	/* A claim that had to wait is retried. */
	if (next == KEEPER_STARTING)
		return state == KEEPER_WAITING;
	return state != KEEPER_STOPPED;
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
