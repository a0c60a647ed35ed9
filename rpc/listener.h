/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>

/* Listening sockets. */

/**
 * listener_open:
 * @host: a name, an IPv4 or IPv6 address, or "*" for every address of the machine
 * @port: 0: any free one
 * @fds: (element-type int): gets a non-blocking socket for each address of @host
 *
 * Returns: %TRUE, or %FALSE with a GIOError set and nothing added
 */
gboolean listener_open(const char *host, guint16 port, GArray *fds,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * listener_accept:
 * @out_peer: (out): the other end's address; of no family where it cannot be told
 *
 * Returns: a connected non-blocking socket without Nagle's delay, or -1 with errno set
 */
int listener_accept(int fd, struct sockaddr_storage *out_peer);
