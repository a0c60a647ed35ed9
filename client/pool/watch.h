/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/pool/fleet.h"
#include "client/pool/hand.h"
#include "client/pool/orders.h"
#include "client/pool/upstream.h"

/*
 * What the thread that fetches and whoever watches it tell each other: who has found nothing in
 * hand, what is ordered, how the fleet is and who is in it. See upstream.h.
 *
 * No wake-up is lost. Who has found nothing marks that, and then looks once more; who has put
 * something takes the mark away. Both exchange the mark, so one of them is first: either the mark
 * is seen, or what was put.
 */

/* Members are private. */
typedef struct {
	void (*changed)(gpointer user_data);
	gpointer user_data;
	PoolOrders orders;
	_Atomic gboolean is_dry; /* the mark */
	gboolean has_news;       /* for the thread that fetches: changed() is due */
	pthread_mutex_t mutex;
	/* under it */
	PoolView view;
	guint64 n_failures; /* the fleet's n_failures at the last pass */
	GPtrArray *workers; /* SnowflakeClientWorker; NULL: none have come yet */
	gint64 workers_asked_us;
	gint64 workers_failed_us; /* when they were last asked for in vain; 0: never */
	gboolean workers_wanted;
} PoolWatch;

void pool_watch_init(PoolWatch *self, void (*changed)(gpointer user_data), gpointer user_data);
void pool_watch_clear(PoolWatch *self);

/* Any thread. */

/* As pool_hand_take(), of no slot. If there is nothing, changed() will be called once there is, if
 * whoever fetches is called. */
gboolean pool_watch_take(PoolWatch *self, PoolHand *hand, guint most, PoolRun *out_run);

void pool_watch_get_view(PoolWatch *self, PoolView *out_view);

/* As pool_upstream_get_workers(). Whoever fetches is to be called if that comes to nothing. */
gboolean pool_watch_get_workers(PoolWatch *self, gint64 max_age_ms, GPtrArray **out_workers,
				gint64 *out_asked_us, gboolean *out_failed);

/* From here on for the thread that fetches, under fork_guard_lock() unless it is said. */

gboolean pool_watch_is_dry(const PoolWatch *self);

/* Something was put into the hand. */
void pool_watch_wake(PoolWatch *self);

/* A server has been asked for its workers, and has answered: with @workers (transfer full), or that
 * it does not know them: %NULL. */
void pool_watch_put_workers(PoolWatch *self, GPtrArray *workers, gint64 asked_us, gint64 now_us);

/* Takes in how the fleet is, and asks it for its workers if they are wanted. */
void pool_watch_tend(PoolWatch *self, PoolFleet *fleet, gint64 now_us);

/* Not under the lock. Calls changed() if it is due. */
void pool_watch_tell(PoolWatch *self);
