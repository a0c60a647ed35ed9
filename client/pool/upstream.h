/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-pool.h"

/* A pool for a relay. Its functions never wait, and it notifies the relay of each event. In
 * addition to prefetched IDs, a relay can request whole batches. The pool tracks the state of the
 * fleet even while no IDs are taken.
 *
 * Threads take IDs directly from the ring, without chunks of their own. So as long as one server
 * answers, IDs increase in the order of the takes, even across threads.
 *
 * Only the process that created the pool can use it, not a child of fork(). */
typedef struct _PoolUpstream PoolUpstream;

/* Begins to connect without waiting. changed() may be called before this function returns.
 * @config: copied; its timeout_ms is ignored
 * @own_nonce: (nullable): the caller's nonce; the pool does not use a server that reports it
 * @changed: called in the pool's thread, without a lock, after a pass in which one of these
 * occurred: IDs arrived after an empty take; a batch request ended; a list of workers arrived or
 * failed; the first server became fit, changed, or was lost; a server failed while none is fit; a
 * server was excluded; the first server reported its state. It can call every function here that
 * any thread can call
 * Returns: (transfer full): see snowflake_pool_new() */
PoolUpstream *pool_upstream_new(const SnowflakePoolConfig *config, const char *own_nonce,
				void (*changed)(gpointer user_data), gpointer user_data,
				GError **error);

/* Frees the pool. No thread may still use the pool or its batch requests. Do not call this function
 * in changed(). changed() is not called after the return. */
void pool_upstream_free(PoolUpstream *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PoolUpstream, pool_upstream_free)

/* Takes @most consecutive IDs, or fewer. Thread-safe. Returns: %FALSE, without outputs, if no ID is
 * prefetched. The pool is then woken, and calls changed() when there are IDs. No wake-up is lost */
gboolean pool_upstream_take(PoolUpstream *self, guint most, gint64 *out_first, guint *out_count);

/* A request for a batch: a fixed number of IDs from one reply of one server.
 *
 * Only one thread at a time may use a request. A request stays placed until it is filled or
 * refused, even while there is no server, and cannot be cancelled. The requests of several threads
 * are served in order, as many at once as there are idle servers. They have priority over refills
 * of the buffer; but while takes wait for IDs, requests and refills alternate.
 */
typedef struct _PoolBatchRequest PoolBatchRequest;

typedef enum {
	POOL_BATCH_REQUEST_IDLE,    /* not yet placed */
	POOL_BATCH_REQUEST_PLACED,  /* belongs to the pool */
	POOL_BATCH_REQUEST_FILLED,  /* the IDs have arrived */
	POOL_BATCH_REQUEST_REFUSED, /* all fit servers refuse this count */
} PoolBatchRequestState;

/* Code outside this module may only read the members, and only while the request is not PLACED. */
struct _PoolBatchRequest {
	/* (element-type SnowflakeClientIdRun): if FILLED, increasing runs with the requested number
	 * of IDs in total */
	GArray *runs;
	gint64 filled_at_us; /* if FILLED: arrival of the IDs, by CLOCK_BOOTTIME */
	/* if REFUSED: the largest count to request. This is the server's limit; or the refused
	 * count minus 1, if the server reported no limit; or the pool's own limit, if no server was
	 * asked */
	guint max_count;
	/* private */
	PoolUpstream *upstream;
	GList link; /* link in the queue; protected by the mutex of PoolWatch */
	_Atomic PoolBatchRequestState state;
	gint64 placed_at_us;
	guint count;
};

/* Can be called from any thread. Returns: (transfer none): a request, which lives as long as
 * @upstream */
PoolBatchRequest *pool_batch_request_new(PoolUpstream *upstream);

/* Places a request, which must not be PLACED. @count: 1 or more */
void pool_batch_request_place(PoolBatchRequest *self, guint count);

PoolBatchRequestState pool_batch_request_state(const PoolBatchRequest *self);

/* The state of the fleet. */
typedef struct {
	gboolean is_served; /* a server serves, although it may refuse calls temporarily */
	gint64 since_us;    /* time of the last change of is_served, or of the start, by
			     * g_get_monotonic_time() */
	/* host:port of the current or last first server; empty if there was none */
	char *server;
	/* reported by the server; -1 if unknown, or if it does not support get_worker() */
	gint datacenter_id;
	gint worker_id; /* reported by the server; -1 if unknown */
	/* The server's clock in its last answer to get_worker(): it showed as_of_ms at some time
	 * between asked_at_us and asked_at_us + round_trip_us. */
	gint64 as_of_ms;    /* since the Unix epoch; 0 if unknown */
	gint64 asked_at_us; /* by CLOCK_BOOTTIME */
	gint64 round_trip_us;
	char *failure;      /* why no IDs arrive; NULL if IDs arrive */
	guint64 n_excluded; /* number of servers whose IDs were not unique, since the start */
	/* the last excluded server; NULL if none yet */
	char *excluded_server; /* its address */
	char *excluded_nonce;  /* empty: unknown */
	/* the server that sent the same ID before, or has the same worker ID in another registry;
	 * empty if IDs decreased */
	char *first_sender;
	char *proof; /* text with the IDs or registries that prove that IDs are not unique */
} PoolView;

/* Can be called from any thread. Returns: the current view, which the caller must clear */
PoolView pool_upstream_get_view(PoolUpstream *self);
void pool_view_clear(PoolView *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PoolView, pool_view_clear)

/* Gets a list of the fleet's servers, at most @max_age_ms old, see snowflake_client_get_workers().
 * Other threads also read the list, so it must not be changed. Can be called from any thread. Never
 * waits: changed() is called when a list has arrived or a request has failed.
 * @out_asked_at_us: (out): when it was requested, by CLOCK_BOOTTIME
 * @out_failed: (out): set with %FALSE: whether the last request, less than @max_age_ms ago, has
 * failed; if not, a request is in progress. A request fails if no server is fit, or if the server
 * does not support the call or has no list.
 * Returns: %FALSE, with the other outputs untouched, if there is no such list */
gboolean pool_upstream_get_workers(PoolUpstream *self, gint64 max_age_ms, GPtrArray **out_workers,
				   gint64 *out_asked_at_us, gboolean *out_failed);

/* See snowflake_pool_get_statistics(). Does not count the IDs of batch requests. */
void pool_upstream_get_statistics(PoolUpstream *self, SnowflakePoolStatistics *out_statistics);
