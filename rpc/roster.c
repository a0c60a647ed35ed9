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

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#include "common/socket.h"

/* Looked at under one hold of the lock; and so many times for one newcomer, some 20 ms, as the
 * thread has other things to do. */
#define CHUNK       64
#define MOST_CHUNKS 256

typedef struct {
	Origin origin;
	GQueue entries;
	GList link;     /* in the queue of its number of entries */
	guint64 search; /* the last one that has looked at all of them */
} Peer;

struct _RosterEntry {
	Roster *roster;
	int fd;
	gboolean is_local;
	_Atomic gboolean waits;   /* for the server */
	_Atomic gint64 active_us; /* of a local one: when its loop last had a pass with it */
	Peer *peer;               /* NULL: is leaving */
	GList link;               /* in the peer's */
	guint64 search;           /* the last one that has looked at it */
};

struct _Roster {
	RosterConfig config;
	pthread_mutex_t lock;
	/* under the lock */
	GHashTable *peers; /* of Origin to Peer */
	GArray *by_number; /* of GQueue, of Peers */
	guint most;        /* connections of one peer */
	guint n_connections;
	guint n_leaving;
	/* the admitting thread's own */
	guint64 search;
	gboolean searching; /* it has not looked at all of them yet */
	gint64 rest_until_us;
};

Roster *roster_new(const RosterConfig *config)
{
	Roster *self = g_new0(Roster, 1);

	self->config = *config;
	self->peers = g_hash_table_new(origin_hash, origin_equal);
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

/* For a local socket the kernel does not count how long; what its client has not read it does. */
static gboolean was_silent(int fd, guint idle_ms)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof info;
	int unsent = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
		return info.tcpi_last_data_recv >= idle_ms && info.tcpi_last_data_sent >= idle_ms &&
		       info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0;
	return errno == EOPNOTSUPP && ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent == 0;
}

gboolean roster_is_idle(int fd, guint idle_ms)
{
	int unread = 0;

	return was_silent(fd, idle_ms) &&
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

static Peer *find_peer(Roster *self, const Origin *origin)
{
	return g_hash_table_lookup(self->peers, origin);
}

static Peer *add_peer(Roster *self, const Origin *origin)
{
	Peer *peer = g_new0(Peer, 1);

	peer->origin = *origin;
	peer->link.data = peer;
	g_queue_push_tail_link(peers_with(self, 0), &peer->link);
	g_hash_table_insert(self->peers, &peer->origin, peer);
	return peer;
}

static RosterEntry *add_entry(Roster *self, int fd, const Origin *origin, gint64 now_us)
{
	RosterEntry *entry = g_new0(RosterEntry, 1);
	Peer *peer = find_peer(self, origin);

	if (peer == NULL)
		peer = add_peer(self, origin);
	*entry = (RosterEntry){
		.roster = self,
		.fd = fd,
		.is_local = origin_is_local(origin),
		.active_us = now_us,
		.peer = peer,
		.link.data = entry,
	};
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
		g_hash_table_remove(self->peers, &peer->origin);
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

static gboolean is_idle(const Roster *self, const RosterEntry *entry, gint64 now_us)
{
	gint64 active_us = atomic_load_explicit(&entry->active_us, memory_order_relaxed);

	return !atomic_load(&entry->waits) &&
	       (!entry->is_local || now_us - active_us >= (gint64)self->config.idle_ms * 1000) &&
	       self->config.is_idle(entry->fd, self->config.idle_ms);
}

/* %FALSE: the search has looked at all. */
static gboolean search_chunk(Roster *self, gint64 now_us, char **out_left)
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
		if (is_idle(self, entry, now_us)) {
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
		self->searching = search_chunk(self, now_us, &left);
		pthread_mutex_unlock(&self->lock);
		if (self->searching) /* a lock taken at once again lets in nobody who waits */
			g_usleep(1);
	}
	if (left == NULL && !self->searching)
		self->rest_until_us = now_us + ROSTER_REST_US;
	return left;
}

static gboolean origin_is_full(Roster *self, const Origin *origin)
{
	Peer *peer;
	gboolean full;

	if (self->config.max_per_address == 0)
		return FALSE;
	pthread_mutex_lock(&self->lock);
	peer = find_peer(self, origin);
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

RosterVerdict roster_admit(Roster *self, int fd, const Origin *origin, gint64 now_us,
			   RosterEntry **out_entry, char **out_left)
{
	char *left = NULL;

	if (origin_is_full(self, origin))
		return ROSTER_ADDRESS_FULL;
	if (roster_n_connections(self) >= self->config.max_connections) {
		left = make_room(self, now_us);
		/* somebody may have left by himself meanwhile */
		if (left == NULL && roster_n_connections(self) >= self->config.max_connections)
			return ROSTER_FULL;
	}
	pthread_mutex_lock(&self->lock);
	*out_entry = add_entry(self, fd, origin, now_us);
	pthread_mutex_unlock(&self->lock);
	*out_left = left;
	return ROSTER_ADMITTED;
}

void roster_set_waits(RosterEntry *entry, gboolean waits)
{
	if (entry != NULL)
		atomic_store(&entry->waits, waits);
}

gboolean roster_is_local(const RosterEntry *entry)
{
	return entry != NULL && entry->is_local;
}

void roster_note_active(RosterEntry *entry, gint64 now_us)
{
	atomic_store_explicit(&entry->active_us, now_us, memory_order_relaxed);
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
	text = peer == NULL ? g_strdup("none") : origin_text(&peer->origin);
	*out_connections = self->most;
	pthread_mutex_unlock(&self->lock);
	return text;
}
