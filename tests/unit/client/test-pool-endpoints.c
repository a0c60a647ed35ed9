/* SPDX-License-Identifier: Apache-2.0 */

/* The endpoints that a pool can connect to, and their backoff. */
#include <netinet/in.h>

#include "client/pool/endpoints.h"
#include "client/resolver.h"
#include "tests/unit/unit-test.h"

#define N_SERVERS 8
#define N_DRAWS   4000
#define NOW_US    1000000

static GPtrArray *make_names(guint count)
{
	GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

	for (guint i = 0; i < count; i++) {
		ResolvedName *name = g_new0(ResolvedName, 1);
		struct sockaddr_in *address = (struct sockaddr_in *)&name->address.bytes;

		name->text = (char *)"a server";
		name->address.length = sizeof *address;
		address->sin_family = AF_INET;
		address->sin_port = htons((guint16)(i + 1));
		g_ptr_array_add(names, name);
	}
	return names;
}

static PoolEndpoints *make_servers(guint count)
{
	PoolEndpoints *servers = pool_endpoints_new();
	g_autoptr(GPtrArray) names = make_names(count);

	pool_endpoints_set(servers, names, TRUE, NOW_US);
	return servers;
}

static guint number_of(const PoolEndpoint *server)
{
	return ntohs(((const struct sockaddr_in *)&server->address.bytes)->sin_port) - 1u;
}

/* Links each server that can be chosen. Returns their number. */
static guint link_all(PoolEndpoints *servers, gint64 now_us)
{
	PoolEndpoint *server;
	guint count = 0;

	while ((server = pool_endpoints_draw(servers, now_us)) != NULL) {
		g_assert_false(server->is_linked);
		pool_endpoints_set_linked(servers, server, TRUE);
		count++;
	}
	return count;
}

TEST("/pool-endpoints/draws-each-as-often", draws_each_as_often)
{
	PoolEndpoints *servers = make_servers(N_SERVERS);
	guint drawn[N_SERVERS] = {0};
	PoolEndpoint *linked = pool_endpoints_draw(servers, NOW_US);
	PoolEndpoint *resting;

	pool_endpoints_set_linked(servers, linked, TRUE);
	resting = pool_endpoints_draw(servers, NOW_US);
	pool_endpoints_back_off(servers, resting, NOW_US, 0);
	for (guint i = 0; i < N_DRAWS; i++)
		drawn[number_of(pool_endpoints_draw(servers, NOW_US))]++;
	for (guint i = 0; i < N_SERVERS; i++) {
		if (i == number_of(linked) || i == number_of(resting)) {
			g_assert_cmpuint(drawn[i], ==, 0);
			continue;
		}
		g_assert_cmpuint(drawn[i], >, N_DRAWS / N_SERVERS / 2);
		g_assert_cmpuint(drawn[i], <, N_DRAWS / N_SERVERS * 2);
	}
	pool_endpoints_free(servers);
}

TEST("/pool-endpoints/backs-off", backs_off)
{
	PoolEndpoints *servers = make_servers(2);
	PoolEndpoint *one = pool_endpoints_draw(servers, NOW_US);
	PoolEndpoint *other;
	gint64 end_us;

	pool_endpoints_back_off(servers, one, NOW_US, 0);
	end_us = one->backoff_until_us;
	g_assert_cmpint(pool_endpoints_next_us(servers), ==, 0);
	other = pool_endpoints_draw(servers, 0);
	g_assert_true(other != one);
	pool_endpoints_set_linked(servers, other, TRUE);
	g_assert_null(pool_endpoints_draw(servers, 0));
	g_assert_cmpint(pool_endpoints_next_us(servers), !=, 0);
	g_assert_null(pool_endpoints_draw(servers, end_us - 1));
	g_assert_cmpint(pool_endpoints_next_us(servers), ==, end_us);
	g_assert_true(pool_endpoints_draw(servers, end_us) == one);

	g_assert_true(pool_endpoints_end_a_backoff(servers, NOW_US));
	g_assert_false(pool_endpoints_end_a_backoff(servers, NOW_US));
	g_assert_true(pool_endpoints_draw(servers, NOW_US) == one);
	g_assert_cmpint(pool_endpoints_next_us(servers), !=, 0);
	pool_endpoints_set_linked(servers, one, TRUE);
	g_assert_cmpint(pool_endpoints_next_us(servers), ==, POOL_NEVER_US);
	pool_endpoints_end_failures(servers, one);
	pool_endpoints_set_linked(servers, one, FALSE);
	g_assert_true(pool_endpoints_draw(servers, 0) == one);
	pool_endpoints_free(servers);
}

/* An excluded server that is no longer listed is remembered, but not chosen. */
TEST("/pool-endpoints/excluded", excluded)
{
	PoolEndpoints *servers = make_servers(2);
	g_autoptr(GPtrArray) first = make_names(1), both = make_names(2);
	PoolEndpoint *second;

	do
		second = pool_endpoints_draw(servers, NOW_US);
	while (number_of(second) != 1);
	pool_endpoints_exclude(servers, second, NOW_US + 10);
	pool_endpoints_set(servers, first, TRUE, NOW_US);
	g_assert_cmpuint(pool_endpoints_count(servers), ==, 2);
	g_assert_cmpuint(link_all(servers, NOW_US + 10), ==, 1);
	g_assert_cmpint(pool_endpoints_next_us(servers), ==, POOL_NEVER_US);
	pool_endpoints_set(servers, both, TRUE, NOW_US);
	g_assert_cmpuint(link_all(servers, NOW_US + 9), ==, 0);
	g_assert_cmpuint(link_all(servers, NOW_US + 10), ==, 1);
	pool_endpoints_free(servers);
}

/* A server that is no longer listed is forgotten once it is not linked. */
TEST("/pool-endpoints/forgets", forgets)
{
	PoolEndpoints *servers = make_servers(N_SERVERS);
	g_autoptr(GPtrArray) few = make_names(2);
	PoolEndpoint *linked;

	do
		linked = pool_endpoints_draw(servers, NOW_US);
	while (number_of(linked) < few->len);
	pool_endpoints_set_linked(servers, linked, TRUE);
	pool_endpoints_set(servers, few, FALSE, NOW_US);
	g_assert_cmpuint(pool_endpoints_count(servers), ==, N_SERVERS);
	pool_endpoints_set(servers, few, TRUE, NOW_US);
	g_assert_cmpuint(pool_endpoints_count(servers), ==, few->len + 1);
	pool_endpoints_set_linked(servers, linked, FALSE);
	g_assert_cmpuint(link_all(servers, NOW_US), ==, few->len);
	pool_endpoints_set(servers, few, TRUE, NOW_US);
	g_assert_cmpuint(pool_endpoints_count(servers), ==, few->len);
	pool_endpoints_free(servers);
}
