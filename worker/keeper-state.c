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
