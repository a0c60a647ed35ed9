/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-pool.h"
#include "common/tls/client.h"

/* A pool's validated configuration. It does not change, so any thread can read it. */
typedef struct {
	GPtrArray *addresses; /* (element-type Address): at least one */
	gboolean has_names;   /* some addresses contain host names, which are resolved repeatedly */
	gboolean discover;
	char *agent;
	guint prefetch_ms;
	guint max_age_ms;
	guint timeout_ms;
	TlsClient *tls;  /* NULL if no address needs TLS */
	char *own_nonce; /* the relay's nonce; NULL if not a relay */
} PoolConfig;

/* Returns: (transfer full): a copy of @config, or %NULL with INVALID_ARGUMENT set */
PoolConfig *pool_config_new(const SnowflakePoolConfig *config, GError **error);
void pool_config_free(PoolConfig *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PoolConfig, pool_config_free)
