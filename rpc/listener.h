/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/types.h>

#include "rpc/connection-limits.h"

/* A listening socket, watched in the default main context.
 *
 * If a process is killed, the file of its local socket remains, and no process can listen there
 * until it is removed. So a process that finds such a file tries to connect: if the connection is
 * refused, the file is stale, and is replaced. Meanwhile, another process could do the same, or
 * mistake a socket that does not listen yet for a stale one. So a lock on the directory
 * (flock(), which leaves no file behind) is held from the check to the end of listen().
 */
typedef struct _Listener Listener;

/* Accepts waiting clients. Returns the pause before the next call, in milliseconds; 0 to be called
 * again as soon as the socket is readable. */
typedef guint (*ListenerReady)(Listener *self, gpointer user_data);

struct _Listener {
	int fd;
	/* another process keeps the socket open, so closing it refuses no client */
	gboolean is_adopted;
	gboolean is_local;
	gboolean is_tls; /* clients must use TLS */
	/* private */
	/* the file of a local socket that is not adopted; NULL if there is no file, or it was
	 * removed */
	char *path;
	dev_t device;
	ino_t inode;
	guint source; /* watches the socket, or waits for the end of a pause; 0 if neither */
	ListenerReady ready;
	gpointer user_data;
};

typedef struct {
	mode_t mode; /* bits of 0777; only users who can write the file can connect */
	gid_t gid;   /* (gid_t)-1 for the group that a new file gets in the directory */
} SocketFileAccess;

/* @host: a name, an IPv4 or IPv6 address, or "*" for every address of the machine
 * @port: 0: any free port
 * @is_tls: clients must use TLS
 * @listeners: (element-type Listener): gets a listener for each address of @host; its free function
 *   is listener_free()
 * Returns: %TRUE, or %FALSE with a GIOError set and nothing added */
gboolean listener_open(const char *host, guint16 port, gboolean is_tls, GPtrArray *listeners,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Adds a listener for a local socket. This can take some seconds if other processes start in the
 * same directory. The error contains a remedy.
 * @path: an absolute path, or "@ids" for an abstract socket, which has no file
 * @access: access to the file */
gboolean listener_open_local(const char *path, const SocketFileAccess *access, GPtrArray *listeners,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Adds a listener for @fd, a stream socket that already listens. Another process keeps it open, so
 * that a later server can continue with it. @fd is made non-blocking, and is closed with the
 * listener. */
void listener_adopt(int fd, GPtrArray *listeners);

/* Removes the file of a local socket, unless another process has replaced it. Afterwards, new
 * clients cannot connect; clients that have already connected are still accepted. The socket must
 * still be listening, because otherwise another process could replace the file at any moment. */
void listener_withdraw(Listener *self);

/* Calls listener_withdraw(), and closes the socket. */
void listener_free(Listener *self);

/* Returns (transfer full): ADDRESS:PORT, with the prefix tls: for TLS, or unix:PATH. ADDRESS is "*"
 * for all IPv4 and IPv6 addresses, and [::] for all IPv6 addresses. */
char *listener_address(const Listener *self);

/* From now on, calls @ready whenever clients are waiting. */
void listener_watch(Listener *self, ListenerReady ready, gpointer user_data);

/* Accepts a client.
 * @out_origin: (out): the client's origin
 * Returns: a connected non-blocking socket with TCP_NODELAY, or -1 with errno set */
int listener_accept(const Listener *self, Origin *out_origin);
