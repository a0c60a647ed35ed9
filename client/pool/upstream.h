/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-pool.h"

/*
 * A pool for a relay: it waits for nothing, and calls back when there is something. Besides taking
 * prefetched IDs, a relay can request whole batches, and it knows the state of the fleet, also
 * while nobody takes IDs.
 *
 * Threads take from the ring itself, without chunks of their own. So as long as one server answers,
 * IDs increase in the order of the takes, whichever threads make them.
 *
 * For the process that made it: a child of fork() does nothing with it.
 */
typedef struct _PoolUpstream PoolUpstream;

/**
 * pool_upstream_new:
 * @config: copied; its timeout_ms means nothing
 * @own_nonce: (nullable): the caller's nonce; the pool does not use a server that reports it
 * @changed: Called in the pool's thread, under no lock, after a pass in which one of these
 *   happened: IDs came after an empty take; a batch request ended; a list of workers came or
 * failed; a server became fit, changed, or the last fit one was lost; a server failed while none is
 * fit; a server was excluded; the first server reported its state. It can call every function here
 * that is for any thread.
 *
 * Begins to connect, and waits for nothing. changed() can be called before this has returned.
 *
 * Returns: (transfer full): as snowflake_pool_new()
 */
PoolUpstream *pool_upstream_new(const SnowflakePoolConfig *config, const char *own_nonce,
				void (*changed)(gpointer user_data), gpointer user_data,
				GError **error);

/* No thread may use it or its batch requests any more. Do not call it in changed(), which is not
 * called any more once this has returned. */
void pool_upstream_free(PoolUpstream *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PoolUpstream, pool_upstream_free)

/**
 * pool_upstream_take:
 * @most: 1 or more
 * @out_first: (out): the first of the IDs, which are consecutive numbers; untouched on failure
 * @out_count: (out): how many, 1 to @most, which may be less than there are; untouched on failure
 *
 * Any thread.
 *
 * Returns: %FALSE if no ID is prefetched. Then the pool is woken, and changed() is called once
 * there are IDs: no wake-up is lost.
 */
gboolean pool_upstream_take(PoolUpstream *self, guint most, gint64 *out_first, guint *out_count);

/*
 * A request for a batch: exactly so many IDs, from one reply of one server.
 *
 * For one thread at a time. It stays placed until it is filled or refused, also while there is no
 * server at all; it cannot be withdrawn. The requests of several threads are served in the order in
 * which they were placed, as many at once as there are idle servers. They come before the buffer is
 * refilled; but while takes find nothing, the buffer has every other turn.
 */
typedef struct _PoolBatchRequest PoolBatchRequest;

typedef enum {
	POOL_BATCH_REQUEST_IDLE,    /* not yet placed */
	POOL_BATCH_REQUEST_PLACED,  /* belongs to the pool */
	POOL_BATCH_REQUEST_FILLED,  /* the IDs are there */
	POOL_BATCH_REQUEST_REFUSED, /* no fit server gives as many at once */
} PoolBatchRequestState;

/* Members are for reading, unless it is PLACED. */
struct _PoolBatchRequest {
	GArray *runs; /* SnowflakeClientIdRun: if FILLED, runs that increase, and add up to the
		       * count */
	gint64 filled_at_us; /* if FILLED: when the IDs came, by CLOCK_BOOTTIME */
	guint max_count;     /* if REFUSED: the largest count to request: the limit that the server
			      * named. If the server named none, one less than the count that it
			      * refused. If no server was asked, the pool's own limit */
	/* private */
	PoolUpstream *upstream;
	GList link; /* of the queue; under the mutex of PoolWatch */
	_Atomic PoolBatchRequestState state;
	gint64 placed_at_us;
	guint count;
};

/* Any thread. Returns: (transfer none): a request that is freed with @upstream */
PoolBatchRequest *pool_batch_request_new(PoolUpstream *upstream);

/* @count: 1 or more. The request must not be PLACED. */
void pool_batch_request_place(PoolBatchRequest *self, guint count);

PoolBatchRequestState pool_batch_request_state(const PoolBatchRequest *self);

/* The state of the fleet. */
typedef struct {
	gboolean is_served; /* a server serves, though it can refuse for a moment */
	gint64 since_us;    /* time of the last change of is_served, or of the start, by
			     * g_get_monotonic_time() */
	char *server;       /* host:port of the first server, or of the last one that was the first;
			     * empty: there never was one */
	gint datacenter_id; /* as it reported; -1: unknown, or it lacks get_worker() */
	gint worker_id;     /* the same */
	/* Its clock, by its last answer to get_worker(): it showed as_of_ms between asked_at_us and
	 * round_trip_us later. */
	gint64 as_of_ms;    /* since the Unix epoch; 0: unknown */
	gint64 asked_at_us; /* by CLOCK_BOOTTIME */
	gint64 round_trip_us;
	char *failure;      /* why no IDs come; NULL: they do */
	guint64 n_excluded; /* servers whose IDs were not unique, since the start */
	/* the last of them; NULL: none yet */
	char *excluded_server; /* its address */
	char *excluded_nonce;  /* empty: unknown */
	char *first_sender;    /* server that sent the same ID before; empty: IDs went back */
	char *proof;           /* what the excluded server sent */
} PoolView;

/* Any thread. @out_view: (out caller-allocates): must be cleared */
void pool_upstream_get_view(PoolUpstream *self, PoolView *out_view);
void pool_view_clear(PoolView *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PoolView, pool_view_clear)

/**
 * pool_upstream_get_workers:
 * @max_age_ms: how old the list may be
 * @out_workers: (out) (transfer full) (element-type SnowflakeClientWorker): a list that a server of
 *   the fleet sent, as snowflake_client_get_workers() returns it; other threads read it too, so it
 *   must not change; untouched on failure
 * @out_asked_at_us: (out): when it was requested, by CLOCK_BOOTTIME; untouched on failure
 * @out_failed: (out): with %FALSE: whether the last request, less than @max_age_ms ago, failed,
 *   because no server is fit, or the server lacks the call or has no list; otherwise a request is
 *   under way
 *
 * Any thread. Never waits: when a list has come, or a request has failed, changed() is called.
 */
gboolean pool_upstream_get_workers(PoolUpstream *self, gint64 max_age_ms, GPtrArray **out_workers,
				   gint64 *out_asked_at_us, gboolean *out_failed);

/* Any thread. As snowflake_pool_get_statistics(), without the IDs of batch requests. */
void pool_upstream_get_statistics(PoolUpstream *self, SnowflakePoolStatistics *out_statistics);
