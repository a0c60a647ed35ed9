/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/hosts.h"
#include "worker/store.h"

/*
 * A store in ZooKeeper: keys are paths of znodes, mortal records are ephemeral sequential znodes.
 * It keeps a session up, and opens another in place of one that has expired or finds no server;
 * names are resolved again then. The log gets each change of the connection.
 */

typedef struct {
	const ZookeeperHosts *hosts;
	const char *auth; /* (nullable): "user:password": what is created is for them only */
	gint64 session_timeout_ms;
} ZookeeperStoreConfig;

/* @config: copied. (transfer full) */
Store *zookeeper_store_new(const ZookeeperStoreConfig *config);

/* A request. From its answer OK until the session ends, what @store creates gets the ACL of @key,
 * for a tool that has other credentials than the servers. */
guint64 zookeeper_store_copy_acl(Store *store, const char *key);

/* Whether the DNS lookups have found no address of any server yet, and why is known. */
gboolean zookeeper_store_has_no_names(const Store *store);
