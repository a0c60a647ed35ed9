/* SPDX-License-Identifier: Apache-2.0 */

/* Peers with the same number of connections are in one queue, and the queues are in an array by
 * that number. A peer's number changes by one at a time, so the peer with the most connections is
 * always known.
 *
 * A search examines each connection once. Examined connections move to the tail of their queue, so
 * the next search begins with those that were examined longest ago. The lock is released after
 * every few connections, because the loops need it to close theirs. */
#include "rpc/connection-limits.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/socket.h"

Origin origin_of_peer(int fd, const struct sockaddr *address)
{
	Origin origin = {"::/64", FALSE};
	struct in6_addr v6;
	struct ucred peer;

	if (address->sa_family == AF_UNIX && socket_unix_peer(fd, &peer)) {
		origin.is_local = TRUE;
		g_snprintf(origin.text, sizeof origin.text, "unix:uid=%u", peer.uid);
	} else if (address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, origin.text,
			  sizeof origin.text);
	} else if (address->sa_family == AF_INET6) {
		v6 = ((const struct sockaddr_in6 *)address)->sin6_addr;
		/* on a socket for both families, IPv4 addresses are mapped to IPv6 */
		if (IN6_IS_ADDR_V4MAPPED(&v6)) {
			inet_ntop(AF_INET, &v6.s6_addr[12], origin.text, sizeof origin.text);
			return origin;
		}
		memset(&v6.s6_addr[8], 0, 8);
		inet_ntop(AF_INET6, &v6, origin.text, sizeof origin.text);
		g_strlcat(origin.text, "/64", sizeof origin.text);
	}
	return origin;
}

/* The table */

/* CHUNK connections are examined before the lock is released. For one new connection, at most
 * MOST_CHUNKS chunks are examined, which takes at most about 20 ms. */
#define CHUNK       64
#define MOST_CHUNKS 256

typedef struct _ConnectionPeer Peer;

struct _ConnectionPeer {
	Origin origin;
	GQueue entries;
	GList link;     /* link in the queue of peers with as many connections */
	guint64 search; /* the last search that has examined all connections of this peer */
};

struct _ConnectionLimits {
	const ConnectionLimitsConfig *config;
	pthread_mutex_t lock;
	/* members below: protected by the lock */
	GHashTable *peers; /* maps the text of an Origin to its Peer */
	/* (element-type GQueue): queues of Peers, indexed by number of connections */
	GArray *by_number;
	guint most;                  /* largest number of connections of one peer */
	_Atomic guint n_connections; /* changed under the lock only, like the next one */
	_Atomic guint n_closing;
	/* used only by the admitting thread */
	guint64 search;
	gboolean is_searching; /* the search has not examined all connections yet */
	gint64 backoff_until_us;
};

ConnectionLimits *connection_limits_new(const ConnectionLimitsConfig *config)
{
	ConnectionLimits *self = g_new0(ConnectionLimits, 1);

	self->config = config;
	self->peers = g_hash_table_new(g_str_hash, g_str_equal);
	self->by_number = g_array_new(FALSE, TRUE, sizeof(GQueue));
	pthread_mutex_init(&self->lock, NULL);
	return self;
}

void connection_limits_free(ConnectionLimits *self)
{
	if (self == NULL)
		return;
	g_hash_table_unref(self->peers);
	g_array_unref(self->by_number);
	pthread_mutex_destroy(&self->lock);
	g_free(self);
}

gboolean connection_limits_is_idle(int fd, guint idle_ms)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof info;
	int unread = 0, unsent = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
		if (info.tcpi_last_data_recv < idle_ms || info.tcpi_last_data_sent < idle_ms ||
		    info.tcpi_unacked != 0 || info.tcpi_notsent_bytes != 0)
			return FALSE;
	} else if (errno != EOPNOTSUPP || ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent != 0) {
		/* for a local socket, the kernel reports only the number of unread bytes */
		return FALSE;
	}
	/* the server may have been suspended, so that it has not read yet */
	return ioctl(fd, FIONREAD, &unread) == 0 && unread == 0;
}

static GQueue *peers_with(ConnectionLimits *self, guint number)
{
	if (number >= self->by_number->len)
		g_array_set_size(self->by_number, number + 1);
	return &g_array_index(self->by_number, GQueue, number);
}

/* Removes the entry from its peer. If the peer has no other connection, removes it from the table.
 */
static void remove_from_peer(ConnectionLimits *self, ConnectionEntry *entry)
{
	Peer *peer = g_steal_pointer(&entry->peer);
	GQueue *level = peers_with(self, peer->entries.length);

	g_queue_unlink(level, &peer->link);
	if (level->length == 0 && peer->entries.length == self->most)
		self->most--;
	g_queue_unlink(&peer->entries, &entry->link);
	self->n_connections--;
	if (peer->entries.length > 0) {
		g_queue_push_tail_link(peers_with(self, peer->entries.length), &peer->link);
	} else {
		g_hash_table_remove(self->peers, peer->origin.text);
		g_free(peer);
	}
}

/* Returns the peer with the most connections. If there are several, returns the one examined
 * longest ago. */
static Peer *biggest_peer(ConnectionLimits *self)
{
	GList *head = self->most == 0 ? NULL : peers_with(self, self->most)->head;

	return head == NULL ? NULL : head->data;
}

/* Examines CHUNK connections while holding the lock. Returns %FALSE at the end of the search. */
static gboolean search_chunk(ConnectionLimits *self, gint64 now_us, char **out_closed)
{
	gint64 idle_us = (gint64)self->config->idle_ms * 1000;

	for (guint i = 0; i < CHUNK; i++) {
		Peer *peer = biggest_peer(self);
		ConnectionEntry *entry;
		GQueue *queue;

		if (peer == NULL || peer->search == self->search)
			return FALSE;
		queue = peers_with(self, self->most);
		entry = peer->entries.head->data;
		if (entry->search == self->search) {
			peer->search = self->search;
			g_queue_unlink(queue, &peer->link);
			g_queue_push_tail_link(queue, &peer->link);
			continue;
		}
		entry->search = self->search;
		g_queue_unlink(&peer->entries, &entry->link);
		g_queue_push_tail_link(&peer->entries, &entry->link);
		if (atomic_load(&entry->waits) ||
		    (entry->is_local &&
		     now_us - atomic_load_explicit(&entry->active_at_us, memory_order_relaxed) <
			     idle_us) ||
		    !self->config->is_idle(entry->fd, self->config->idle_ms))
			continue;
		*out_closed = socket_name_peer(entry->fd);
		remove_from_peer(self, entry);
		self->n_closing++;
		shutdown(entry->fd, SHUT_RDWR); /* fails if the client has closed it already */
		return FALSE;
	}
	return TRUE;
}

/* Returns (transfer full) (nullable): the peer whose connection was shut down; NULL if no
 * connection was shut down. */
static char *make_room(ConnectionLimits *self, gint64 now_us)
{
	char *closed = NULL;

	if (now_us < self->backoff_until_us)
		return NULL;
	if (!self->is_searching)
		self->search++;
	self->is_searching = TRUE;
	for (guint chunk = 0; self->is_searching && chunk < MOST_CHUNKS; chunk++) {
		pthread_mutex_lock(&self->lock);
		self->is_searching = search_chunk(self, now_us, &closed);
		pthread_mutex_unlock(&self->lock);
		if (self->is_searching) /* release the lock, so that other threads can take it */
			g_usleep(1);
	}
	if (closed == NULL && !self->is_searching)
		self->backoff_until_us = now_us + CONNECTION_LIMITS_BACKOFF_US;
	return closed;
}

gboolean connection_limits_can_admit(ConnectionLimits *self)
{
	return atomic_load(&self->n_closing) < CONNECTION_LIMITS_MOST_CLOSING;
}

ConnectionLimitsVerdict connection_limits_admit(ConnectionLimits *self, int fd,
						const Origin *origin, gint64 now_us,
						ConnectionEntry **out_entry, char **out_closed)
{
	guint max_connections = self->config->max_connections;
	guint max_per_address = self->config->max_per_address;
	ConnectionEntry *entry;
	char *closed = NULL;
	gboolean is_full;
	Peer *peer;

	pthread_mutex_lock(&self->lock);
	peer = g_hash_table_lookup(self->peers, origin->text);
	is_full = max_per_address > 0 && peer != NULL && peer->entries.length >= max_per_address;
	pthread_mutex_unlock(&self->lock);
	if (is_full)
		return CONNECTION_LIMITS_ADDRESS_FULL;
	if (connection_limits_n_connections(self) >= max_connections) {
		closed = make_room(self, now_us);
		/* a connection may have been closed in the meantime */
		if (closed == NULL && connection_limits_n_connections(self) >= max_connections)
			return CONNECTION_LIMITS_FULL;
	}
	entry = g_new0(ConnectionEntry, 1);
	pthread_mutex_lock(&self->lock);
	peer = g_hash_table_lookup(self->peers, origin->text);
	if (peer == NULL) {
		peer = g_new0(Peer, 1);
		peer->origin = *origin;
		peer->link.data = peer;
		g_queue_push_tail_link(peers_with(self, 0), &peer->link);
		g_hash_table_insert(self->peers, peer->origin.text, peer);
	}
	*entry = (ConnectionEntry){
		.limits = self,
		.fd = fd,
		.is_local = origin->is_local,
		.active_at_us = now_us,
		.peer = peer,
		.link.data = entry,
	};
	g_queue_unlink(peers_with(self, peer->entries.length), &peer->link);
	g_queue_push_tail_link(&peer->entries, &entry->link);
	g_queue_push_tail_link(peers_with(self, peer->entries.length), &peer->link);
	self->most = MAX(self->most, peer->entries.length);
	self->n_connections++;
	pthread_mutex_unlock(&self->lock);
	*out_entry = entry;
	*out_closed = closed;
	return CONNECTION_LIMITS_ADMITTED;
}

void connection_limits_remove(ConnectionEntry *entry)
{
	ConnectionLimits *self;

	if (entry == NULL)
		return;
	self = entry->limits;
	pthread_mutex_lock(&self->lock);
	if (entry->peer != NULL)
		remove_from_peer(self, entry);
	else
		self->n_closing--;
	pthread_mutex_unlock(&self->lock);
	g_free(entry);
}

guint connection_limits_n_connections(ConnectionLimits *self)
{
	return atomic_load(&self->n_connections);
}

char *connection_limits_biggest(ConnectionLimits *self, guint *out_connections)
{
	Peer *peer;
	char *text;

	pthread_mutex_lock(&self->lock);
	peer = biggest_peer(self);
	text = g_strdup(peer == NULL ? "none" : peer->origin.text);
	*out_connections = self->most;
	pthread_mutex_unlock(&self->lock);
	return text;
}
