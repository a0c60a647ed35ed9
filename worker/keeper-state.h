/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

typedef enum {
	KEEPER_STARTING,    /* no claim was answered yet */
	KEEPER_WAITING,     /* waits for the end of another reservation, or for the clock, which is
			     * outside the layout or more than max-ahead behind the last ID */
	KEEPER_SERVING,     /* holds a lease that is, or on demand will be, good for the time now */
	KEEPER_RECLAIMING,  /* lost its worker ID, or gives it up, and claims another */
	KEEPER_UNAVAILABLE, /* the reservation has run out; extending it fails, hangs, or is not
			     * allowed because the clock is too far ahead of the registry's */
	KEEPER_STOPPED,     /* retired and released */
} KeeperState;

/* "starting", "waiting", ... */
const char *keeper_state_name(KeeperState state);

/* The state of another worker, as far as the registry shows it. @worker_id: -1: none yet
 * @is_reserved: it has a reservation that has not ended */
KeeperState keeper_state_guess(gint worker_id, gboolean is_reserved);
