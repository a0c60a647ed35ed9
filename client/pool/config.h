/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-pool.h"
#include "common/tls/client.h"

/* What a pool was told, checked. Never changed, so that any thread may read it. */
typedef struct {
	GPtrArray *addresses; /* Address, one at least */
	gboolean has_names;   /* that are to be looked up again */
	gboolean discover;
	char *agent;
	guint prefetch_ms;
	guint max_age_ms;
	guint timeout_ms;
	TlsClient *tls;  /* NULL: none of the addresses needs it */
	char *own_nonce; /* the relay's nonce; NULL: not a relay */
} PoolConfig;

/* Returns: (transfer full): a copy of @told, or %NULL with INVALID_ARGUMENT set */
PoolConfig *pool_config_new(const SnowflakePoolConfig *told, GError **error);
void pool_config_free(PoolConfig *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PoolConfig, pool_config_free)
