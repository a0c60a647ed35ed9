/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/types.h>

#include "rpc/connection-limits.h"

/*
 * A listening socket, watched in the default main context.
 *
 * The file of a local socket outlives a process that is killed, and no process can listen there
 * before it is removed. So a process that finds a file connects to it: if it is refused, the file
 * is stale and is taken over. Between that and the end of listen(), another process could do the
 * same, or take a socket for stale that does not listen yet. So all of it is done under a lock on
 * the directory (flock), which leaves no file behind.
 */
typedef struct _Listener Listener;

/* Accepts the clients that wait. Returns for how long trying again makes no sense, in milliseconds;
 * 0: more clients are accepted as soon as the socket is readable. */
typedef guint (*ListenerReady)(Listener *self, gpointer user_data);

struct _Listener {
	int fd;
	gboolean is_adopted; /* another process keeps the socket: closing it refuses no client */
	gboolean is_local;
	gboolean is_tls; /* clients must use TLS; set by the caller */
	/* private */
	char *path; /* the file of a local socket that is not adopted; NULL: none, or removed */
	dev_t device;
	ino_t inode;
	guint source; /* watches the socket, or waits for the end of a pause; 0: neither */
	ListenerReady ready;
	gpointer user_data;
};

typedef struct {
	mode_t mode; /* of 0777; who may write the file may connect */
	gid_t gid;   /* (gid_t)-1: as the directory gives it to a new file */
} SocketFileAccess;

/* @host: a name, an IPv4 or IPv6 address, or "*" for every address of the machine
 * @port: 0: any free port
 * @listeners: (element-type Listener): a listener for each address of @host is added; its free
 *   function is listener_free()
 * Returns: %TRUE, or %FALSE with a GIOError set and nothing added */
gboolean listener_open(const char *host, guint16 port, GPtrArray *listeners,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a local socket. Can wait some seconds for other processes that start in the
 * directory. The error says what to do.
 * @path: an absolute path, or "@ids" for an abstract socket, which has no file
 * @access: for the file */
gboolean listener_open_local(const char *path, const SocketFileAccess *access, GPtrArray *listeners,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Adds a listener for @fd, a stream socket that listens already, and that another process keeps, so
 * that a later server can go on with it. It is made non-blocking, and closed with the listener. */
void listener_adopt(int fd, GPtrArray *listeners);

/* Removes the file of a local socket, unless another process has replaced it. No new client finds
 * the socket then; clients that have found it are still accepted. The socket must still listen:
 * a stale file could be taken over at any moment. */
void listener_withdraw(Listener *self);

/* Withdraws, and closes the socket. */
void listener_free(Listener *self);

/* Returns (transfer full): ADDRESS:PORT, with the prefix tls: for TLS, or unix:PATH. ADDRESS is "*"
 * for every address of IPv4 and IPv6, and [::] for every address of IPv6. */
char *listener_address(const Listener *self);

/* From now on @ready is called while clients wait. */
void listener_watch(Listener *self, ListenerReady ready, gpointer user_data);

/* @out_origin: (out): of the client
 * Returns: a connected non-blocking socket without Nagle's delay, or -1 with errno set */
int listener_accept(const Listener *self, Origin *out_origin);
