/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/servers.h"

#include <string.h>

#include "client/pool/clock.h"
#include "client/pool/names.h"

#define FIRST_REST_US   20000
#define LONGEST_REST_US 2000000
#define MAX_DOUBLINGS   8

struct _PoolServers {
	GPtrArray *servers; /* PoolServer */
	GRand *random;      /* not g_random_...(), whose state forked processes share */
};

static void server_free(PoolServer *server)
{
	g_free(server->text);
	g_free(server);
}

PoolServers *pool_servers_new(void)
{
	PoolServers *self = g_new0(PoolServers, 1);

	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)server_free);
	self->random = g_rand_new();
	return self;
}

void pool_servers_free(PoolServers *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->servers);
	g_rand_free(self->random);
	g_free(self);
}

static gboolean is_same(const PoolLinkAddress *a, const PoolLinkAddress *b)
{
	return a->length == b->length && memcmp(&a->bytes, &b->bytes, a->length) == 0 &&
	       strcmp(a->tls_host, b->tls_host) == 0;
}

static PoolServer *find(PoolServers *self, const PoolLinkAddress *address)
{
	for (guint i = 0; i < self->servers->len; i++) {
		PoolServer *server = self->servers->pdata[i];

		if (is_same(&server->address, address))
			return server;
	}
	return NULL;
}

static PoolServer *add(PoolServers *self, const PoolName *name)
{
	PoolServer *server = g_new0(PoolServer, 1);

	server->text = g_strdup(name->text);
	server->address = name->address;
	g_ptr_array_add(self->servers, server);
	return server;
}

void pool_servers_set(PoolServers *self, const GPtrArray *names, gboolean are_all)
{
	for (guint i = 0; are_all && i < self->servers->len; i++)
		((PoolServer *)self->servers->pdata[i])->is_known = FALSE;
	for (guint i = 0; i < names->len; i++) {
		const PoolName *name = names->pdata[i];
		PoolServer *server = find(self, &name->address);

		if (server == NULL)
			server = add(self, name);
		server->is_known = TRUE;
	}
	for (guint i = self->servers->len; i-- > 0;) {
		PoolServer *server = self->servers->pdata[i];

		if (!server->is_known && !server->is_linked)
			g_ptr_array_remove_index_fast(self->servers, i);
	}
}

static gboolean is_there(const PoolServer *server)
{
	return server->is_known && !server->is_linked;
}

/* Which of those that are not linked. */
typedef gboolean (*Fits)(const PoolServer *server, gint64 now_us);

static gboolean rests(const PoolServer *server, gint64 now_us)
{
	return server->rests_until_us > now_us;
}

static gboolean has_rested(const PoolServer *server, gint64 now_us)
{
	return !rests(server, now_us);
}

static gboolean is_untried(const PoolServer *server, gint64 now_us G_GNUC_UNUSED)
{
	return server->failures == 0;
}

static PoolServer *draw(PoolServers *self, Fits fits, gint64 now_us)
{
	PoolServer *drawn = NULL;
	guint seen = 0;

	/* each of n is drawn with 1 / n */
	for (guint i = 0; i < self->servers->len; i++) {
		PoolServer *server = self->servers->pdata[i];

		if (is_there(server) && fits(server, now_us) &&
		    pool_servers_random(self, ++seen) == 0)
			drawn = server;
	}
	return drawn;
}

PoolServer *pool_servers_draw(PoolServers *self, gint64 now_us)
{
	return draw(self, has_rested, now_us);
}

PoolServer *pool_servers_draw_untried(PoolServers *self)
{
	return draw(self, is_untried, 0);
}

gboolean pool_servers_rouse(PoolServers *self, gint64 now_us)
{
	PoolServer *server = draw(self, rests, now_us);

	if (server != NULL)
		server->rests_until_us = now_us;
	return server != NULL;
}

gboolean pool_servers_have_untried(const PoolServers *self)
{
	for (guint i = 0; i < self->servers->len; i++) {
		const PoolServer *server = self->servers->pdata[i];

		if (is_there(server) && is_untried(server, 0))
			return TRUE;
	}
	return FALSE;
}

gint64 pool_servers_next_us(const PoolServers *self)
{
	gint64 first_us = POOL_NEVER_US;

	for (guint i = 0; i < self->servers->len; i++) {
		const PoolServer *server = self->servers->pdata[i];

		if (is_there(server))
			first_us = MIN(first_us, server->rests_until_us);
	}
	return first_us;
}

void pool_servers_rest(PoolServers *self, PoolServer *server, gint64 now_us, gint64 least_us)
{
	guint doublings = MIN(server->failures, MAX_DOUBLINGS);
	gint64 rest_us = MIN((gint64)FIRST_REST_US << doublings, LONGEST_REST_US);

	rest_us = MAX(rest_us, least_us);
	server->failures++;
	server->rests_until_us = now_us + rest_us + pool_servers_random(self, (guint)rest_us + 1);
}

guint pool_servers_random(PoolServers *self, guint below)
{
	return (guint)g_rand_int_range(self->random, 0, (gint32)below);
}

guint pool_servers_count(const PoolServers *self)
{
	return self->servers->len;
}
