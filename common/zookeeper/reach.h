/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/**
 * zookeeper_reach_describe:
 * @servers: "host:port,..."
 * @certificates: (nullable): of ZookeeperHosts; %NULL: without TLS
 *
 * For when no session comes about: ZooKeeper's client does not tell why. Connects to each server
 * once more, asks something, and waits for an answer. Blocks, for a second at most for each server,
 * four in all, and where names are looked up for as long as that takes.
 *
 * Returns: (transfer full) (nullable): what the first server does that takes connections and does
 * not answer; else why the first takes none; what is wrong with @certificates; %NULL: one answers
 */
char *zookeeper_reach_describe(const char *servers, const char *certificates);
