/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/connection-table.h"
#include "rpc/socket-file.h"

/* A listening socket, watched in the default main context. */
typedef struct _Listener Listener;

/* Accepts what waits there. Returns for how long trying on makes no sense, in milliseconds; 0:
 * there may be more as soon as the socket is readable. */
typedef guint (*ListenerReady)(Listener *self, gpointer user_data);

/**
 * listener_open:
 * @host: a name, an IPv4 or IPv6 address, or "*" for every address of the machine
 * @port: 0: any free one
 * @listeners: (element-type Listener): gets one for each address of @host; listener_free() is its
 *   free function
 *
 * Returns: %TRUE, or %FALSE with a GIOError set and nothing added
 */
gboolean listener_open(const char *host, guint16 port, GPtrArray *listeners,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * listener_open_local:
 * @path: "/run/ids", or "@ids" of an abstract socket, which has no file
 * @access: of the file
 *
 * The same on a local socket; see socket_file_listen().
 */
gboolean listener_open_local(const char *path, const SocketFileAccess *access, GPtrArray *listeners,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same of @fd, a stream socket that listens already, and that others keep, so that a server
 * that comes later may go on with it. It is made non-blocking, and closed with the listener. */
void listener_adopt(int fd, GPtrArray *listeners);

/* Whether others keep the socket: closing it here refuses nobody. */
gboolean listener_is_adopted(const Listener *self);

/* Whether it is a local socket. */
gboolean listener_is_local(const Listener *self);

/* Whoever comes there speaks TLS. */
void listener_set_tls(Listener *self);
gboolean listener_is_tls(const Listener *self);

/* Removes the file of a local socket, if it is its own: nobody else will find it, and whoever has
 * is accepted still. */
void listener_withdraw(Listener *self);

/* Withdraws, and closes the socket. */
void listener_free(Listener *self);

/* The socket; borrowed. */
int listener_fd(const Listener *self);

/* Returns (transfer full): ADDRESS:PORT, with the prefix tls: for TLS, or unix:PATH. ADDRESS is "*"
 * for every address of IPv4 and IPv6, and [::] for every address of IPv6. */
char *listener_address(const Listener *self);

/* From now on @ready is called while somebody waits. */
void listener_watch(Listener *self, ListenerReady ready, gpointer user_data);

/**
 * listener_accept:
 * @out_origin: (out): of the other end
 *
 * Returns: a connected non-blocking socket without Nagle's delay, or -1 with errno set
 */
int listener_accept(const Listener *self, Origin *out_origin);
