/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/link.h"
#include "client/pool/servers.h"

/*
 * A server that a pool is connected to, and what it knows of it: whether it is fit, how far it is,
 * which calls it has. It is asked for one thing at a time. For one thread, under
 * fork_guard_lock().
 */

typedef struct _PoolOrder PoolOrder; /* of orders.h; here no more than a name */

typedef enum {
	POOL_PEER_UNKNOWN,  /* it has not said yet */
	POOL_PEER_SERVES,   /* or lacks get_worker(): then it is taken to */
	POOL_PEER_DRAINING, /* it is about to stop; asked only if no other server serves */
	POOL_PEER_WAITING,  /* its draws fail until its clock catches up; asked as DRAINING */
	POOL_PEER_UNFIT,    /* it has no worker ID */
} PoolPeerFitness;

typedef enum {
	POOL_PEER_NOTHING, /* new: it goes on, or tries another call */
	POOL_PEER_PROBED,
	POOL_PEER_DRAWN,
	POOL_PEER_LISTED,
	POOL_PEER_REFUSED, /* IDs; it may be asked again after refused_until_us */
	POOL_PEER_FAILED,  /* the connection is of no use any more */
} PoolPeerEvent;

/* Members are for reading. */
typedef struct {
	PoolServer *server; /* borrowed */
	PoolLink *link;
	PoolPeerFitness fitness;
	gint64 probed_us;   /* when it was last asked how it is */
	gint64 answered_us; /* and when it last said so */
	gint64 useless_us; /* since when it has not said yet, or refuses IDs; POOL_NEVER_US: neither
			    */
	gint64 round_trip_us;
	SnowflakeClientWorker *worker; /* what it last said of itself; NULL: it has not, or lacks
					* get_worker() */
	gint64 worker_asked_us;        /* when it was asked for that */
	gint64 worker_round_trip_us;   /* and how long the answer took */
	gint64 refused_until_us;
	ClientResult draws; /* RUNS; IDS or ID where it lacks the others */
	guint max_count;    /* of one draw: how many it is good to ask for */
	guint too_many;     /* likewise: the least that it does not give */
	PoolOrder *order;   /* what the draw under way is for; NULL: for the hand */
} PoolPeer;

/* What comes from peers; kept to be used again. */
typedef struct {
	gint64 asked_us;    /* when it was asked for */
	GArray *runs;       /* SnowflakeClientIdRun: DRAWN */
	GPtrArray *workers; /* SnowflakeClientWorker: LISTED; NULL: it cannot say */
	gint64 *ids;
} PoolNews;

void pool_news_init(PoolNews *self);
void pool_news_clear(PoolNews *self);

/* Begins to connect. @tls: (nullable): as pool_link_new() has it. Returns: (transfer full): %NULL
 * with an error set */
PoolPeer *pool_peer_new(PoolServer *server, TlsClient *tls, gint64 now_us, GError **error);
void pool_peer_free(PoolPeer *self);

gboolean pool_peer_is_idle(const PoolPeer *self);

/* How many IDs it is asked for now; for an order or not. */
guint pool_peer_drawing(const PoolPeer *self);

gboolean pool_peer_is_listing(const PoolPeer *self);

/* Ask it, which is idle: how it is; for @count IDs, for @order or %NULL, which is less than
 * too_many (of its get_id() 1); who else there is. */
void pool_peer_probe(PoolPeer *self, gint64 now_us);
void pool_peer_draw(PoolPeer *self, const char *agent, guint count, PoolOrder *order,
		    gint64 now_us);
void pool_peer_list(PoolPeer *self, gint64 now_us);

/* Number of servers that are read from a list, so that a list cannot use up the pool's memory. It
 * equals the number of worker IDs in the layout twitter. */
#define POOL_PEER_MAX_LISTED 1024

/* What it is asked for is not for its order any more, but for the hand. */
void pool_peer_forget_order(PoolPeer *self);

/* How good it is to ask it for IDs: the less the better; POOL_PEER_USELESS: not at all. */
#define POOL_PEER_USELESS G_MAXINT
gint pool_peer_rank(const PoolPeer *self, gint64 now_us);

/* When it has not got on for so long: it has not said how it is, from its last step on, or it
 * refuses IDs, and nothing is under way; POOL_NEVER_US: neither. */
#define POOL_PEER_GIVE_WAY_MS 500
gint64 pool_peer_gives_way_us(const PoolPeer *self);

/* How long to wait for it before another is asked: @least_us, or more if it is far. */
gint64 pool_peer_patience_us(const PoolPeer *self, gint64 least_us);
gboolean pool_peer_seems_to_hang(const PoolPeer *self, gint64 now_us);

/* When to give it up, if nothing comes. */
gint64 pool_peer_deadline_us(const PoolPeer *self);

/* When one of these next changes by itself. */
gint64 pool_peer_next_us(const PoolPeer *self, gint64 now_us);

/* As pool_link_advance(), and what that means. Fails at the deadline. */
PoolPeerEvent pool_peer_advance(PoolPeer *self, gint64 now_us, PoolNews *news, GError **error);
