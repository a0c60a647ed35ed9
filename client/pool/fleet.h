/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <poll.h>

#include "client/pool/config.h"
#include "client/pool/endpoints.h"
#include "client/pool/server.h"

/*
 * The policy of a pool, and of a relay: which servers it is connected to, which of them it draws
 * from first, what happens when one of them dies, and which it excludes. For the thread that
 * refills, under fork_guard_lock().
 */

#define POOL_FLEET_MAX_SERVERS 4

/* How much the pool needs, from less to more. */
typedef enum {
	POOL_NEED_NONE, /* nobody takes IDs */
	POOL_NEED_MET,  /* the first server is enough */
	POOL_NEED_MORE, /* the buffer runs out, or somebody waits */
} PoolNeed;

/* The IDs in the last replies from all servers. An ID that is received again proves that the
 * servers' IDs are not unique. IDs in older replies are forgotten. */
#define POOL_SEEN_REPLIES 256 /* largest number of replies */

typedef struct {
	struct {
		gint64 first;
		gint64 last;
		GArray *runs; /* SnowflakeClientIdRun */
		char *server;
	} replies[POOL_SEEN_REPLIES]; /* a ring */
	guint oldest, count;
	guint n_runs;
} PoolSeen;

/* Members are for reading. */
typedef struct {
	const PoolConfig *config;
	gboolean is_watched; /* its state must be known, also while nobody takes IDs */
	PoolEndpoints *endpoints;
	PoolDiscovery discovery;
	PoolServer *servers[POOL_FLEET_MAX_SERVERS]; /* NULL: no connection */
	PoolSeen seen;
	PoolServer *first;     /* of servers: is used first; NULL: none is fit */
	PoolServer *candidate; /* of servers: is tried in a rotation; NULL: none */
	gboolean is_served;    /* a server is fit to be drawn from */
	PoolNeed need;
	guint64 failovers;
	guint64 n_excluded; /* servers whose IDs were not unique */
	/* the last of them, as in PoolView; NULL: none yet */
	char *excluded_server, *excluded_nonce, *first_sender, *proof;
	gboolean has_lost_first; /* it failed, and there was no other since */
	gboolean is_settled;     /* the first was drawn from all that were tried at the start */
	gint64 settle_at_us;     /* when to draw it; POOL_NEVER_US: no server has answered yet */
	gint64 needed_since_us;  /* more is needed; POOL_NEVER_US: it is not */
	gint64 last_needed_at_us;
	gint64 retry_at_us;   /* while not served: when to end backoffs */
	gint64 replace_at_us; /* while served: when to replace a server that was lost */
	gint64 rotate_at_us;  /* when to begin the next rotation */
	guint64 n_failures;
	GError *failure; /* the last one; NULL: IDs have come since */
} PoolFleet;

/* @fd: eventfd of the thread */
void pool_fleet_init(PoolFleet *self, const PoolConfig *config, gboolean is_watched, int fd,
		     gint64 now_us);
void pool_fleet_clear(PoolFleet *self);

/* Handles the next event of *@server, which is freed and set to %NULL if its connection fails.
 * Returns: the event; @data belongs to the caller */
PoolServerEvent pool_fleet_handle_event(PoolFleet *self, PoolServer **server, PoolEventData *data,
					gint64 now_us);

/* Chooses the first server, and does everything that is due. */
void pool_fleet_tend(PoolFleet *self, PoolNeed need, gint64 now_us);

/* Returns: when to tend it again, even without an event */
gint64 pool_fleet_next_us(PoolFleet *self, gint64 now_us);

/* Returns: the number of descriptors to poll, POOL_FLEET_MAX_SERVERS at most */
guint pool_fleet_get_pollfds(const PoolFleet *self, struct pollfd *out_fds);

/* Returns: (nullable): an idle server to draw from now: the first, or others too if more has been
 * needed for a while */
PoolServer *pool_fleet_choose(PoolFleet *self, gint64 now_us);

/* Returns: (nullable): an idle server to draw @count IDs from at once, preferably the first */
PoolServer *pool_fleet_choose_for_batch(PoolFleet *self, guint count, gint64 now_us);

/* Returns: the smallest count that no fit server gives at once; 0: no server is fit */
guint pool_fleet_refused_count(const PoolFleet *self, gint64 now_us);

/* Whether a server draws for @request, and does not seem to hang. */
gboolean pool_fleet_is_drawing_for(const PoolFleet *self, const PoolBatchRequest *request,
				   gint64 now_us);

/* Lets draws for @request go to the buffer. */
void pool_fleet_forget_request(PoolFleet *self, const PoolBatchRequest *request);

/* Returns: the number of IDs that servers draw for the buffer, unless they seem to hang */
guint64 pool_fleet_drawing(const PoolFleet *self, gint64 now_us);

/* Requests a list of servers, preferably not from the first. Returns: %FALSE if no server is fit
 * and idle */
gboolean pool_fleet_list(PoolFleet *self, gint64 now_us);
gboolean pool_fleet_is_listing(const PoolFleet *self);

/* Whether a server serves, also if it has refused a moment ago. */
gboolean pool_fleet_has_serving(const PoolFleet *self);
