/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* selects the multi-threaded interface of the client library */
#define THREADED
#include <zookeeper/zookeeper.h>

/* Additions to ZooKeeper's C client: TLS, a password, and the reason why there is no connection. */

/* Calls zookeeper_init(), or its variant for TLS. With TLS, the client library has no time limit
 * for a server that sends nothing during the handshake, and zookeeper_close() waits for such a
 * server. The library reads the files before each connection; if they are unreadable, it retries
 * without a pause.
 * @servers: "host:port,..."
 * @certificates: (nullable): see ZookeeperHosts; %NULL for no TLS
 * Returns: (nullable): a handle that is connecting; %NULL with errno set */
zhandle_t *zookeeper_handle_open(const char *servers, const char *certificates, watcher_fn watcher,
				 int timeout_ms, void *context);

/* Returns %FALSE if the session cannot authenticate with @auth.
 * @auth: "user:password"
 * @option: the option that contains @auth, for the message
 * @out_failure: (out) (transfer full) (nullable): the reason; %NULL if the handle is not
 * connected, because the client library does not accept @auth between two attempts to connect */
gboolean zookeeper_handle_add_digest(zhandle_t *handle, const char *auth, const char *option,
				     char **out_failure);

/* Finds out why there is no session, which ZooKeeper's client does not report. Connects to each
 * server, sends a request and waits for the answer. Blocks for at most one second per server and
 * four seconds in all, not counting DNS lookups.
 * @servers: "host:port,..."
 * @certificates: (nullable): see ZookeeperHosts; %NULL for no TLS
 * Returns: (transfer full) (nullable): a description of the problem; %NULL if a server answers. If
 * a server accepts connections but does not answer, describes its behaviour; otherwise says why
 * the first server accepts no connection, or why @certificates cannot be used */
char *zookeeper_handle_describe_trouble(const char *servers, const char *certificates);
