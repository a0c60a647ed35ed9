/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* the client library has two interfaces: this is the one with threads */
#define THREADED
#include <zookeeper/zookeeper.h>

/* Additions to ZooKeeper's C client: TLS, a password, and why there is no connection. */

/**
 * zookeeper_handle_open:
 * @servers: "host:port,..."
 * @certificates: (nullable): of ZookeeperHosts; %NULL: without TLS
 *
 * Calls zookeeper_init(), or its variant for TLS. That variant never ends a handshake in which the
 * server sends nothing: zookeeper_close() waits for it. It reads the files for each connection; if
 * they are unreadable, it retries without a pause.
 *
 * Returns: (nullable): a handle that connects; %NULL with errno set
 */
zhandle_t *zookeeper_handle_open(const char *servers, const char *certificates, watcher_fn watcher,
				 int timeout_ms, void *context);

/**
 * zookeeper_handle_add_digest:
 * @auth: "user:password"
 * @option: the option that @auth comes from, for the message
 * @out_failure: (out) (transfer full) (nullable): why not; %NULL: there is no connection, because
 *   the client refuses to take @auth between two attempts to connect
 *
 * Returns: %FALSE if the session does not authenticate with @auth
 */
gboolean zookeeper_handle_add_digest(zhandle_t *handle, const char *auth, const char *option,
				     char **out_failure);

/**
 * zookeeper_handle_describe_trouble:
 * @servers: "host:port,..."
 * @certificates: (nullable): of ZookeeperHosts; %NULL: without TLS
 *
 * Finds out why there is no session, which ZooKeeper's client does not report. Connects to each
 * server, sends a question and waits for the answer. Blocks one second at most for each server and
 * four in all, and additionally as long as the DNS lookups take.
 *
 * Returns: (transfer full) (nullable): what the first server does that accepts connections and does
 * not answer; otherwise why the first server accepts none; what is wrong with @certificates; %NULL:
 * a server answers
 */
char *zookeeper_handle_describe_trouble(const char *servers, const char *certificates);
