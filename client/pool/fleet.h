/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/pool/finder.h"
#include "client/pool/peers.h"
#include "client/pool/seen.h"
#include "client/pool/servers.h"

/*
 * The servers as the thread that fetches sees them: those it is connected to, which of them is
 * asked first, and where more are found. For that thread, under fork_guard_lock().
 */

/* What there is a need of, from less to more. */
typedef enum {
	POOL_NEED_NONE, /* nobody takes any IDs */
	POOL_NEED_MET,  /* the first server does */
	POOL_NEED_MORE, /* what is in hand runs out, or somebody waits */
} PoolNeed;

/* Members are for reading. */
typedef struct {
	const PoolConfig *config;
	gboolean is_watched; /* somebody wants to know how it is, also while nobody takes any IDs */
	PoolServers *servers;
	PoolPeers peers;
	PoolSeen seen;
	PoolPeer *first;     /* of them: is asked first; NULL: none is fit */
	gboolean is_served;  /* there is a peer that is fit to be asked */
	gint64 tries_us;     /* while there is not: when to try one that rests */
	gint64 replaces_us;  /* while there is: when to replace one that was lost */
	gint64 exchanges_us; /* when to try another server in place of the spare */
	PoolPeer *newcomer;  /* of the peers: one that is tried so; NULL: none */
	guint64 switches;
	guint64 n_excluded; /* servers whose IDs were not unique */
	/* the last of them, as in PoolView; NULL: none yet */
	char *excluded_server, *excluded_nonce, *first_sender, *proof;
	gboolean has_lost_first; /* it failed, and there is none since */
	gboolean is_settled;     /* has looked around, and drawn the first */
	gint64 settles_us;  /* until then it looks around: POOL_NEVER_US until one has answered */
	gint64 needed_us;   /* since when there is a need of more; POOL_NEVER_US: there is not */
	gint64 had_need_us; /* when there was, last */
	PoolFinder finder;
	guint64 n_failures;
	GError *failure; /* of what was last tried; NULL: something has come since */
} PoolFleet;

/* @fd: eventfd of the thread. */
void pool_fleet_init(PoolFleet *self, const PoolConfig *config, gboolean is_watched, int fd,
		     gint64 now_us);
void pool_fleet_clear(PoolFleet *self);

/* Takes in what @peer says, which may be gone after it. Returns: what it is; @news are the caller's
 */
PoolPeerEvent pool_fleet_hear(PoolFleet *self, PoolPeer **peer, PoolNews *news, gint64 now_us);

/* Looks after connections, and who is first. */
void pool_fleet_tend(PoolFleet *self, PoolNeed need, gint64 now_us);

/* Returns: (nullable): whom to ask for IDs now: the first, or others too if the need for more has
 * lasted; each is idle. */
PoolPeer *pool_fleet_choose(PoolFleet *self, PoolNeed need, gint64 now_us);

/* Returns: (nullable): whom to ask for @count IDs at once: the first if it is idle and gives as
 * many, or else another one that is */
PoolPeer *pool_fleet_choose_for_batch(PoolFleet *self, guint count, gint64 now_us);

/* Asks a server who there is, preferably not the first. Returns: %FALSE if none is fit and idle */
gboolean pool_fleet_list(PoolFleet *self, gint64 now_us);

/* How far it is to the first. */
gint64 pool_fleet_round_trip_us(const PoolFleet *self);

/* When to tend it next, even if nothing happens. */
gint64 pool_fleet_next_us(const PoolFleet *self, PoolNeed need, gint64 now_us);
