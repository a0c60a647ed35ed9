/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/resolver.h"

/*
 * The endpoints to which a pool can connect: their discovery, and the backoff of each. For one
 * thread; the caller passes the time.
 *
 * A change of one endpoint, or a draw, takes logarithmic time in the number of endpoints.
 */

/* An instant that is never reached. Pools use CLOCK_BOOTTIME, so that IDs also age during a
 * suspend.
 */
#define POOL_NEVER_US G_MAXINT64

/* Code outside this module may only read the members. */
typedef struct {
	char *text; /* the text as configured, followed by its address if this is different */
	SocketAddress address;
	gint64 backoff_until_us; /* 0 if no failure since its last answer */
	guint failures;          /* consecutive failures */
	gint64 excluded_until_us;
	char *nonce;                   /* last reported nonce of its process; NULL if unknown */
	gint datacenter_id, worker_id; /* last reported IDs; -1 if unknown */
	/* Greatest ID accepted on this connection, or earlier with the same worker ID, from any
	 * process; 0 if none. Later IDs are greater. */
	gint64 last_id;
	gint last_datacenter_id, last_worker_id; /* IDs in last_id */
	/* the IDs of its last reply were not above last_id */
	gboolean has_gone_back;
	gboolean is_linked;      /* there is a connection to it */
	gboolean is_known;       /* is in the last list */
	GSequenceIter *iterator; /* private; NULL if linked, or unknown */
} PoolEndpoint;

typedef struct _PoolEndpoints PoolEndpoints;

PoolEndpoints *pool_endpoints_new(void);
void pool_endpoints_free(PoolEndpoints *self);

/* Adds the endpoints in @names (element-type ResolvedName). If they @are_all, other endpoints are
 * forgotten once they are neither linked nor excluded. */
void pool_endpoints_set(PoolEndpoints *self, const GPtrArray *names, gboolean are_all,
			gint64 now_us);

guint pool_endpoints_count(const PoolEndpoints *self);

/* Returns: (nullable): a random endpoint that is neither linked nor in backoff at @time_us; 0: only
 * one that has not failed since its last answer */
PoolEndpoint *pool_endpoints_draw(PoolEndpoints *self, gint64 time_us);

/* Returns: when the first backoff of an unlinked endpoint ends; 0 if one has no backoff;
 * POOL_NEVER_US: never */
gint64 pool_endpoints_next_us(const PoolEndpoints *self);

/* Marks an endpoint as connected; draws skip it. */
void pool_endpoints_set_linked(PoolEndpoints *self, PoolEndpoint *endpoint, gboolean is_linked);

/* Ends the backoff of an endpoint whose server has answered. */
void pool_endpoints_end_failures(PoolEndpoints *self, PoolEndpoint *endpoint);

/* Starts the backoff after a failure: @least_us or more, longer after each consecutive failure,
 * with jitter so that not all pools return at the same time. */
void pool_endpoints_back_off(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 now_us,
			     gint64 least_us);

/* Ends the backoff of a random endpoint that is not linked, unless it is excluded.
 * Returns: %FALSE if no such endpoint is in backoff */
gboolean pool_endpoints_end_a_backoff(PoolEndpoints *self, gint64 now_us);

/* Excludes a server whose IDs are not unique. Unlike a backoff, neither
 * pool_endpoints_end_a_backoff() nor a new list ends this early. */
void pool_endpoints_exclude(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 until_us);

/* Checks every endpoint. Returns: the end of the exclusion of the process with @nonce, at any of
 * its endpoints, which can be in the past; 0 if never excluded */
gint64 pool_endpoints_excluded_until_us(const PoolEndpoints *self, const char *nonce);

/* Records the report of the server. @worker: (nullable): %NULL if it lacks get_worker(), so its
 * worker ID is unknown. @is_first: on a new connection. IDs of another worker ID can begin
 * anywhere, but IDs on one connection increase, so last_id is kept until the next connection. A new
 * process with the same worker ID begins after all IDs of the previous process, so last_id is also
 * kept then. */
void pool_endpoint_identify(PoolEndpoint *self, const SnowflakeClientWorker *worker,
			    gboolean is_first);

/* Records that IDs up to @last_id were accepted, all of which are above the previous last_id. */
void pool_endpoint_note_ids(PoolEndpoint *self, gint64 last_id);

/* Returns: a random number from 0 to @below - 1 */
guint pool_endpoints_random(PoolEndpoints *self, guint below);

/*
 * Finds the endpoints of a pool: configured servers, servers that one of them lists, and the
 * addresses of their names. For one thread, under fork_guard_lock().
 */

/* Members are private. */
typedef struct {
	const PoolConfig *config;
	PoolEndpoints *endpoints;
	int fd;
	Resolution *resolution; /* NULL if none */
	gboolean is_listing;    /* a list was requested from a server */
	GPtrArray *listed;      /* (element-type Address): from the last list; NULL if none yet */
	gint64 asked_at_us;     /* time of the last DNS lookup or request for a list */
	gint64 renew_at_us;     /* when to repeat them while a server serves */
} PoolDiscovery;

/* Begins to resolve names. @endpoints: (transfer none): receives the endpoints. @fd: eventfd of the
 * thread */
void pool_discovery_init(PoolDiscovery *self, const PoolConfig *config, PoolEndpoints *endpoints,
			 int fd, gint64 now_us);
void pool_discovery_clear(PoolDiscovery *self);

/* Returns: when to discover endpoints again; POOL_NEVER_US: not now.
 * @is_needed: %FALSE: only until names are resolved and, with discover, a list has arrived
 * @is_served: a server serves and answers; while none does, names are resolved more often, because
 * their addresses may have changed */
gint64 pool_discovery_next_us(const PoolDiscovery *self, gboolean is_needed, gboolean is_served);

/* Makes a request for a list due, because a server can now be asked, unless a list has already
 * arrived. */
void pool_discovery_retry_now(PoolDiscovery *self, gint64 now_us);

/* Call it when discovery is due. Resolves names. @expects_list: a list was requested from a server
 */
void pool_discovery_put_off(PoolDiscovery *self, gboolean expects_list, gint64 now_us);
void pool_discovery_resolve(PoolDiscovery *self, gint64 now_us);

/* Takes the list that a server has sent. The list is untrusted, and is ignored unless one was
 * requested. @workers: (nullable): %NULL if the server cannot list servers */
void pool_discovery_take_list(PoolDiscovery *self, const GPtrArray *workers);

/* Takes the addresses that have been resolved since the last call. @out_failure: untouched unless
 * names could not be resolved */
void pool_discovery_take_names(PoolDiscovery *self, gint64 now_us, GError **out_failure);
