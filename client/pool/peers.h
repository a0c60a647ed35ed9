/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <poll.h>

#include "client/pool/peer.h"

/*
 * The servers that a pool is connected to, all together: which is the best to ask, which is spare,
 * how much is under way. Nothing here changes one. For one thread, under fork_guard_lock().
 */

#define POOL_PEERS_MAX 4

typedef struct {
	PoolPeer *all[POOL_PEERS_MAX]; /* NULL: no peer there */
} PoolPeers;

guint pool_peers_count(const PoolPeers *self);

/* Writes what to poll, and returns how many it is: POOL_PEERS_MAX at most. */
guint pool_peers_poll(const PoolPeers *self, struct pollfd *out_fds);

/* Whether there is one that serves, also if it has refused a moment ago. */
gboolean pool_peers_have_serving(const PoolPeers *self);

/* Of pool_peer_rank(): POOL_PEER_USELESS if there is none that is fit. */
gint pool_peers_best_rank(const PoolPeers *self, gint64 now_us);

/* How far it is to the nearest of those that have this rank; POOL_NEVER_US: none has. */
gint64 pool_peers_round_trip_us(const PoolPeers *self, gint rank, gint64 now_us);

/* Returns: (nullable): one that is fit and idle, gives @count IDs at once, and is not @not_this */
PoolPeer *pool_peers_find_idle(const PoolPeers *self, guint count, const PoolPeer *not_this,
			       gint64 now_us);

/* Returns: (nullable): of those that are fit the one that gives most IDs at once */
const PoolPeer *pool_peers_find_largest(const PoolPeers *self, gint64 now_us);

/* Whether another one is the same server, by another name. */
gboolean pool_peers_has_twin(const PoolPeers *self, const PoolPeer *peer);

/* Whether one is asked for what is @order's, and does not seem to hang. */
gboolean pool_peers_serve_order(const PoolPeers *self, const PoolOrder *order, gint64 now_us);

gboolean pool_peers_are_idle(const PoolPeers *self);
gboolean pool_peers_are_listing(const PoolPeers *self);

/* How many IDs are under way to the hand from those that do not seem to hang. */
guint64 pool_peers_drawing(const PoolPeers *self, gint64 now_us);

/* When the rank of one changes by itself, or it is given up. */
gint64 pool_peers_next_us(const PoolPeers *self, gint64 now_us);
