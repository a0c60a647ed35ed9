/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* The origin of a connection, to which the limit per address applies. It is the client's IPv4
 * address, or the first 64 bits of its IPv6 address, because a client usually owns a whole /64
 * network (RFC 6177). On a local socket, it is the user whose process has connected. */
typedef struct {
	char text[INET6_ADDRSTRLEN + 3]; /* "127.0.0.1", "2001:db8::/64", "unix:uid=1000" */
	gboolean is_local;
} Origin;

/* Returns the origin of the other end of @fd, which is connected to @address; "::/64" for a family
 * without addresses. @fd: used only if the socket is local */
Origin origin_of_peer(int fd, const struct sockaddr *address);

/* All connections by origin, with the limits per origin and in total. If the server is full, it
 * shuts down a connection of the origin with the most connections, if one has been idle for long
 * enough. If all connections of that origin are in use, it refuses the new connection. So no client
 * loses its connection because another client floods the server.
 *
 * Only if room is needed, the kernel is asked whether connections are idle, so calls cost nothing
 * here. One thread admits connections; any thread can remove them.
 */
typedef struct _ConnectionLimits ConnectionLimits;

/* A connection that was admitted. */
typedef struct {
	/* Any thread can set this: its calls wait for the server, so it is silent, but not idle. */
	_Atomic gboolean waits;
	gboolean is_local;
	/* for a local socket: time of the last pass, which its thread must set, by the same clock
	 * as for connection_limits_admit() */
	_Atomic gint64 active_at_us;
	/* private */
	int fd;
	ConnectionLimits *limits;
	struct _ConnectionPeer *peer; /* NULL after the connection was shut down */
	GList link;                   /* link in the peer's queue */
	guint64 search;               /* the last search that has examined this connection */
} ConnectionEntry;

/* The maximum number of connections that have been shut down to make room but are not closed yet.
 * They do not count towards ConnectionLimitsConfig.max_connections. */
#define CONNECTION_LIMITS_MOST_CLOSING 32

/* Time between a search that found no idle connection and the next search. A search through all
 * connections takes milliseconds. */
#define CONNECTION_LIMITS_BACKOFF_US G_GINT64_CONSTANT(1000000)

/* Returns whether nothing was sent or received on @fd for @idle_ms, and no bytes are waiting to be
 * sent or read. */
typedef gboolean (*ConnectionIsIdle)(int fd, guint idle_ms);

typedef struct {
	guint max_connections;
	guint max_per_address;    /* maximum number of connections of one origin; 0 for no limit */
	guint idle_ms;            /* idle time after which a connection may be shut down */
	ConnectionIsIdle is_idle; /* connection_limits_is_idle(), or a function for tests */
} ConnectionLimitsConfig;

typedef enum {
	CONNECTION_LIMITS_ADMITTED,
	CONNECTION_LIMITS_FULL,         /* the server is full, and no connection can be shut down */
	CONNECTION_LIMITS_ADDRESS_FULL, /* the origin has reached its limit */
} ConnectionLimitsVerdict;

/* @config: borrowed; only the admitting thread may change it, and a change takes effect with the
 * next new connection */
ConnectionLimits *connection_limits_new(const ConnectionLimitsConfig *config);
/* Frees the table. No other thread may still use it or an entry. */
void connection_limits_free(ConnectionLimits *self);

/* A ConnectionIsIdle. For a local socket, the kernel does not record the time of the last bytes. So
 * only waiting bytes are checked there; see ConnectionEntry.active_at_us. */
gboolean connection_limits_is_idle(int fd, guint idle_ms);

/* Returns %FALSE if CONNECTION_LIMITS_MOST_CLOSING connections are closing. In this case,
 * connection_limits_admit() must not be called until one of them is closed, which does not take
 * long. */
gboolean connection_limits_can_admit(ConnectionLimits *self);

/* @fd: the new connection; borrowed until connection_limits_remove()
 * @now_us: monotonic
 * @out_entry: (out): set if ADMITTED, for connection_limits_remove()
 * @out_closed: (out) (transfer full): set if ADMITTED: the name of the peer whose connection was
 * shut down to make room; NULL if none was. The thread of that connection reads an end of file */
ConnectionLimitsVerdict connection_limits_admit(ConnectionLimits *self, int fd,
						const Origin *origin, gint64 now_us,
						ConnectionEntry **out_entry, char **out_closed);

/* Thread-safe. Removes a connection. Call it before closing the socket, because afterwards the
 * descriptor can belong to another connection, which must not be shut down. @entry: (nullable) */
void connection_limits_remove(ConnectionEntry *entry);

/* Returns the number of connections, not counting those that are closing. */
guint connection_limits_n_connections(ConnectionLimits *self);

/* Returns: (transfer full): the text of the origin with the most connections;
 * "none" if there are no connections
 * @out_connections: (out): their number */
char *connection_limits_biggest(ConnectionLimits *self, guint *out_connections);
