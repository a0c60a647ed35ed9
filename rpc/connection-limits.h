/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* What the limit for each address counts by: the client's address, of which IPv6 counts the first
 * 64 bits; on a local socket the user whose process has connected. */
typedef struct {
	struct in6_addr address; /* IPv4 is mapped; all 0 on a local socket */
	gint64 uid;              /* as this process sees users; -1: the socket is not local */
} Origin;

/* @address: not local. All addresses of a family without addresses count as one. */
Origin origin_of_address(const struct sockaddr *address);

/* The origin of the other end of @fd, which is connected to @address. */
Origin origin_of_peer(int fd, const struct sockaddr *address);

/* (transfer full): "127.0.0.1", "2001:db8::/64", "unix:uid=1000"; "::/64" for a family without
 * addresses. */
char *origin_text(const Origin *self);

/*
 * All connections by origin, with the limits per origin and in all. If the server is full, a
 * connection is shut down that has been idle for long enough, of the origin that has most. If all
 * of that origin's connections are in use, the new connection is refused, so no client loses its
 * connection to the flood of another.
 *
 * The kernel is asked whether a connection is idle when room is needed, so calls cost nothing here.
 * One thread admits, any thread removes.
 */
typedef struct _ConnectionLimits ConnectionLimits;
typedef struct _ConnectionEntry ConnectionEntry;

/* Connections that were shut down to make room and are not closed yet. They exceed
 * ConnectionLimitsConfig.max_connections. */
#define CONNECTION_LIMITS_MOST_CLOSING 32

/* Time between a search that found no idle connection and the next one. A search through all
 * connections takes milliseconds. */
#define CONNECTION_LIMITS_BACKOFF_US G_GINT64_CONSTANT(1000000)

/* Whether nothing was sent or received on @fd for @idle_ms, and no bytes wait to be. */
typedef gboolean (*ConnectionIsIdle)(int fd, guint idle_ms);

typedef struct {
	guint max_connections;
	guint max_per_address;    /* connections of one origin; 0: no limit */
	guint idle_ms;            /* idle time after which a connection may be shut down */
	ConnectionIsIdle is_idle; /* connection_limits_is_idle(), or a test's */
} ConnectionLimitsConfig;

typedef enum {
	CONNECTION_LIMITS_ADMITTED,
	CONNECTION_LIMITS_FULL,         /* and no connection can be shut down */
	CONNECTION_LIMITS_ADDRESS_FULL, /* the origin has as many connections as it may */
} ConnectionLimitsVerdict;

ConnectionLimits *connection_limits_new(const ConnectionLimitsConfig *config);
/* No other thread uses the table or an entry any more. */
void connection_limits_free(ConnectionLimits *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ConnectionLimits, connection_limits_free)

/* A ConnectionIsIdle. For a local socket the kernel does not know the time of the last bytes, so
 * only waiting bytes count; see connection_entry_note_active(). */
gboolean connection_limits_is_idle(int fd, guint idle_ms);

/* Takes effect with the next new connection. The admitting thread only. */
void connection_limits_set_max_per_address(ConnectionLimits *self, guint max_per_address);

/* %FALSE: CONNECTION_LIMITS_MOST_CLOSING connections are closing. connection_limits_admit() must
 * not be called before one is closed, which takes moments. */
gboolean connection_limits_can_admit(ConnectionLimits *self);

/* @fd: the new connection; borrowed until connection_limits_remove()
 * @now_us: monotonic
 * @out_entry: (out): set if ADMITTED, for connection_limits_remove()
 * @out_closed: (out) (transfer full): set if ADMITTED: the name of the peer whose connection was
 *   shut down to make room; NULL if none was. Its thread sees an end of file. */
ConnectionLimitsVerdict connection_limits_admit(ConnectionLimits *self, int fd,
						const Origin *origin, gint64 now_us,
						ConnectionEntry **out_entry, char **out_closed);

/* Any thread: whether calls of the connection wait for the server. Then it is not idle.
 * @entry: (nullable) */
void connection_entry_set_waits(ConnectionEntry *entry, gboolean waits);

/* Any thread: whether the connection is on a local socket. If so, its thread calls
 * connection_entry_note_active() at each pass, with the clock of connection_limits_admit().
 * @entry: (nullable) */
gboolean connection_entry_is_local(const ConnectionEntry *entry);
void connection_entry_note_active(ConnectionEntry *entry, gint64 now_us);

/* Any thread, before it closes the socket: afterwards the descriptor can belong to another
 * connection, which must not be shut down. @entry: (nullable) */
void connection_limits_remove(ConnectionEntry *entry);

/* Number of connections without those that are closing. */
guint connection_limits_n_connections(ConnectionLimits *self);

/* Returns: (transfer full): the origin with the most connections, as origin_text() writes it;
 *   "none" if there are no connections
 * @out_connections: (out): their number */
char *connection_limits_biggest(ConnectionLimits *self, guint *out_connections);
