/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/resolver.h"

/*
 * The endpoints that a pool can connect to: how they are found, and the backoff of each. For one
 * thread; the caller passes the time.
 *
 * A change of one endpoint, or a draw, takes logarithmic time in the number of endpoints.
 */

#define POOL_NEVER_US                                                                              \
	G_MAXINT64 /* an instant; those of a pool are by CLOCK_BOOTTIME, which goes                \
		    * on while the machine sleeps, so that IDs age then too */

/* Members are for reading. */
typedef struct {
	char *text; /* as it was given, with its address if that is different */
	SocketAddress address;
	gint64 backoff_until_us; /* 0: no failure since its last answer */
	guint failures;          /* in a row */
	gint64 excluded_until_us;
	char *nonce;                   /* of its process, as last reported; NULL: unknown */
	gint datacenter_id, worker_id; /* as last reported; -1: not known */
	/* Greatest ID accepted on this connection, or earlier with the same worker ID, from any
	 * process; 0: none. Later IDs are greater. */
	gint64 last_id;
	gint last_datacenter_id, last_worker_id; /* that last_id has */
	gboolean has_gone_back;                  /* its last reply with IDs was not above last_id */
	gboolean is_linked;                      /* there is a connection to it */
	gboolean is_known;                       /* in the last list */
	GSequenceIter *iterator;                 /* private; NULL: linked, or not known */
} PoolEndpoint;

typedef struct _PoolEndpoints PoolEndpoints;

PoolEndpoints *pool_endpoints_new(void);
void pool_endpoints_free(PoolEndpoints *self);

/* Adds the endpoints in @names (element-type ResolvedName). If they @are_all, other endpoints are
 * forgotten once they are neither linked nor excluded. */
void pool_endpoints_set(PoolEndpoints *self, const GPtrArray *names, gboolean are_all,
			gint64 now_us);

guint pool_endpoints_count(const PoolEndpoints *self);

/* Returns: (nullable): a random endpoint that is neither linked nor in backoff at @time_us; 0: that
 * has not failed since its last answer */
PoolEndpoint *pool_endpoints_draw(PoolEndpoints *self, gint64 time_us);

/* Returns: when the first backoff of an endpoint that is not linked ends; 0: one was not tried
 * since its last answer; POOL_NEVER_US: never */
gint64 pool_endpoints_next_us(const PoolEndpoints *self);

/* Marks an endpoint that has a connection; draws skip it. */
void pool_endpoints_set_linked(PoolEndpoints *self, PoolEndpoint *endpoint, gboolean is_linked);

/* Ends the backoff of an endpoint whose server has answered. */
void pool_endpoints_end_failures(PoolEndpoints *self, PoolEndpoint *endpoint);

/* Starts the backoff after a failure: @least_us or more, longer after each failure in a row, with
 * jitter so that the pools do not return all at once. */
void pool_endpoints_back_off(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 now_us,
			     gint64 least_us);

/* Ends the backoff of a random endpoint that is not linked, unless it is excluded.
 * Returns: %FALSE if no such endpoint is in backoff */
gboolean pool_endpoints_end_a_backoff(PoolEndpoints *self, gint64 now_us);

/* Excludes a server whose IDs are not unique. Unlike a backoff, neither
 * pool_endpoints_end_a_backoff() nor a new list ends this early. */
void pool_endpoints_exclude(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 until_us);

/* Looks at every endpoint. Returns: the end of the exclusion of the process with @nonce, at any of
 * its endpoints, which can be in the past; 0: never excluded */
gint64 pool_endpoints_excluded_until_us(const PoolEndpoints *self, const char *nonce);

/* Notes what the server reports. @worker: (nullable): %NULL: it lacks get_worker(), so its worker
 * ID is unknown. @is_first: on a new connection. IDs of another worker ID can begin anywhere, but
 * IDs on one connection increase, so last_id is kept until the next connection. A new process with
 * the same worker ID begins after all IDs of the process before it, so last_id is kept then, too.
 */
void pool_endpoint_identify(PoolEndpoint *self, const SnowflakeClientWorker *worker,
			    gboolean is_first);

/* Notes that IDs up to @last_id, all above the last one, were accepted. */
void pool_endpoint_note_ids(PoolEndpoint *self, gint64 last_id);

/* Returns: a random number from 0 to @below - 1 */
guint pool_endpoints_random(PoolEndpoints *self, guint below);

/*
 * How a pool finds its endpoints: servers that it was told, and servers that one of them lists; and
 * the addresses of their names. For one thread, under fork_guard_lock().
 */

/* Members are private. */
typedef struct {
	const PoolConfig *config;
	PoolEndpoints *endpoints;
	int fd;
	Resolution *resolution; /* NULL: none */
	gboolean is_listing;    /* a server was asked for a list */
	GPtrArray *listed;      /* Address: of the last list; NULL: none yet */
	gint64 asked_at_us;     /* when it last asked for names or a list */
	gint64 renew_at_us;     /* when to ask again while a server serves */
} PoolDiscovery;

/* Begins to resolve names. @endpoints: (transfer none): where it puts what it finds. @fd: eventfd
 * of the thread */
void pool_discovery_init(PoolDiscovery *self, const PoolConfig *config, PoolEndpoints *endpoints,
			 int fd, gint64 now_us);
void pool_discovery_clear(PoolDiscovery *self);

/* Returns: when to ask for endpoints again; POOL_NEVER_US: not now.
 * @is_needed: if not, only until names are resolved and, with discover, a list has come
 * @is_served: a server serves and answers; while none does, names are resolved more often, since
 * they can have other addresses by now */
gint64 pool_discovery_next_us(const PoolDiscovery *self, gboolean is_needed, gboolean is_served);

/* A server can be asked now. Makes a list due, unless one has come before. */
void pool_discovery_retry_now(PoolDiscovery *self, gint64 now_us);

/* Asking is due, and this is done: a server is asked for a list, or nothing; names are resolved. */
void pool_discovery_put_off(PoolDiscovery *self, gboolean expects_list, gint64 now_us);
void pool_discovery_resolve(PoolDiscovery *self, gint64 now_us);

/* A server has sent a list, which can be wrong. Ignored if it is not expected.
 * @workers: (nullable): %NULL: it cannot list them */
void pool_discovery_take_list(PoolDiscovery *self, const GPtrArray *workers);

/* Takes in what was resolved since the last call. @out_failure: untouched unless names are unknown
 */
void pool_discovery_take_names(PoolDiscovery *self, gint64 now_us, GError **out_failure);
