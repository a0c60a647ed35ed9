/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/pool/config.h"
#include "tests/simulation/pool-server.h"

/*
 * Pools, and takers: threads that take IDs from them. Each take is checked: no ID arrives twice or
 * from a wrong reply, IDs increase, no ID is too old, and no take waits although a server can
 * serve. A taker waits as client/snowflake-pool.c does, in virtual time.
 */
typedef struct _SimPool SimPool;

typedef struct {
	const guint *servers; /* numbers of their addresses */
	guint n_servers;
	gboolean by_name; /* the pool resolves a name, which can give any of @servers */
	gboolean discover;
	guint prefetch_ms, max_age_ms;
	guint n_takers;
	gint64 pause_us; /* interval between two takes, about */
	guint most;      /* the largest take */
	guint bound_ms;  /* the longest wait of a take while a server can serve */
} PoolPlan;

void pools_init(void);
void pools_clear(void);
guint pools_count(void);
SimPool *pools_get(guint index);

SimPool *pool_new(const PoolPlan *plan);
const NetworkHost *pool_host(const SimPool *self);

/* Stops the takers, or starts them again. A take that is waiting continues. */
void pool_set_idle(SimPool *self, gboolean is_idle);

/* Fails unless each taker has got an ID since @since_us. */
void pool_check_has_taken(const SimPool *self, gint64 since_us);
