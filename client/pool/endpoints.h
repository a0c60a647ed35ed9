/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/resolver.h"

/* The endpoints to which a pool can connect: their discovery, and the backoff of each. Only
 * one thread may use them. The caller passes the time.
 *
 * A change of one endpoint, and a draw, take logarithmic time in the number of endpoints. */

/* An instant that is never reached. Pools use CLOCK_BOOTTIME, so that IDs also age while the
 * machine is suspended. */
#define POOL_NEVER_US G_MAXINT64

/* Code outside this module may only read the members. */
typedef struct {
	char *text; /* the configured text, followed by the resolved address if it is different */
	SocketAddress address;
	gint64 backoff_until_us; /* 0 if there was no failure since its last answer */
	guint failures;          /* consecutive failures */
	gint64 excluded_until_us;
	char *nonce;                   /* last reported nonce of its process; NULL if unknown */
	gint datacenter_id, worker_id; /* last reported IDs; -1 if unknown */
	/* Greatest ID accepted on this connection, or earlier with the same worker ID, from any
	 * process; 0 if none. Later IDs must be greater. */
	gint64 last_id;
	gint last_datacenter_id, last_worker_id; /* worker ID and datacenter ID in last_id */
	/* the IDs in its last reply were not above last_id */
	gboolean has_gone_back;
	gboolean is_linked;      /* a connection to it exists */
	gboolean is_known;       /* it is in the last list */
	GSequenceIter *iterator; /* private; NULL if the endpoint is linked or unknown */
} PoolEndpoint;

typedef struct _PoolEndpoints PoolEndpoints;

PoolEndpoints *pool_endpoints_new(void);
void pool_endpoints_free(PoolEndpoints *self);

/* Adds the endpoints in @names (element-type ResolvedName). @are_all: forgets other endpoints once
 * they are neither linked nor excluded. */
void pool_endpoints_set(PoolEndpoints *self, const GPtrArray *names, gboolean are_all,
			gint64 now_us);

guint pool_endpoints_count(const PoolEndpoints *self);

/* Returns: (nullable): a random endpoint that is neither linked nor in backoff at @time_us. If
 * @time_us is 0, returns only an endpoint that has not failed since its last answer */
PoolEndpoint *pool_endpoints_draw(PoolEndpoints *self, gint64 time_us);

/* Returns: when the first backoff of an unlinked endpoint ends; 0 if an endpoint is not in backoff;
 * POOL_NEVER_US if there is no unlinked endpoint */
gint64 pool_endpoints_next_us(const PoolEndpoints *self);

/* Marks an endpoint as connected; draws skip it. */
void pool_endpoints_set_linked(PoolEndpoints *self, PoolEndpoint *endpoint, gboolean is_linked);

/* Ends the backoff of an endpoint whose server has answered. */
void pool_endpoints_end_failures(PoolEndpoints *self, PoolEndpoint *endpoint);

/* Starts the backoff after a failure: at least @least_us, longer after each consecutive failure,
 * with jitter so that pools do not all return at the same time. */
void pool_endpoints_back_off(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 now_us,
			     gint64 least_us);

/* Ends the backoff of a random endpoint that is not linked, unless it is excluded.
 * Returns: %FALSE if no such endpoint is in backoff */
gboolean pool_endpoints_end_a_backoff(PoolEndpoints *self, gint64 now_us);

/* Excludes a server whose IDs are not unique. Neither pool_endpoints_end_a_backoff() nor a new list
 * ends an exclusion early. */
void pool_endpoints_exclude(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 until_us);

/* Checks every endpoint. Returns: when the exclusion of the process with @nonce ends, at any of its
 * endpoints, possibly in the past; 0 if the process was never excluded */
gint64 pool_endpoints_excluded_until_us(const PoolEndpoints *self, const char *nonce);

/* Records what the server has reported. @worker: (nullable): %NULL if the server does not support
 * get_worker(), so its worker ID is unknown. @is_first: this is the first report on a new
 * connection. IDs with another worker ID can start at any value, but IDs on one connection
 * increase, so last_id is kept until the next connection. The IDs of a new process with the same
 * worker ID are above all IDs of the previous process, so last_id is kept in this case too. */
void pool_endpoint_identify(PoolEndpoint *self, const SnowflakeClientWorker *worker,
			    gboolean is_first);

/* Returns: a random number from 0 to @below - 1 */
guint pool_endpoints_random(PoolEndpoints *self, guint below);

/* Discovers the endpoints of a pool: configured servers, servers that one of them lists, and the
 * addresses of their host names. Only one thread may use it, under fork_guard_lock(). */

/* Members are private. */
typedef struct {
	const PoolConfig *config;
	PoolEndpoints *endpoints;
	int fd;
	Resolution *resolution; /* NULL if none */
	gboolean is_listing;    /* a request for a list is in progress */
	/* (element-type Address): from the last list; NULL if there was none yet */
	GPtrArray *listed;
	gint64 asked_at_us; /* time of the last DNS lookup or request for a list */
	gint64 renew_at_us; /* when to request them again while a server serves */
} PoolDiscovery;

/* Begins to resolve names. @endpoints: (transfer none): receives the endpoints. @fd: the thread's
 * eventfd */
void pool_discovery_init(PoolDiscovery *self, const PoolConfig *config, PoolEndpoints *endpoints,
			 int fd, gint64 now_us);
void pool_discovery_clear(PoolDiscovery *self);

/* Returns: when to discover endpoints again; POOL_NEVER_US if there is no need. @is_needed: if
 * %FALSE, discovery continues only until names are resolved and, with discover, a list has arrived.
 * @is_served: a server serves and answers; otherwise names are resolved more often, because their
 * addresses may have changed */
gint64 pool_discovery_next_us(const PoolDiscovery *self, gboolean is_needed, gboolean is_served);

/* Schedules an immediate request for a list, because a server can now answer it. Does nothing if a
 * list has already arrived. */
void pool_discovery_retry_now(PoolDiscovery *self, gint64 now_us);

/* Resolves names. Call it when discovery is due. @expects_list: a list was requested from a
 * server */
void pool_discovery_put_off(PoolDiscovery *self, gboolean expects_list, gint64 now_us);
void pool_discovery_resolve(PoolDiscovery *self, gint64 now_us);

/* Handles a list from a server. The list is untrusted, and is ignored if none was requested.
 * @workers: (nullable): %NULL if the server cannot list servers */
void pool_discovery_take_list(PoolDiscovery *self, const GPtrArray *workers);

/* Adds the addresses that have been resolved since the last call. @out_failure: set if names could
 * not be resolved; otherwise untouched */
void pool_discovery_take_names(PoolDiscovery *self, gint64 now_us, GError **out_failure);
