/* SPDX-License-Identifier: Apache-2.0 */

/* The servers that a pool can connect to, and their backoff. */
#include <netinet/in.h>

#include "client/pool/clock.h"
#include "client/pool/names.h"
#include "client/pool/servers.h"
#include "tests/unit/unit-test.h"

#define N_SERVERS 8
#define N_DRAWS   4000
#define NOW_US    1000000

static GPtrArray *make_names(guint count)
{
	GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

	for (guint i = 0; i < count; i++) {
		PoolName *name = g_new0(PoolName, 1);
		struct sockaddr_in *address = (struct sockaddr_in *)&name->address.bytes;

		name->text = (char *)"a server";
		name->address.length = sizeof *address;
		address->sin_family = AF_INET;
		address->sin_port = htons((guint16)(i + 1));
		g_ptr_array_add(names, name);
	}
	return names;
}

static PoolServers *make_servers(guint count)
{
	PoolServers *servers = pool_servers_new();
	g_autoptr(GPtrArray) names = make_names(count);

	pool_servers_set(servers, names, TRUE, NOW_US);
	return servers;
}

static guint number_of(const PoolServer *server)
{
	return ntohs(((const struct sockaddr_in *)&server->address.bytes)->sin_port) - 1u;
}

/* Links each server that can be drawn. Returns their number. */
static guint link_all(PoolServers *servers, gint64 now_us)
{
	PoolServer *server;
	guint count = 0;

	while ((server = pool_servers_draw(servers, now_us)) != NULL) {
		g_assert_false(server->is_linked);
		pool_servers_link(servers, server);
		count++;
	}
	return count;
}

TEST("/pool-servers/draws-each-as-often", draws_each_as_often)
{
	PoolServers *servers = make_servers(N_SERVERS);
	guint drawn[N_SERVERS] = {0};
	PoolServer *linked = pool_servers_draw(servers, NOW_US);
	PoolServer *resting;

	pool_servers_link(servers, linked);
	resting = pool_servers_draw(servers, NOW_US);
	pool_servers_rest(servers, resting, NOW_US, 0);
	for (guint i = 0; i < N_DRAWS; i++)
		drawn[number_of(pool_servers_draw(servers, NOW_US))]++;
	for (guint i = 0; i < N_SERVERS; i++) {
		if (i == number_of(linked) || i == number_of(resting)) {
			g_assert_cmpuint(drawn[i], ==, 0);
			continue;
		}
		g_assert_cmpuint(drawn[i], >, N_DRAWS / N_SERVERS / 2);
		g_assert_cmpuint(drawn[i], <, N_DRAWS / N_SERVERS * 2);
	}
	pool_servers_free(servers);
}

TEST("/pool-servers/rests", rests)
{
	PoolServers *servers = make_servers(2);
	PoolServer *one = pool_servers_draw(servers, NOW_US);
	PoolServer *other;
	gint64 end_us;

	pool_servers_rest(servers, one, NOW_US, 0);
	end_us = one->rests_until_us;
	g_assert_true(pool_servers_have_untried(servers));
	other = pool_servers_draw_untried(servers);
	g_assert_true(other != one);
	pool_servers_link(servers, other);
	g_assert_null(pool_servers_draw_untried(servers));
	g_assert_false(pool_servers_have_untried(servers));
	g_assert_null(pool_servers_draw(servers, end_us - 1));
	g_assert_cmpint(pool_servers_next_us(servers), ==, end_us);
	g_assert_true(pool_servers_draw(servers, end_us) == one);

	g_assert_true(pool_servers_rouse(servers, NOW_US));
	g_assert_false(pool_servers_rouse(servers, NOW_US));
	g_assert_true(pool_servers_draw(servers, NOW_US) == one);
	g_assert_false(pool_servers_have_untried(servers));
	pool_servers_link(servers, one);
	g_assert_cmpint(pool_servers_next_us(servers), ==, POOL_NEVER_US);
	pool_servers_end_failures(servers, one);
	pool_servers_unlink(servers, one);
	g_assert_true(pool_servers_draw_untried(servers) == one);
	pool_servers_free(servers);
}

/* An excluded server that is no longer listed is remembered, but not drawn. */
TEST("/pool-servers/excluded", excluded)
{
	PoolServers *servers = make_servers(2);
	g_autoptr(GPtrArray) first = make_names(1), both = make_names(2);
	PoolServer *second;

	do
		second = pool_servers_draw(servers, NOW_US);
	while (number_of(second) != 1);
	pool_servers_exclude(servers, second, NOW_US + 10);
	pool_servers_set(servers, first, TRUE, NOW_US);
	g_assert_cmpuint(pool_servers_count(servers), ==, 2);
	g_assert_cmpuint(link_all(servers, NOW_US + 10), ==, 1);
	g_assert_cmpint(pool_servers_next_us(servers), ==, POOL_NEVER_US);
	pool_servers_set(servers, both, TRUE, NOW_US);
	g_assert_cmpuint(link_all(servers, NOW_US + 9), ==, 0);
	g_assert_cmpuint(link_all(servers, NOW_US + 10), ==, 1);
	pool_servers_free(servers);
}

/* A server that is no longer listed is forgotten once it is not linked. */
TEST("/pool-servers/forgets", forgets)
{
	PoolServers *servers = make_servers(N_SERVERS);
	g_autoptr(GPtrArray) few = make_names(2);
	PoolServer *linked;

	do
		linked = pool_servers_draw(servers, NOW_US);
	while (number_of(linked) < few->len);
	pool_servers_link(servers, linked);
	pool_servers_set(servers, few, FALSE, NOW_US);
	g_assert_cmpuint(pool_servers_count(servers), ==, N_SERVERS);
	pool_servers_set(servers, few, TRUE, NOW_US);
	g_assert_cmpuint(pool_servers_count(servers), ==, few->len + 1);
	pool_servers_unlink(servers, linked);
	g_assert_cmpuint(link_all(servers, NOW_US), ==, few->len);
	pool_servers_set(servers, few, TRUE, NOW_US);
	g_assert_cmpuint(pool_servers_count(servers), ==, few->len);
	pool_servers_free(servers);
}
