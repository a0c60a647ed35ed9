/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/pool/config.h"
#include "tests/simulation/pool-server.h"

/*
 * Pools and the threads that take from them, with the checks of each take: no ID comes twice or
 * from an answer that was wrong, IDs increase, none is too old, and no take waits in vain. A
 * thread that waits does what client/snowflake-pool.c does, in virtual time.
 */
typedef struct _SimPool SimPool;

typedef struct {
	const guint *servers; /* their numbers, by address */
	guint n_servers;
	gboolean by_name; /* or all that the name stands for: then servers tell which may */
	gboolean discover;
	guint prefetch_ms, max_age_ms;
	guint n_takers;
	gint64 pause_us; /* between two takes, about */
	guint most;      /* IDs of a take, at most */
	guint bound_ms;  /* how long a take waits at most while a server is well */
} PoolPlan;

void pools_init(void);
void pools_clear(void);
guint pools_count(void);
SimPool *pools_get(guint index);

SimPool *pool_new(const PoolPlan *plan);
const NetworkHost *pool_host(const SimPool *self);

/* Its takers take no more, or again. A take that waits goes on. */
void pool_set_resting(SimPool *self, gboolean is_resting);

/* Fails unless each of its takers has had an ID since @since_us. */
void pool_check_has_taken(const SimPool *self, gint64 since_us);
