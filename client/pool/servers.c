/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/servers.h"

#include <string.h>

#include "client/pool/clock.h"
#include "client/pool/names.h"

#define FIRST_REST_US   20000
#define LONGEST_REST_US 2000000
#define MAX_DOUBLINGS   8

/* A draw looks at no server but the drawn one, however many there are. */
struct _PoolServers {
	GHashTable *all;     /* PoolServer, by its address */
	GSequence *unlinked; /* PoolServer, by rests_until_us: that are known and not linked */
	GRand *random;       /* not g_random_...(), whose state forked processes share */
};

static void server_free(PoolServer *server)
{
	g_clear_pointer(&server->place, g_sequence_remove);
	g_free(server->text);
	g_free(server->nonce);
	g_free(server);
}

static gboolean is_same(gconstpointer one, gconstpointer other)
{
	const PoolLinkAddress *a = &((const PoolServer *)one)->address;
	const PoolLinkAddress *b = &((const PoolServer *)other)->address;

	return a->length == b->length && memcmp(&a->bytes, &b->bytes, a->length) == 0 &&
	       strcmp(a->tls_host, b->tls_host) == 0;
}

static guint hash_of(gconstpointer server)
{
	const PoolLinkAddress *address = &((const PoolServer *)server)->address;
	const guint8 *bytes = (const guint8 *)&address->bytes;
	guint hash = g_str_hash(address->tls_host);

	for (socklen_t i = 0; i < address->length; i++)
		hash = hash * 33 + bytes[i];
	return hash;
}

PoolServers *pool_servers_new(void)
{
	PoolServers *self = g_new0(PoolServers, 1);

	self->all = g_hash_table_new_full(hash_of, is_same, (GDestroyNotify)server_free, NULL);
	self->unlinked = g_sequence_new(NULL);
	self->random = g_rand_new();
	return self;
}

void pool_servers_free(PoolServers *self)
{
	if (self == NULL)
		return;
	g_hash_table_unref(self->all);
	g_sequence_free(self->unlinked);
	g_rand_free(self->random);
	g_free(self);
}

static gint compare_rests(gconstpointer one, gconstpointer other, gpointer data G_GNUC_UNUSED)
{
	gint64 a = ((const PoolServer *)one)->rests_until_us;
	gint64 b = ((const PoolServer *)other)->rests_until_us;

	return (a > b) - (a < b);
}

static void update_place(PoolServers *self, PoolServer *server)
{
	g_clear_pointer(&server->place, g_sequence_remove);
	if (server->is_known && !server->is_linked)
		server->place =
			g_sequence_insert_sorted(self->unlinked, server, compare_rests, NULL);
}

static PoolServer *find_or_add(PoolServers *self, const PoolName *name)
{
	const PoolServer wanted = {.address = name->address};
	PoolServer *server = g_hash_table_lookup(self->all, &wanted);

	if (server != NULL)
		return server;
	server = g_new0(PoolServer, 1);
	server->text = g_strdup(name->text);
	server->address = name->address;
	g_hash_table_add(self->all, server);
	return server;
}

static void set_unknown(gpointer key, gpointer value G_GNUC_UNUSED, gpointer data G_GNUC_UNUSED)
{
	PoolServer *server = key;

	server->is_known = FALSE;
	g_clear_pointer(&server->place, g_sequence_remove);
}

static gboolean is_forgotten(gpointer key, gpointer value G_GNUC_UNUSED, gpointer now_us)
{
	const PoolServer *server = key;

	return !server->is_known && !server->is_linked &&
	       server->excluded_until_us <= *(const gint64 *)now_us;
}

void pool_servers_set(PoolServers *self, const GPtrArray *names, gboolean are_all, gint64 now_us)
{
	if (are_all)
		g_hash_table_foreach(self->all, set_unknown, NULL);
	for (guint i = 0; i < names->len; i++) {
		PoolServer *server = find_or_add(self, names->pdata[i]);

		server->is_known = TRUE;
		if (server->place == NULL)
			update_place(self, server);
	}
	g_hash_table_foreach_remove(self->all, is_forgotten, &now_us);
}

/* The number of those whose rest ends at @until_us or before. */
static guint count_until(const PoolServers *self, gint64 until_us)
{
	PoolServer last = {.rests_until_us = until_us};

	return (guint)g_sequence_iter_get_position(
		g_sequence_search(self->unlinked, &last, compare_rests, NULL));
}

/* One of those from place @from on that are before place @end. */
static PoolServer *draw(PoolServers *self, guint from, guint end)
{
	if (from >= end)
		return NULL;

	guint drawn = from + pool_servers_random(self, end - from);

	return g_sequence_get(g_sequence_get_iter_at_pos(self->unlinked, (gint)drawn));
}

PoolServer *pool_servers_draw(PoolServers *self, gint64 now_us)
{
	return draw(self, 0, count_until(self, now_us));
}

PoolServer *pool_servers_draw_untried(PoolServers *self)
{
	return draw(self, 0, count_until(self, 0));
}

gboolean pool_servers_rouse(PoolServers *self, gint64 now_us)
{
	PoolServer *server =
		draw(self, count_until(self, now_us), (guint)g_sequence_get_length(self->unlinked));

	if (server == NULL)
		return FALSE;
	if (server->excluded_until_us <= now_us) {
		server->rests_until_us = now_us;
		update_place(self, server);
	}
	return TRUE;
}

gint64 pool_servers_next_us(const PoolServers *self)
{
	GSequenceIter *first = g_sequence_get_begin_iter(self->unlinked);

	if (g_sequence_iter_is_end(first))
		return POOL_NEVER_US;
	return ((const PoolServer *)g_sequence_get(first))->rests_until_us;
}

gboolean pool_servers_have_untried(const PoolServers *self)
{
	return pool_servers_next_us(self) == 0;
}

void pool_servers_link(PoolServers *self, PoolServer *server)
{
	server->is_linked = TRUE;
	update_place(self, server);
}

void pool_servers_unlink(PoolServers *self, PoolServer *server)
{
	server->is_linked = FALSE;
	update_place(self, server);
}

void pool_servers_rest(PoolServers *self, PoolServer *server, gint64 now_us, gint64 least_us)
{
	guint doublings = MIN(server->failures, MAX_DOUBLINGS);
	gint64 rest_us = MIN((gint64)FIRST_REST_US << doublings, LONGEST_REST_US);

	rest_us = MAX(rest_us, least_us);
	server->failures++;
	rest_us += pool_servers_random(self, (guint)rest_us + 1);
	server->rests_until_us = MAX(now_us + rest_us, server->excluded_until_us);
	update_place(self, server);
}

void pool_servers_exclude(PoolServers *self, PoolServer *server, gint64 until_us)
{
	server->excluded_until_us = until_us;
	server->rests_until_us = MAX(server->rests_until_us, until_us);
	update_place(self, server);
}

/* An excluded server is not forgotten, and is not connected to, so it keeps its nonce. */
gint64 pool_servers_excluded_until_us(const PoolServers *self, const char *nonce)
{
	GHashTableIter iter;
	gpointer key;
	gint64 until_us = 0;

	g_hash_table_iter_init(&iter, self->all);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		const PoolServer *server = key;

		if (g_strcmp0(server->nonce, nonce) == 0)
			until_us = MAX(until_us, server->excluded_until_us);
	}
	return until_us;
}

static gboolean has_identity(const PoolServer *self, const SnowflakeClientWorker *worker)
{
	return worker != NULL && g_strcmp0(self->nonce, worker->nonce) == 0 &&
	       self->datacenter_id == worker->datacenter_id && self->worker_id == worker->worker_id;
}

void pool_server_identify(PoolServer *self, const SnowflakeClientWorker *worker, gboolean is_first)
{
	gboolean has_nonce = worker != NULL && *worker->nonce != '\0';

	if (has_identity(self, worker))
		return;
	if (!is_first) {
		self->worker_id = -1; /* so that the next connection has another identity */
		return;
	}
	g_free(self->nonce);
	self->nonce = has_nonce ? g_strdup(worker->nonce) : NULL;
	self->datacenter_id = worker != NULL ? worker->datacenter_id : -1;
	self->worker_id = worker != NULL ? worker->worker_id : -1;
	self->last_id = 0;
	self->has_gone_back = FALSE;
}

void pool_servers_end_failures(PoolServers *self, PoolServer *server)
{
	server->failures = 0;
	server->rests_until_us = 0;
	update_place(self, server);
}

guint pool_servers_random(PoolServers *self, guint below)
{
	return (guint)g_rand_int_range(self->random, 0, (gint32)below);
}

guint pool_servers_count(const PoolServers *self)
{
	return g_hash_table_size(self->all);
}
