/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * Stream sockets of this machine (AF_UNIX), by the paths of addresses (address.h), and the names of
 * sockets of any kind.
 */

/* Fills in the address, and returns its length.
 * @path: of an Address: "/run/ids", or "@ids" */
socklen_t socket_unix_address(const char *path, struct sockaddr_un *out_address);

/* (transfer full): "unix:/run/ids", "unix:@ids"; "unix:" for a socket without a name, "unix:?" for
 * a relative path. Bytes that no address has are escaped.
 * @length: as returned by the kernel */
char *socket_unix_name(const struct sockaddr_un *address, socklen_t length);

/* Finds the process that connected the socket @fd, or that listened where it is connected to.
 * Returns FALSE, with @out_peer untouched, if @fd is no connected local socket. */
gboolean socket_unix_peer(int fd, struct ucred *out_peer);

/**
 * socket_unix_connect:
 * @path: of an Address
 * @timeout_ms: the longest wait, above 0, while the server's queue is full
 *
 * Returns: a socket that blocks; or -1 with errno set, ETIMEDOUT among others
 */
int socket_unix_connect(const char *path, guint timeout_ms);

/* (transfer full): the other end of the connected socket @fd: "127.0.0.1:50123", "[::1]:50123"; for
 * a local socket the process, as "unix:uid=1000,pid=4711"; "unknown" if the kernel does not tell.
 */
char *socket_name_peer(int fd);

/* (transfer full): this end of @fd: likewise, but for a local socket socket_unix_name(). */
char *socket_name_local(int fd);

/* Whether the TCP socket @fd is connected to itself. If nobody listens on a port, the kernel can
 * choose that port for the client; then the connection request reaches the client itself. */
gboolean socket_is_self_connected(int fd);
