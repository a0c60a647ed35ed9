/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/hosts.h"
#include "worker/store.h"

/* A store in ZooKeeper: keys are paths of znodes, and ephemeral records are ephemeral sequential
 * znodes. It keeps a session open. It replaces a session that has expired or finds no server, and
 * then resolves the names again. Each change of the connection is logged. */

typedef struct {
	const ZookeeperHosts *hosts;
	/* (nullable): "user:password": new znodes are accessible to this user only */
	const char *auth;
	gint64 session_timeout_ms;
} ZookeeperStoreConfig;

/* Returns: (transfer full): a store. @config: copied */
Store *zookeeper_store_new(const ZookeeperStoreConfig *config);

/* Returns whether the DNS lookups have failed for all servers so far and the reason is known. */
gboolean zookeeper_store_has_no_names(const Store *store);
