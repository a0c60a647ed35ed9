/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/link.h"

/*
 * The servers that a pool can connect to, and the backoff of each. For one thread; the caller
 * passes the time.
 *
 * A change of one server, or a draw, takes logarithmic time in the number of servers.
 */

/* Members are for reading. */
typedef struct {
	char *text;
	PoolLinkAddress address;
	gint64 rests_until_us; /* end of its backoff; 0: no failure since its last answer */
	guint failures;        /* in a row */
	gint64 excluded_until_us;
	/* Its process and worker ID, as it reported them at the start of the last connection. */
	char *nonce;                   /* NULL: unknown */
	gint datacenter_id, worker_id; /* -1: none, or changed since then */
	/* Greatest ID received since then, or earlier from the same process with the same worker
	 * ID; 0: none yet. Later IDs are greater. */
	gint64 last_id;
	gboolean has_gone_back; /* its last reply with IDs was not above last_id */
	gboolean is_linked;     /* there is a connection to it */
	gboolean is_known;      /* in the last list */
	GSequenceIter *place;   /* private; NULL: linked, or not known */
} PoolServer;

typedef struct _PoolServers PoolServers;

PoolServers *pool_servers_new(void);
void pool_servers_free(PoolServers *self);

/* Adds the servers in @names (element-type PoolName). If they @are_all, other servers are forgotten
 * once they are neither linked nor excluded. */
void pool_servers_set(PoolServers *self, const GPtrArray *names, gboolean are_all, gint64 now_us);

guint pool_servers_count(const PoolServers *self);

/* Returns: (nullable): a random server that is neither linked nor in backoff */
PoolServer *pool_servers_draw(PoolServers *self, gint64 now_us);

/* Returns: (nullable): a random server that is not linked and has not failed since its last answer
 */
PoolServer *pool_servers_draw_untried(PoolServers *self);
gboolean pool_servers_have_untried(const PoolServers *self);

/* Returns: when the first backoff of a server that is not linked ends; POOL_NEVER_US: never */
gint64 pool_servers_next_us(const PoolServers *self);

/* Mark a server that has a connection; draws skip it. */
void pool_servers_link(PoolServers *self, PoolServer *server);
void pool_servers_unlink(PoolServers *self, PoolServer *server);

/* Ends the backoff of a server that has answered. */
void pool_servers_end_failures(PoolServers *self, PoolServer *server);

/* Starts the backoff after a failure: @least_us or more, longer after each failure in a row, with
 * jitter so that the pools do not return all at once. */
void pool_servers_rest(PoolServers *self, PoolServer *server, gint64 now_us, gint64 least_us);

/* Excludes a server whose IDs are not unique. Unlike a backoff, neither pool_servers_rouse() nor a
 * new list ends this early. */
void pool_servers_exclude(PoolServers *self, PoolServer *server, gint64 until_us);

/* Looks at every server. Returns: the end of the exclusion of the process with @nonce, at any of
 * its addresses, which can be in the past; 0: never excluded */
gint64 pool_servers_excluded_until_us(const PoolServers *self, const char *nonce);

/* Notes what the server reports. @worker: (nullable): %NULL: it lacks get_worker(), so its process
 * is unknown. @is_first: on a new connection. IDs of another process or worker ID can begin
 * anywhere, but IDs on one connection increase, so last_id is kept until the next connection. */
void pool_server_identify(PoolServer *self, const SnowflakeClientWorker *worker, gboolean is_first);

/* Ends the backoff of a random server that is not linked, unless it is excluded.
 * Returns: %FALSE if no such server is in backoff */
gboolean pool_servers_rouse(PoolServers *self, gint64 now_us);

/* Returns: a random number from 0 to @below - 1 */
guint pool_servers_random(PoolServers *self, guint below);
