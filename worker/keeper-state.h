/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

typedef enum {
	KEEPER_STARTING, /* no claim has ended yet */
	KEEPER_WAITING,  /* waits for the end of another reservation, or for the clock, which is
			  * outside the layout's range or more than max-ahead behind the last ID */
	/* holds a lease that covers the current time, or that can be extended on demand */
	KEEPER_SERVING,
	KEEPER_RECLAIMING, /* has lost its worker ID, or is giving it up, and claims another */
	/* the reservation has ended; extending it fails, hangs, or is not allowed because the clock
	 * is too far ahead of the registry's */
	KEEPER_UNAVAILABLE,
	KEEPER_STOPPED, /* has retired and released the lease */
} KeeperState;

/* Returns "starting", "waiting" and so on. */
const char *keeper_state_name(KeeperState state);

/* Returns the probable state of another worker, from its records in the registry.
 * @worker_id: -1 if none yet
 * @is_reserved: it has a reservation that has not ended */
KeeperState keeper_state_guess(gint worker_id, gboolean is_reserved);
