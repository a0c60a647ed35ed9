/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/pool/fleet.h"
#include "client/pool/upstream.h"

/*
 * The orders of upstream.h, between the threads that place them and the one that fetches. What is
 * in an order belongs to the latter while it is PLACED, and else to whoever places it: its state is
 * stored with release and loaded with acquire. Who is asked for it the peers know.
 */

/* Members are private, and for upstream.c. */
struct _PoolOrder {
	PoolUpstream *upstream;
	GList link; /* of the queue; under the mutex */
	_Atomic PoolOrderState state;
	gint64 placed_us;
	guint count;
	guint most;
	GArray *runs; /* SnowflakeClientIdRun */
	gint64 came_us;
};

/* Members are private. */
typedef struct {
	pthread_mutex_t mutex;
	/* under it */
	GPtrArray *all; /* PoolOrder */
	GQueue placed;
	/* for the thread that fetches */
	gboolean have_ended; /* some have, since it was last looked */
} PoolOrders;

void pool_orders_init(PoolOrders *self);
void pool_orders_clear(PoolOrders *self);

/* Any thread. Returns: (transfer none): one that is IDLE */
PoolOrder *pool_orders_add(PoolOrders *self, PoolUpstream *upstream);
void pool_orders_place(PoolOrders *self, PoolOrder *order, guint count);

/* From here on for the thread that fetches, under fork_guard_lock(). */

/* When the first of those that are placed was: POOL_NEVER_US: none is. */
gint64 pool_orders_oldest_us(PoolOrders *self);

/* Asks servers for what is placed and nobody is asked for, or nobody who does not seem to hang, and
 * refuses what none of them gives. Returns: whether one was asked */
gboolean pool_orders_serve(PoolOrders *self, PoolFleet *fleet, const char *agent, gint64 now_us);

/* @peer, of @peers, has answered with @news. Returns: %FALSE if they are not for an order */
gboolean pool_orders_fill(PoolOrders *self, const PoolPeers *peers, const PoolPeer *peer,
			  const PoolNews *news);

/* Returns: whether some have ended since it was last asked */
gboolean pool_orders_have_ended(PoolOrders *self);
