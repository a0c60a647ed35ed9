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

/* Requests a copy of the ACL of @key. After the answer OK, and until the session ends, znodes
 * that @store creates get this ACL. For a tool whose credentials differ from those of the
 * servers. */
guint64 zookeeper_store_copy_acl(Store *store, const char *key);

/* Returns whether all DNS lookups for servers have failed so far, and the reason is known. */
gboolean zookeeper_store_has_no_names(const Store *store);
