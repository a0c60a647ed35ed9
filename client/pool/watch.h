/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/pool/buffer.h"
#include "client/pool/fleet.h"
#include "client/pool/upstream.h"

/*
 * The state that the thread that refills shares with a relay: takes that found nothing, batch
 * requests, the state of the fleet, and its list of servers. See upstream.h for what they mean.
 *
 * No wake-up is lost. A take that found nothing sets a mark, and then takes again; the thread that
 * refills puts IDs, and then clears the mark. Both exchange the mark, so one of them is first:
 * either the mark is seen, or the IDs are.
 *
 * While a batch request is PLACED, its members belong to the thread that refills; otherwise to the
 * thread that places it. Its state is stored with release and loaded with acquire.
 */

/* Members are for reading, and for upstream.c. */
typedef struct {
	void (*changed)(gpointer user_data);
	gpointer user_data;
	_Atomic gboolean is_empty; /* the mark */
	gboolean is_changed;       /* for the thread that refills: changed() is due */
	pthread_mutex_t mutex;
	/* under it */
	GPtrArray *requests; /* PoolBatchRequest: all */
	GQueue placed;       /* of them */
	PoolView view;
	guint64 n_failures; /* of the fleet at the last pass */
	GPtrArray *workers; /* SnowflakeClientWorker; NULL: none have come yet */
	gint64 workers_asked_at_us;
	gint64 workers_failed_at_us; /* the last request that failed; 0: none */
	gboolean workers_wanted;
} PoolWatch;

void pool_watch_init(PoolWatch *self, void (*changed)(gpointer user_data), gpointer user_data);
void pool_watch_clear(PoolWatch *self);

/* For any thread. As pool_buffer_take() without a slot. If it finds nothing, changed() is called
 * once there are IDs, provided that the thread that refills is woken. */
gboolean pool_watch_take(PoolWatch *self, PoolBuffer *buffer, guint most, PoolRun *out_run);

/* For the thread that refills, under fork_guard_lock(). */

/* IDs were put into the buffer. */
void pool_watch_note_refill(PoolWatch *self);

/* Returns: when the oldest of the placed requests was placed; POOL_NEVER_US: there is none */
gint64 pool_watch_oldest_request_us(PoolWatch *self);

/* Draws for each placed request for which no server draws, or only servers that seem to hang, and
 * refuses those that no server gives. Returns: whether it has begun a draw */
gboolean pool_watch_serve_requests(PoolWatch *self, PoolFleet *fleet, const char *agent,
				   gint64 now_us);

/* @server has sent IDs. Returns: %FALSE if they are not for a batch request */
gboolean pool_watch_fill_request(PoolWatch *self, PoolFleet *fleet, const PoolServer *server,
				 const PoolEventData *data);

/* A server has answered a request for its list. @workers: (transfer full) (nullable): %NULL: it
 * cannot list them */
void pool_watch_put_workers(PoolWatch *self, GPtrArray *workers, gint64 asked_at_us, gint64 now_us);

/* Copies the state of the fleet, and requests its list of servers if it is wanted. */
void pool_watch_tend(PoolWatch *self, PoolFleet *fleet, gint64 now_us);

/* Not under fork_guard_lock(). Calls changed() if it is due. */
void pool_watch_notify(PoolWatch *self);
