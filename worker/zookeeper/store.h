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
