/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <poll.h>

#include "client/pool/config.h"
#include "client/pool/endpoints.h"
#include "client/pool/server.h"

/* The policy of a pool or a relay: the choice of servers, the order of draws, failover and
 * exclusion. Only the refill thread may use it, under fork_guard_lock(). */

#define POOL_FLEET_MAX_SERVERS 4

/* How many IDs the pool needs, in increasing order. */
typedef enum {
	POOL_NEED_NONE, /* no IDs are being taken */
	POOL_NEED_MET,  /* the first server can supply all IDs */
	POOL_NEED_MORE, /* the buffer is running out, or a thread waits for IDs */
} PoolNeed;

/* The IDs in the most recent replies from all servers. An ID that arrives twice proves that the
 * servers' IDs are not unique. IDs from older replies are dropped. */
#define POOL_SEEN_REPLIES 256 /* number of stored replies */

typedef struct {
	struct {
		gint64 first;
		gint64 last;
		GArray *runs; /* (element-type SnowflakeClientIdRun) */
		char *server;
	} replies[POOL_SEEN_REPLIES]; /* a ring buffer */
	guint oldest, count;
	guint n_runs;
} PoolSeen;

/* Code outside this module may only read the members. */
typedef struct {
	const PoolConfig *config;
	gboolean is_watched; /* the state must be known even while no IDs are taken */
	PoolEndpoints *endpoints;
	PoolDiscovery discovery;
	PoolServer *servers[POOL_FLEET_MAX_SERVERS]; /* NULL if there is no connection */
	PoolSeen seen;
	PoolServer *first;     /* the server that is used first; NULL if none is fit */
	PoolServer *candidate; /* the server that is tried in a rotation; NULL if none */
	gboolean is_served;    /* a server is fit for draws */
	PoolNeed need;
	guint64 failovers;
	guint64 n_excluded; /* number of servers whose IDs were not unique */
	/* the last excluded server, see PoolView; NULL if none yet */
	char *excluded_server, *excluded_nonce, *first_sender, *proof;
	gboolean has_lost_first; /* the first server has failed, and has not been replaced yet */
	/* the first server was chosen from all servers that were tried at the start */
	gboolean is_settled;
	/* when to choose the first server; POOL_NEVER_US if no server has answered yet */
	gint64 settle_at_us;
	/* time since which more IDs are needed; POOL_NEVER_US if they are not needed */
	gint64 needed_since_us;
	gint64 last_needed_at_us;
	gint64 retry_at_us;   /* while no server is fit: when to end backoffs */
	gint64 replace_at_us; /* while a server is fit: when to replace a lost server */
	gint64 rotate_at_us;  /* when to begin the next rotation */
	guint64 n_failures;
	GError *failure; /* the last failure; NULL if IDs have arrived since then */
} PoolFleet;

/* Runs a statement for each connected server. */
#define FOR_EACH_SERVER(fleet, server)                                                             \
	for (guint i_ = 0; i_ < POOL_FLEET_MAX_SERVERS; i_++)                                      \
		for (PoolServer *server = (fleet)->servers[i_]; server != NULL; server = NULL)

/* @fd: the thread's eventfd */
void pool_fleet_init(PoolFleet *self, const PoolConfig *config, gboolean is_watched, int fd,
		     gint64 now_us);
void pool_fleet_clear(PoolFleet *self);

/* Handles the next event of *@server. If its connection fails, frees *@server and sets it to %NULL.
 * Returns: the event; the caller owns @data */
PoolServerEvent pool_fleet_handle_event(PoolFleet *self, PoolServer **server, PoolEventData *data,
					gint64 now_us);

/* Chooses the first server, and runs all due timers. */
void pool_fleet_tend(PoolFleet *self, PoolNeed need, gint64 now_us);

/* Returns: when to call pool_fleet_tend() again, even without an event */
gint64 pool_fleet_next_us(PoolFleet *self, gint64 now_us);

/* Returns: the number of descriptors to poll, at most POOL_FLEET_MAX_SERVERS */
guint pool_fleet_get_pollfds(const PoolFleet *self, struct pollfd *out_fds);

/* Returns: (nullable): an idle server for a draw: the first server, or another one if more IDs have
 * been needed for a while */
PoolServer *pool_fleet_choose(PoolFleet *self, gint64 now_us);

/* Returns: (nullable): an idle server from which to draw @count IDs immediately, preferably the
 * first server */
PoolServer *pool_fleet_choose_for_batch(PoolFleet *self, guint count, gint64 now_us);

/* Returns: the number of IDs that servers are drawing for the buffer, not counting servers that
 * seem to hang */
guint64 pool_fleet_drawing(const PoolFleet *self, gint64 now_us);

/* Requests a list of servers, preferably not from the first. Returns: %FALSE if no server is fit
 * and idle */
gboolean pool_fleet_list(PoolFleet *self, gint64 now_us);
gboolean pool_fleet_is_listing(const PoolFleet *self);
