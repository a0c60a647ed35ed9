/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Peers of the same number of connections stand in one queue, and the queues in
 * an array by that number. A number changes by one at a time, so the peer that
 * has most is always at hand.
 *
 * A search looks at each connection once. What it has looked at goes to the
 * tail, so the next one begins with those that it knows least of; and it holds
 * the lock for a few at a time only, since loops need it to close.
 */
#include "rpc/roster.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/socket-name.h"

/* Looked at under one hold of the lock; and so many times for one newcomer, some 20 ms, as the
 * thread has other things to do. */
#define CHUNK       64
#define MOST_CHUNKS 256

typedef struct {
	struct in6_addr address; /* see address_of() */
	GQueue entries;
	GList link;     /* in the queue of its number of entries */
	guint64 search; /* the last one that has looked at all of them */
} Peer;

struct _RosterEntry {
	Roster *roster;
	int fd;
	_Atomic gboolean waits; /* for the server */
	Peer *peer;             /* NULL: is leaving */
	GList link;             /* in the peer's */
	guint64 search;         /* the last one that has looked at it */
};

struct _Roster {
	RosterConfig config;
	pthread_mutex_t lock;
	/* under the lock */
	GHashTable *peers; /* of in6_addr to Peer */
	GArray *by_number; /* of GQueue, of Peers */
	guint most;        /* connections of one peer */
	guint n_connections;
	guint n_leaving;
	/* the admitting thread's own */
	guint64 search;
	gboolean searching; /* it has not looked at all of them yet */
	gint64 rest_until_us;
};

static guint address_hash(gconstpointer key)
{
	const struct in6_addr *address = key;
	guint hash = 5381;

	for (gsize i = 0; i < sizeof address->s6_addr; i++)
		hash = hash * 33 + address->s6_addr[i];
	return hash;
}

static gboolean address_equal(gconstpointer a, gconstpointer b)
{
	return memcmp(a, b, sizeof(struct in6_addr)) == 0;
}

/* IPv4: mapped, as a socket for both families has it. IPv6: the first half, as whoever has one
 * address has all that begin alike (RFC 6177). */
static struct in6_addr address_of(const struct sockaddr *address)
{
	struct in6_addr result = IN6ADDR_ANY_INIT;

	if (address->sa_family == AF_INET6) {
		result = ((const struct sockaddr_in6 *)address)->sin6_addr;
		if (!IN6_IS_ADDR_V4MAPPED(&result))
			memset(&result.s6_addr[8], 0, 8);
	} else if (address->sa_family == AF_INET) {
		result.s6_addr[10] = result.s6_addr[11] = 0xff;
		memcpy(&result.s6_addr[12], &((const struct sockaddr_in *)address)->sin_addr, 4);
	}
	return result;
}

static char *address_text(const struct in6_addr *address)
{
	char text[INET6_ADDRSTRLEN];

	if (IN6_IS_ADDR_V4MAPPED(address)) {
		inet_ntop(AF_INET, &address->s6_addr[12], text, sizeof text);
		return g_strdup(text);
	}
	inet_ntop(AF_INET6, address, text, sizeof text);
	return g_strconcat(text, "/64", NULL);
}

char *roster_address(const struct sockaddr *address)
{
	const struct in6_addr from = address_of(address);

	return address_text(&from);
}

Roster *roster_new(const RosterConfig *config)
{
	Roster *self = g_new0(Roster, 1);

	self->config = *config;
	self->peers = g_hash_table_new(address_hash, address_equal);
	self->by_number = g_array_new(FALSE, TRUE, sizeof(GQueue));
	pthread_mutex_init(&self->lock, NULL);
	return self;
}

void roster_free(Roster *self)
{
	if (self == NULL)
		return;
	g_hash_table_unref(self->peers);
	g_array_unref(self->by_number);
	pthread_mutex_destroy(&self->lock);
	g_free(self);
}

gboolean roster_is_idle(int fd, guint idle_ms)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof info;
	int unread = 0;

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
	       info.tcpi_last_data_recv >= idle_ms && info.tcpi_last_data_sent >= idle_ms &&
	       info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0 &&
	       /* a server that was stopped has yet to read */
	       ioctl(fd, FIONREAD, &unread) == 0 && unread == 0;
}

static GQueue *peers_with(Roster *self, guint number)
{
	if (number >= self->by_number->len)
		g_array_set_size(self->by_number, number + 1);
	return &g_array_index(self->by_number, GQueue, number);
}

static void rotate(GQueue *queue, GList *link)
{
	g_queue_unlink(queue, link);
	g_queue_push_tail_link(queue, link);
}

static Peer *find_peer(Roster *self, const struct in6_addr *address)
{
	return g_hash_table_lookup(self->peers, address);
}

static Peer *add_peer(Roster *self, const struct in6_addr *address)
{
	Peer *peer = g_new0(Peer, 1);

	peer->address = *address;
	peer->link.data = peer;
	g_queue_push_tail_link(peers_with(self, 0), &peer->link);
	g_hash_table_insert(self->peers, &peer->address, peer);
	return peer;
}

static RosterEntry *add_entry(Roster *self, int fd, const struct in6_addr *address)
{
	RosterEntry *entry = g_new0(RosterEntry, 1);
	Peer *peer = find_peer(self, address);

	if (peer == NULL)
		peer = add_peer(self, address);
	*entry = (RosterEntry){.roster = self, .fd = fd, .peer = peer, .link.data = entry};
	g_queue_unlink(peers_with(self, peer->entries.length), &peer->link);
	g_queue_push_tail_link(&peer->entries, &entry->link);
	g_queue_push_tail_link(peers_with(self, peer->entries.length), &peer->link);
	self->most = MAX(self->most, peer->entries.length);
	self->n_connections++;
	return entry;
}

/* Takes the entry from its peer, and a peer that has none left from the roster. */
static void take_from_peer(Roster *self, RosterEntry *entry)
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
		g_hash_table_remove(self->peers, &peer->address);
		g_free(peer);
	}
}

/* The peer that has most; of several, the first that the last search has not come to. */
static Peer *biggest_peer(Roster *self)
{
	GList *head = self->most == 0 ? NULL : peers_with(self, self->most)->head;

	return head == NULL ? NULL : head->data;
}

static char *shut_down(Roster *self, RosterEntry *entry)
{
	char *name = socket_name_peer(entry->fd);

	take_from_peer(self, entry);
	self->n_leaving++;
	shutdown(entry->fd, SHUT_RDWR); /* fails if the client was faster, who leaves as well */
	return name;
}

/* %FALSE: the search has looked at all. */
static gboolean search_chunk(Roster *self, char **out_left)
{
	for (guint i = 0; i < CHUNK; i++) {
		Peer *peer = biggest_peer(self);
		RosterEntry *entry;

		if (peer == NULL || peer->search == self->search)
			return FALSE;
		entry = peer->entries.head->data;
		if (entry->search == self->search) {
			peer->search = self->search;
			rotate(peers_with(self, self->most), &peer->link);
			continue;
		}
		entry->search = self->search;
		rotate(&peer->entries, &entry->link);
		if (!atomic_load(&entry->waits) &&
		    self->config.is_idle(entry->fd, self->config.idle_ms)) {
			*out_left = shut_down(self, entry);
			return FALSE;
		}
	}
	return TRUE;
}

/* Returns: (transfer full): who makes room, NULL: nobody */
static char *make_room(Roster *self, gint64 now_us)
{
	char *left = NULL;

	if (now_us < self->rest_until_us)
		return NULL;
	if (!self->searching)
		self->search++;
	self->searching = TRUE;
	for (guint chunk = 0; self->searching && chunk < MOST_CHUNKS; chunk++) {
		pthread_mutex_lock(&self->lock);
		self->searching = search_chunk(self, &left);
		pthread_mutex_unlock(&self->lock);
		if (self->searching) /* a lock taken at once again lets in nobody who waits */
			g_usleep(1);
	}
	if (left == NULL && !self->searching)
		self->rest_until_us = now_us + ROSTER_REST_US;
	return left;
}

static gboolean address_is_full(Roster *self, const struct in6_addr *address)
{
	Peer *peer;
	gboolean full;

	if (self->config.max_per_address == 0)
		return FALSE;
	pthread_mutex_lock(&self->lock);
	peer = find_peer(self, address);
	full = peer != NULL && peer->entries.length >= self->config.max_per_address;
	pthread_mutex_unlock(&self->lock);
	return full;
}

void roster_set_max_per_address(Roster *self, guint max_per_address)
{
	self->config.max_per_address = max_per_address;
}

gboolean roster_ready(Roster *self)
{
	gboolean ready;

	pthread_mutex_lock(&self->lock);
	ready = self->n_leaving < ROSTER_MOST_LEAVING;
	pthread_mutex_unlock(&self->lock);
	return ready;
}

RosterVerdict roster_admit(Roster *self, int fd, const struct sockaddr *address, gint64 now_us,
			   RosterEntry **out_entry, char **out_left)
{
	const struct in6_addr from = address_of(address);
	char *left = NULL;

	if (address_is_full(self, &from))
		return ROSTER_ADDRESS_FULL;
	if (roster_n_connections(self) >= self->config.max_connections) {
		left = make_room(self, now_us);
		/* somebody may have left by himself meanwhile */
		if (left == NULL && roster_n_connections(self) >= self->config.max_connections)
			return ROSTER_FULL;
	}
	pthread_mutex_lock(&self->lock);
	*out_entry = add_entry(self, fd, &from);
	pthread_mutex_unlock(&self->lock);
	*out_left = left;
	return ROSTER_ADMITTED;
}

void roster_set_waits(RosterEntry *entry, gboolean waits)
{
	if (entry != NULL)
		atomic_store(&entry->waits, waits);
}

void roster_remove(RosterEntry *entry)
{
	Roster *self;

	if (entry == NULL)
		return;
	self = entry->roster;
	pthread_mutex_lock(&self->lock);
	if (entry->peer != NULL)
		take_from_peer(self, entry);
	else
		self->n_leaving--;
	pthread_mutex_unlock(&self->lock);
	g_free(entry);
}

guint roster_n_connections(Roster *self)
{
	guint n;

	pthread_mutex_lock(&self->lock);
	n = self->n_connections;
	pthread_mutex_unlock(&self->lock);
	return n;
}

char *roster_biggest(Roster *self, guint *out_connections)
{
	Peer *peer;
	char *text;

	pthread_mutex_lock(&self->lock);
	peer = biggest_peer(self);
	text = peer == NULL ? g_strdup("none") : address_text(&peer->address);
	*out_connections = self->most;
	pthread_mutex_unlock(&self->lock);
	return text;
}
