/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/pool/buffer.h"
#include "client/pool/fleet.h"
#include "client/pool/upstream.h"

/* The state that the refill thread shares with a relay: takes that found no IDs, batch requests,
 * the state of the fleet, and its list of servers. See upstream.h.
 *
 * No wake-up is lost. A take that finds no IDs sets a mark, and then tries to take again. The
 * refill thread puts IDs, and then clears the mark. Both exchange the mark atomically, so one of
 * them is first: either the refill thread sees the mark, or the second try finds the IDs.
 *
 * While a batch request is PLACED, its members belong to the refill thread; otherwise they belong
 * to the thread that places the request. Its state is stored with release order and loaded with
 * acquire order.
 */

/* Code outside this module, except upstream.c, may only read the members. */
typedef struct {
	void (*changed)(gpointer user_data);
	gpointer user_data;
	_Atomic gboolean is_empty; /* the mark */
	gboolean is_changed;       /* used by the refill thread: changed() is due */
	pthread_mutex_t mutex;
	/* members below: protected by the mutex */
	GPtrArray *requests; /* (element-type PoolBatchRequest): all requests */
	GQueue placed;       /* placed requests */
	PoolView view;
	guint64 n_failures; /* number of the fleet's failures until the last pass */
	GPtrArray *workers; /* (element-type SnowflakeClientWorker): NULL if there is no list yet */
	gint64 workers_asked_at_us;
	gint64 workers_failed_at_us; /* time of the last failed request; 0 if none */
	gboolean workers_wanted;
} PoolWatch;

void pool_watch_init(PoolWatch *self, void (*changed)(gpointer user_data), gpointer user_data);
void pool_watch_clear(PoolWatch *self);

/* Takes IDs like pool_buffer_take() without a slot. Can be called from any thread. If there are no
 * IDs and the caller wakes the refill thread, changed() is called when there are IDs. */
gboolean pool_watch_take(PoolWatch *self, PoolBuffer *buffer, guint most, PoolRun *out_run);

/* The functions below must be called by the refill thread, under fork_guard_lock(), unless stated
 * otherwise. */

/* Records that IDs were put into the buffer. */
void pool_watch_note_refill(PoolWatch *self);

/* Returns: when the oldest placed request was placed; POOL_NEVER_US if there is none */
gint64 pool_watch_oldest_request_us(PoolWatch *self);

/* Starts a draw for each placed request, unless a server that does not seem to hang already draws
 * for it. Refuses requests that all servers refuse. Returns: whether a draw was started */
gboolean pool_watch_serve_requests(PoolWatch *self, PoolFleet *fleet, const char *agent,
				   gint64 now_us);

/* Handles IDs that @server has sent. Returns: %FALSE if they are not for a batch request */
gboolean pool_watch_fill_request(PoolWatch *self, PoolFleet *fleet, const PoolServer *server,
				 const PoolEventData *data);

/* Handles a server's answer to a request for its list. @workers: (transfer full) (nullable): %NULL
 * if the server cannot list them */
void pool_watch_put_workers(PoolWatch *self, GPtrArray *workers, gint64 asked_at_us, gint64 now_us);

/* Copies the state of the fleet, and requests its list of servers if the relay wants one. */
void pool_watch_tend(PoolWatch *self, PoolFleet *fleet, gint64 now_us);

/* Calls changed() if it is due. Do not call this under fork_guard_lock(). */
void pool_watch_notify(PoolWatch *self);
