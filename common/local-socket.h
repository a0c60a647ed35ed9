/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Stream sockets of this machine (AF_UNIX), by the paths of addresses: see address.h. */

/* Returns: the length of what it fills in.
 * @path: of an Address: "/run/ids", or "@ids" */
socklen_t local_socket_address(const char *path, struct sockaddr_un *out_address);

/* (transfer full): "unix:/run/ids", "unix:@ids"; "unix:" of a socket without a name, "unix:?" of
 * one whose path is not whole. What is no address is escaped.
 * @length: as the kernel has told it */
char *local_socket_name(const struct sockaddr_un *address, socklen_t length);

/* Which process has connected the socket @fd, or listened where it is connected to. %FALSE: it is
 * no connected local socket; nothing is filled in. */
gboolean local_socket_peer(int fd, struct ucred *out_peer);

/**
 * local_socket_connect:
 * @path: of an Address
 * @timeout_ms: how long it may wait, above 0, while as many clients as may be wait there already
 *
 * Returns: a socket that blocks; or -1 with errno set, ETIMEDOUT among others
 */
int local_socket_connect(const char *path, guint timeout_ms);
