/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/upstream-fixture.h"

#include <time.h>

#include "tests/unit/hang-guard.h"

#define LONG_AGE_MS 600000 /* no IDs become too old during a test */

void upstream_news_note(gpointer news)
{
	UpstreamNews *self = news;

	pthread_mutex_lock(&self->mutex);
	self->round++;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

guint64 upstream_news_round(UpstreamNews *self)
{
	pthread_mutex_lock(&self->mutex);

	guint64 round = self->round;

	pthread_mutex_unlock(&self->mutex);
	return round;
}

void upstream_news_wait(UpstreamNews *self, guint64 round)
{
	struct timespec limit;
	int code = 0;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += HANG_GUARD_S;
	pthread_mutex_lock(&self->mutex);
	while (self->round == round && code == 0)
		code = pthread_cond_clockwait(&self->changed, &self->mutex, CLOCK_MONOTONIC,
					      &limit);
	pthread_mutex_unlock(&self->mutex);
	g_assert_cmpint(code, ==, 0);
}

void upstream_fixture_connect(UpstreamFixture *self)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("a-relay");
	const char *servers[UPSTREAM_MAX_NODES + 1] = {NULL};
	g_autoptr(GError) error = NULL;

	for (guint i = 0; self->nodes[i] != NULL; i++)
		servers[i] = fake_node_text(self->nodes[i]);
	config.servers = servers;
	config.max_age_ms = LONG_AGE_MS;
	self->upstream = pool_upstream_new(&config, UPSTREAM_OWN_NONCE, upstream_news_note,
					   &self->news, &error);
	g_assert_no_error(error);
}

void upstream_fixture_set_up(UpstreamFixture *self, gconstpointer n_nodes)
{
	self->news = (UpstreamNews)UPSTREAM_NEWS_INIT;
	for (guint i = 0; i < GPOINTER_TO_UINT(n_nodes); i++)
		self->nodes[i] = fake_node_new(i);
}

void upstream_fixture_tear_down(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer n_nodes)
{
	pool_upstream_free(self->upstream);
	for (guint i = 0; i < UPSTREAM_MAX_NODES; i++)
		fake_node_free(self->nodes[i]);
}

gboolean upstream_fixture_is_served(UpstreamFixture *self)
{
	g_auto(PoolView) view = {0};

	view = pool_upstream_get_view(self->upstream);
	return view.is_served;
}

guint upstream_fixture_first(UpstreamFixture *self)
{
	g_auto(PoolView) view = {0};

	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
	view = pool_upstream_get_view(self->upstream);
	return g_str_equal(view.server, fake_node_text(self->nodes[1])) ? 1 : 0;
}

gint64 upstream_fixture_take(UpstreamFixture *self)
{
	gint64 first = -1;
	guint count = 0;

	UPSTREAM_WAIT(self, pool_upstream_take(self->upstream, 1, &first, &count));
	g_assert_cmpuint(count, ==, 1);
	return first;
}
