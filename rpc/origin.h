/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Whom a connection counts for: its client's address, of which IPv6 counts the first 64 bits; on a
 * local socket the user whose process has connected it. */
typedef struct {
	struct in6_addr address; /* IPv4 is mapped; nothing, if it is local */
	gint64 uid;              /* as this process sees users; -1: it is not local */
} Origin;

/* Of a client at @address, which is not local; all of a family without addresses count as one. */
Origin origin_of_address(const struct sockaddr *address);

Origin origin_of_user(uid_t uid);

/* Of the other end of @fd, a socket that is connected with @address. */
Origin origin_of_peer(int fd, const struct sockaddr *address);

gboolean origin_is_local(const Origin *self);

/* For a GHashTable. */
guint origin_hash(gconstpointer key);
gboolean origin_equal(gconstpointer a, gconstpointer b);

/* (transfer full): "127.0.0.1", "2001:db8::/64", "unix:uid=1000"; "::/64" for a family without
 * addresses. */
char *origin_text(const Origin *self);
