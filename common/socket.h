/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Local stream sockets (AF_UNIX), with paths as in address.h, and the names of sockets of any kind.
 */

/* Fills in the address, and returns its length.
 * @path: the path of an Address: "/run/ids", or "@ids" */
socklen_t socket_unix_address(const char *path, struct sockaddr_un *out_address);

/* Returns: (transfer full): "unix:/run/ids" or "unix:@ids"; "unix:" for a socket without a name,
 * "unix:?" for a relative path. Bytes that are invalid in addresses are escaped.
 * @length: as returned by the kernel */
char *socket_unix_name(const struct sockaddr_un *address, socklen_t length);

/* Finds the process at the other end of the local socket @fd: the client that connected it, or the
 * server that listened. Returns FALSE, and leaves @out_peer untouched, if @fd is not a connected
 * local socket. */
gboolean socket_unix_peer(int fd, struct ucred *out_peer);

/* Returns: a blocking socket; or -1 with errno set, for example to ETIMEDOUT
 * @path: the path of an Address
 * @timeout_ms: maximum time to wait while the server's queue is full; above 0 */
int socket_unix_connect(const char *path, guint timeout_ms);

/* Returns: (transfer full): the name of the other end of the connected socket @fd:
 * "127.0.0.1:50123", "[::1]:50123"; for a local socket, the process: "unix:uid=1000,pid=4711";
 * "unknown" if the kernel does not report it. */
char *socket_name_peer(int fd);

/* Returns: (transfer full): the name of this end of @fd, formatted as by socket_name_peer(), or by
 * socket_unix_name() for a local socket. */
char *socket_name_local(int fd);

/* Returns whether the TCP socket @fd is connected to itself. If no process listens on a port, the
 * kernel may choose this port for the client, whose connection request then reaches the client
 * itself. */
gboolean socket_is_self_connected(int fd);
