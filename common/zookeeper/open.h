/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* the client library has two interfaces: this is the one with threads */
#define THREADED
#include <zookeeper/zookeeper.h>

/**
 * zookeeper_open:
 * @servers: "host:port,..."
 * @certificates: (nullable): of ZookeeperHosts; %NULL: without TLS
 *
 * zookeeper_init(), or the one of its siblings that speaks TLS. That one never gives up a handshake
 * in which the server says nothing: zookeeper_close() waits for it. It reads the files for each
 * connection, and where they cannot be read it goes round and round.
 *
 * Returns: (nullable): it connects from now on; %NULL with errno set
 */
zhandle_t *zookeeper_open(const char *servers, const char *certificates, watcher_fn watcher,
			  int timeout_ms, void *context);
