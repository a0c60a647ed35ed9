/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-pool.h"

/*
 * The pool as a server sees it that hands on a fleet's IDs: it waits for nothing, and is told when
 * there is something. Beside what is in hand there are batches that are asked for as they are, and
 * it knows how the fleet is, also while nobody takes any IDs.
 *
 * Threads take from the ring itself, and put nothing by. So as long as one server answers, IDs
 * increase in the order of the takes, whichever threads they are of.
 *
 * For the process that made it: a child of fork() does nothing with it.
 */
typedef struct _PoolUpstream PoolUpstream;

/**
 * pool_upstream_new:
 * @config: is copied; its timeout_ms means nothing
 * @own_nonce: (nullable): the caller's nonce; the pool does not use a server that reports it
 * @changed: Called in the pool's thread, under no lock, after a pass in which one of these
 *   happened: IDs came after an empty take; an order ended; a list of workers came or failed; a
 *   server became fit, changed, or the last fit one was lost; a server failed while none is fit; a
 *   server was excluded; the first server reported its state. It can call every function here that
 *   is for any thread.
 *
 * Begins to connect, and waits for nothing. changed() may come before this has returned.
 *
 * Returns: (transfer full): as snowflake_pool_new() has it
 */
PoolUpstream *pool_upstream_new(const SnowflakePoolConfig *config, const char *own_nonce,
				void (*changed)(gpointer user_data), gpointer user_data,
				GError **error);

/* No thread uses it or its orders any more. Not to be called in changed(), which is not called any
 * more once this has returned. */
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
 * Returns: %FALSE if there is nothing in hand. Then the pool is told, and changed() will be called
 * once there is something: no wake-up is lost.
 */
gboolean pool_upstream_take(PoolUpstream *self, guint most, gint64 *out_first, guint *out_count);

/*
 * A batch that is asked for as it is: exactly so many IDs, of one answer of one server.
 *
 * For one thread at a time. It stays placed until it is filled or refused, also while there is no
 * server at all; there is no calling it back. Those of several threads are served in the order in
 * which they were placed, as many at once as there are servers at hand. Before what is in hand is
 * refilled; but while takes find nothing there, that has every other turn.
 */
typedef struct _PoolOrder PoolOrder;

typedef enum {
	POOL_ORDER_IDLE,    /* not yet placed */
	POOL_ORDER_PLACED,  /* the pool's */
	POOL_ORDER_FILLED,  /* the IDs are there */
	POOL_ORDER_REFUSED, /* no server that is fit gives as many at once */
} PoolOrderState;

/* Any thread. Returns: (transfer none): one that is freed with @upstream */
PoolOrder *pool_order_new(PoolUpstream *upstream);

/* @count: 1 or more. It is not PLACED. */
void pool_order_place(PoolOrder *self, guint count);

PoolOrderState pool_order_state(const PoolOrder *self);

/* Of one that is FILLED, until it is placed again. (element-type SnowflakeClientIdRun): they
 * increase, and add up to the count. */
const GArray *pool_order_runs(const PoolOrder *self);

/* Likewise: when they came, by pool_clock_us() of clock.h. */
gint64 pool_order_came_us(const PoolOrder *self);

/* Only for a REFUSED order. Returns: the largest count to ask for: the limit that the server named.
 * If the server named none, one less than the count that it refused. If no server was asked, the
 * pool's own limit. */
guint pool_order_most(const PoolOrder *self);

/* How the fleet is, as the pool sees it. */
typedef struct {
	gboolean is_served; /* there is a server that serves, though it may refuse for a moment */
	gint64 since_us;    /* since when that is so, by g_get_monotonic_time(); of the start, if it
			     * never was otherwise */
	char *server; /* host:port of the first one; of the last one that was, if there is none
		       * now; empty: there never was one */
	gint datacenter_id; /* what it said of itself; -1: not known, of a server of 2010 */
	gint worker_id;     /* likewise */
	/* Its clock, by its last answer to get_worker(): as_of_ms was so between asked_at_us and
	 * round_trip_us later. */
	gint64 as_of_ms;    /* since the Unix epoch; 0: not known */
	gint64 asked_at_us; /* by pool_clock_us() of clock.h */
	gint64 round_trip_us;
	char *failure;      /* why nothing comes; NULL: it does */
	guint64 n_excluded; /* servers whose IDs were not unique, since the start */
	/* the last of them; NULL: none yet */
	char *excluded_server; /* its address */
	char *excluded_nonce;  /* empty: unknown */
	char *first_sender;    /* server that sent the same ID before; empty: IDs went back */
	char *proof;           /* what the excluded server sent */
} PoolView;

/* Any thread. @out_view: (out caller-allocates): to be cleared */
void pool_upstream_get_view(PoolUpstream *self, PoolView *out_view);
void pool_view_clear(PoolView *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PoolView, pool_view_clear)

/**
 * pool_upstream_get_workers:
 * @max_age_ms: how old the list may be
 * @out_workers: (out) (transfer full) (element-type SnowflakeClientWorker): the servers that a
 *   server of the fleet knows of, as snowflake_client_get_workers() has it; untouched on failure
 * @out_asked_us: (out): when it was asked for them, by pool_clock_us(); untouched on failure
 * @out_failed: (out): with %FALSE: the last attempt, less than @max_age_ms ago, came to nothing, as
 *   no server is fit, or it lacks the call, or does not know; else one is under way
 *
 * Any thread. Never waits: when a list has come, or cannot, changed() is called.
 */
gboolean pool_upstream_get_workers(PoolUpstream *self, gint64 max_age_ms, GPtrArray **out_workers,
				   gint64 *out_asked_us, gboolean *out_failed);

/* Any thread. As snowflake_pool_get_statistics(); of what is in hand, without orders. */
void pool_upstream_get_statistics(PoolUpstream *self, SnowflakePoolStatistics *out_statistics);
