/* SPDX-License-Identifier: Apache-2.0 */

/* The servers as a pool sees them, in a time of the test's own: it stands still while something is
 * under way, and leaps to what comes next when nothing is. */
#include "client/pool/fleet.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/pool/clock.h"
#include "client/pool/fork.h"
#include "tests/unit/client/fake-node.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/patience.h"

#define MAX_NODES 4
#define SECOND_US G_USEC_PER_SEC
#define LONG_US   (600 * SECOND_US) /* for rests to have become as long as they do */

typedef struct {
	FakeNode *nodes[MAX_NODES + 1]; /* NULL after the last one */
	PoolConfig *config;
	PoolFleet fleet;
	PoolNews news;
	PoolNeed need;
	int fd;
	gint64 now_us;
	gint64 connected_us;   /* when the last connection was begun */
	gint64 longest_gap_us; /* between two of them */
	guint least_fit;       /* how few were fit, since this was set */
} Fleet;

static void fleet_set_up(Fleet *self, guint n_nodes)
{
	*self = (Fleet){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .now_us = SECOND_US};
	pool_fork_init();
	pool_news_init(&self->news);
	for (guint i = 0; i < n_nodes; i++)
		self->nodes[i] = fake_node_new(i);
}

static void fleet_connect_to(Fleet *self, const char *const *servers, gboolean is_watched,
			     gboolean discover)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("a-pool");
	g_autoptr(GError) error = NULL;

	config.servers = servers;
	config.discover = discover;
	self->config = pool_config_new(&config, &error);
	g_assert_no_error(error);
	pool_fork_lock();
	pool_fleet_init(&self->fleet, self->config, is_watched, self->fd, self->now_us);
	pool_fork_unlock();
}

static void fleet_connect(Fleet *self, gboolean is_watched)
{
	const char *servers[MAX_NODES + 1] = {NULL};

	for (guint i = 0; self->nodes[i] != NULL; i++)
		servers[i] = fake_node_text(self->nodes[i]);
	fleet_connect_to(self, servers, is_watched, FALSE);
}

static void fleet_tear_down(Fleet *self)
{
	pool_fork_lock();
	pool_fleet_clear(&self->fleet);
	pool_news_clear(&self->news);
	pool_fork_unlock();
	pool_config_free(self->config);
	for (guint i = 0; i < MAX_NODES; i++)
		fake_node_free(self->nodes[i]);
	close(self->fd);
}

static void note_connections(Fleet *self, const PoolPeer *const *before)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->fleet.peers.all[i] == NULL || self->fleet.peers.all[i] == before[i])
			continue;
		if (self->connected_us != 0)
			self->longest_gap_us =
				MAX(self->longest_gap_us, self->now_us - self->connected_us);
		self->connected_us = self->now_us;
	}
}

static guint count_fit(const Fleet *self)
{
	guint count = 0;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->fleet.peers.all[i];

		count += peer != NULL && pool_peer_rank(peer, self->now_us) == 0;
	}
	return count;
}

/* NULL: it is none that answers. */
static FakeNode *node_of(const Fleet *self, const PoolPeer *peer)
{
	guint i = 0;

	while (self->nodes[i] != NULL &&
	       !g_str_equal(fake_node_text(self->nodes[i]), peer->server->text))
		i++;
	return self->nodes[i];
}

static gboolean is_waiting(const Fleet *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->fleet.peers.all[i];

		if (peer != NULL && !pool_peer_is_idle(peer) && node_of(self, peer) != NULL)
			return TRUE;
	}
	return self->fleet.finder.names != NULL;
}

static void wait_for_peers(Fleet *self)
{
	struct pollfd fds[1 + POOL_PEERS_MAX] = {{.fd = self->fd, .events = POLLIN}};
	guint count = pool_peers_poll(&self->fleet.peers, fds + 1);
	eventfd_t calls;

	g_assert_cmpint(poll(fds, 1 + count, PATIENCE_MS), >, 0);
	eventfd_read(self->fd, &calls);
}

static void hear(Fleet *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer **peer = &self->fleet.peers.all[i];

		if (*peer != NULL)
			pool_fleet_hear(&self->fleet, peer, &self->news, self->now_us);
	}
}

/* Returns: when the next one is due */
static gint64 pass(Fleet *self)
{
	const PoolPeer *before[POOL_PEERS_MAX];
	gint64 next_us;

	pool_fork_lock();
	hear(self);
	memcpy(before, self->fleet.peers.all, sizeof(before));
	pool_fleet_tend(&self->fleet, self->need, self->now_us);
	note_connections(self, before);
	self->least_fit = MIN(self->least_fit, count_fit(self));
	next_us = pool_fleet_next_us(&self->fleet, self->need, self->now_us);
	pool_fork_unlock();
	return next_us;
}

static void run_until(Fleet *self, gint64 until_us)
{
	while (self->now_us < until_us) {
		gint64 next_us = pass(self);

		if (is_waiting(self))
			wait_for_peers(self);
		else
			self->now_us = MIN(MAX(next_us, self->now_us), until_us);
	}
}

static void run_for(Fleet *self, gint64 us)
{
	run_until(self, self->now_us + us);
}

/* However long it was away. */
static void test_comes_back(void)
{
	for (guint n_nodes = 1; n_nodes <= MAX_NODES; n_nodes++) {
		Fleet self;

		fleet_set_up(&self, n_nodes);
		for (guint i = 0; i < n_nodes; i++)
			fake_node_set_manner(self.nodes[i], FAKE_NODE_AWAY);
		fleet_connect(&self, FALSE);
		run_for(&self, LONG_US);
		g_assert_false(self.fleet.is_served);
		g_assert_cmpint(self.longest_gap_us, <=, SECOND_US * 3 / 4);
		/* not without end: each some two times a second */
		guint tries = 0;

		for (guint i = 0; i < n_nodes; i++)
			tries += fake_node_connections(self.nodes[i]);
		g_assert_cmpuint(tries, <, LONG_US / SECOND_US * 3 * n_nodes);

		/* one is enough */
		fake_node_set_manner(self.nodes[n_nodes - 1], FAKE_NODE_SERVES);
		run_for(&self, SECOND_US);
		g_assert_true(self.fleet.is_served);
		g_assert_nonnull(self.fleet.first);
		fleet_tear_down(&self);
	}
}

/* Beside one that is fit, one that fails is left alone for longer and longer. */
static void test_one_stays_away(void)
{
	Fleet self;
	guint before;

	fleet_set_up(&self, 2);
	fake_node_set_manner(self.nodes[1], FAKE_NODE_AWAY);
	fleet_connect(&self, FALSE);
	self.need = POOL_NEED_MET;
	run_for(&self, LONG_US);
	g_assert_true(self.fleet.is_served);
	g_assert_cmpuint(fake_node_connections(self.nodes[0]), ==, 1);
	before = fake_node_connections(self.nodes[1]);
	g_assert_cmpuint(before, <, LONG_US / SECOND_US / 2 + 10);

	/* when it has been back, rests are short again */
	fake_node_set_manner(self.nodes[1], FAKE_NODE_SERVES);
	run_for(&self, 10 * SECOND_US);
	fake_node_set_manner(self.nodes[1], FAKE_NODE_AWAY);
	run_for(&self, 2 * SECOND_US);
	g_assert_cmpuint(fake_node_connections(self.nodes[1]), >=, before + 4);
	fleet_tear_down(&self);
}

static void test_probes(void)
{
	static const struct {
		gboolean is_watched;
		PoolNeed need;
		guint calls; /* in a minute */
	} cases[] = {
		{FALSE, POOL_NEED_NONE, 1},
		{TRUE, POOL_NEED_NONE, 30},
		{FALSE, POOL_NEED_MET, 120},
		{TRUE, POOL_NEED_MORE, 120},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		Fleet self;
		guint calls;

		fleet_set_up(&self, 1);
		fleet_connect(&self, cases[i].is_watched);
		self.need = cases[i].need;
		run_for(&self, 60 * SECOND_US);
		calls = fake_node_calls(self.nodes[0], "get_worker");
		g_assert_cmpuint(calls, >=, cases[i].calls);
		g_assert_cmpuint(calls, <=, cases[i].calls + 1);
		g_assert_cmpuint(fake_node_connections(self.nodes[0]), ==, 1);
		fleet_tear_down(&self);
	}
}

/* Those that say nothing, however many, keep the one that serves waiting for a while only. */
static void test_gives_way(void)
{
	for (guint round = 0; round < 10; round++) {
		const char *servers[3 * POOL_PEERS_MAX + 2] = {NULL};
		char *silent[3 * POOL_PEERS_MAX];
		int fds[G_N_ELEMENTS(silent)];
		Fleet self;

		fleet_set_up(&self, 1);
		for (gsize i = 0; i < G_N_ELEMENTS(silent); i++) {
			fds[i] = fake_silent_new(TRUE, &silent[i]);
			servers[i] = silent[i];
		}
		servers[G_N_ELEMENTS(silent)] = fake_node_text(self.nodes[0]);
		fleet_connect_to(&self, servers, FALSE, FALSE);
		self.need = POOL_NEED_MORE;
		while (!self.fleet.is_served) {
			run_for(&self, SECOND_US / 10);
			g_assert_cmpint(self.now_us, <=, 4 * SECOND_US);
		}
		fleet_tear_down(&self);
		for (gsize i = 0; i < G_N_ELEMENTS(silent); i++) {
			close(fds[i]);
			g_free(silent[i]);
		}
	}
}

/* One that cannot list is asked to now and then, and not all the time. */
static void test_lists_now_and_then(void)
{
	Fleet self;

	fleet_set_up(&self, 1);
	fake_node_set_lacks(self.nodes[0], FAKE_NODE_LACKS_WORKERS);
	fleet_connect_to(&self, (const char *[]){fake_node_text(self.nodes[0]), NULL}, FALSE, TRUE);
	run_for(&self, 60 * SECOND_US);
	g_assert_cmpuint(fake_node_calls(self.nodes[0], "get_workers"), >=, 1);
	g_assert_cmpuint(fake_node_calls(self.nodes[0], "get_workers"), <=, 2 * 60 + 2);
	fleet_tear_down(&self);
}

/* Two names of one server are one connection. */
static void test_twins(void)
{
	Fleet self;

	fleet_set_up(&self, 2);
	for (guint i = 0; i < 2; i++)
		fake_node_set_nonce(self.nodes[i], "a");
	fleet_connect(&self, FALSE);
	self.need = POOL_NEED_MET;
	for (guint second = 0; second < 50; second++) {
		run_for(&self, SECOND_US);
		g_assert_cmpuint(pool_peers_count(&self.fleet.peers), ==, 1);
	}
	for (guint i = 0; i < 2; i++)
		g_assert_cmpuint(fake_node_connections(self.nodes[i]), ==, 1);
	fleet_tear_down(&self);
}

static void test_unfit(void)
{
	static const char *const states[] = {"starting", "waiting", "unavailable", "what"};

	for (guint i = 0; i < G_N_ELEMENTS(states); i++) {
		Fleet self;

		fleet_set_up(&self, 1);
		fake_node_set_state(self.nodes[0], states[i]);
		fleet_connect(&self, FALSE);
		run_for(&self, SECOND_US);
		g_assert_false(self.fleet.is_served);
		g_assert_null(self.fleet.first);
		g_assert_nonnull(strstr(self.fleet.failure->message, "it has no worker ID"));
		fake_node_set_state(self.nodes[0], "reclaiming");
		run_for(&self, SECOND_US);
		g_assert_true(self.fleet.is_served);
		fleet_tear_down(&self);
	}
}

/* The first is left for one that does not drain, if there is one; which counts as a switch. */
static void test_drains(void)
{
	Fleet self;
	guint first;

	fleet_set_up(&self, 2);
	fleet_connect(&self, FALSE);
	self.need = POOL_NEED_MET;
	run_for(&self, SECOND_US);
	first = g_str_equal(self.fleet.first->server->text, fake_node_text(self.nodes[1]));
	fake_node_set_state(self.nodes[first], "draining");
	run_for(&self, SECOND_US);
	g_assert_cmpstr(self.fleet.first->server->text, ==, fake_node_text(self.nodes[1 - first]));
	g_assert_cmpuint(self.fleet.switches, ==, 1);
	fake_node_set_state(self.nodes[1 - first], "draining");
	run_for(&self, SECOND_US);
	g_assert_true(self.fleet.is_served);
	g_assert_cmpuint(self.fleet.switches, ==, 1);
	fleet_tear_down(&self);
}

static guint count_connections(const Fleet *self)
{
	guint count = 0;

	for (guint i = 0; self->nodes[i] != NULL; i++)
		count += fake_node_connections(self->nodes[i]);
	return count;
}

static PoolPeer *find_spare(const Fleet *self)
{
	return pool_peers_find_idle(&self->fleet.peers, 0, self->fleet.first, self->now_us);
}

/* Its first is fit, and there are more servers than it is connected to. */
static void fleet_settle(Fleet *self, guint n_nodes)
{
	fleet_set_up(self, n_nodes);
	fleet_connect(self, FALSE);
	self->need = POOL_NEED_MET;
	run_for(self, 5 * SECOND_US);
	g_assert_cmpuint(pool_peers_count(&self->fleet.peers), ==, 2);
}

/* The server of the spare dies, and is back when that is seen. */
static void lose_spare_once(Fleet *self)
{
	FakeNode *node = node_of(self, find_spare(self));
	gint64 before_us = self->fleet.replaces_us;

	fake_node_set_manner(node, FAKE_NODE_AWAY);
	while (self->fleet.replaces_us == before_us)
		run_for(self, SECOND_US / 1000);
	fake_node_set_manner(node, FAKE_NODE_SERVES);
}

/* Likewise; and it is not replaced within some ms. */
static void lose_spare(Fleet *self)
{
	do {
		run_for(self, SECOND_US);
		lose_spare_once(self);
	} while (self->fleet.replaces_us - self->now_us < SECOND_US / 100);
}

/* While the first is fit. */
static void test_replaces_later(void)
{
	gint64 least_us = SECOND_US;
	gint64 most_us = 0;
	Fleet self;

	fleet_settle(&self, 3);
	for (guint round = 0; round < 20; round++) {
		guint connections;
		gint64 lost_us;

		lose_spare(&self);
		connections = count_connections(&self);
		lost_us = self.now_us;
		run_until(&self, self.fleet.replaces_us - 1);
		g_assert_cmpuint(count_connections(&self), ==, connections);
		run_until(&self, self.fleet.replaces_us + 1);
		g_assert_cmpuint(count_connections(&self), ==, connections + 1);
		g_assert_nonnull(find_spare(&self));
		least_us = MIN(least_us, self.fleet.replaces_us - lost_us);
		most_us = MAX(most_us, self.fleet.replaces_us - lost_us);
	}
	g_assert_cmpint(least_us, <, SECOND_US / 2);
	g_assert_cmpint(most_us, >, SECOND_US / 2);
	g_assert_cmpint(most_us, <=, SECOND_US);
	fleet_tear_down(&self);
}

static void test_replaces_at_once_if_none_is_fit(void)
{
	Fleet self;
	guint connections;

	fleet_settle(&self, 3);
	connections = count_connections(&self);
	fake_node_set_manner(node_of(&self, find_spare(&self)), FAKE_NODE_AWAY);
	fake_node_set_manner(node_of(&self, self.fleet.first), FAKE_NODE_AWAY);
	while (self.fleet.replaces_us == 0)
		run_for(&self, SECOND_US / 1000);
	g_assert_cmpuint(count_connections(&self), ==, connections + 1);
	g_assert_true(self.fleet.is_served);
	fleet_tear_down(&self);
}

static void test_replaces_for_a_need(void)
{
	Fleet self;
	guint connections;

	fleet_settle(&self, 3);
	lose_spare(&self);
	connections = count_connections(&self);
	self.need = POOL_NEED_MORE;
	run_for(&self, 4999);
	g_assert_cmpuint(count_connections(&self), ==, connections);
	run_for(&self, 2);
	g_assert_cmpuint(count_connections(&self), ==, connections + 1);
	fleet_tear_down(&self);
}

/* Of three that are as near as each other two are kept, whichever was the first to answer. */
static void test_closes_any(void)
{
	guint closed[3] = {0};

	for (guint round = 0; round < 60; round++) {
		Fleet self;

		fleet_settle(&self, 3);
		for (guint i = 0; i < G_N_ELEMENTS(closed); i++)
			closed[i] += self.fleet.peers.all[i] == NULL;
		fleet_tear_down(&self);
	}
	for (guint i = 0; i < G_N_ELEMENTS(closed); i++)
		g_assert_cmpuint(closed[i], >, 0);
}

/* Nobody takes any IDs, and the third server is back, or not. */
static void test_exchanges(void)
{
	static const struct {
		FakeNodeManner manner;
		const char *state;
		gboolean is_taken;
	} cases[] = {
		{FAKE_NODE_SERVES, "serving", TRUE},
		{FAKE_NODE_SERVES, "draining", FALSE},
		{FAKE_NODE_SERVES, "waiting", FALSE},
		{FAKE_NODE_AWAY, "serving", FALSE},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		FakeNode *third;
		Fleet self;
		guint connections;
		gboolean is_taken = FALSE;

		fleet_set_up(&self, 3);
		third = self.nodes[2];
		fake_node_set_manner(third, FAKE_NODE_AWAY);
		fleet_connect(&self, FALSE);
		run_for(&self, 10 * SECOND_US);
		fake_node_set_manner(third, cases[i].manner);
		fake_node_set_state(third, cases[i].state);
		connections = count_connections(&self);
		self.least_fit = G_MAXUINT;
		for (guint second = 0; second < 3600; second++) {
			run_for(&self, SECOND_US);
			is_taken |= node_of(&self, self.fleet.first) == third;
			g_assert_cmpuint(pool_peers_count(&self.fleet.peers), ==, 2);
		}
		g_assert_cmpint(is_taken, ==, cases[i].is_taken);
		g_assert_cmpuint(self.least_fit, ==, 2);
		g_assert_cmpuint(self.fleet.switches, ==, 0);
		connections = count_connections(&self) - connections;
		g_assert_cmpuint(connections, >=, 3600 / 120);
		g_assert_cmpuint(connections, <=, 3600 / 60);
		fleet_tear_down(&self);
	}
}

static void test_has_none_to_exchange(void)
{
	Fleet self;

	fleet_settle(&self, 2);
	run_for(&self, LONG_US);
	g_assert_cmpuint(count_connections(&self), ==, 2);
	fleet_tear_down(&self);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pool-fleet/comes-back", test_comes_back);
	g_test_add_func("/pool-fleet/one-stays-away", test_one_stays_away);
	g_test_add_func("/pool-fleet/probes", test_probes);
	g_test_add_func("/pool-fleet/gives-way", test_gives_way);
	g_test_add_func("/pool-fleet/lists-now-and-then", test_lists_now_and_then);
	g_test_add_func("/pool-fleet/twins", test_twins);
	g_test_add_func("/pool-fleet/unfit", test_unfit);
	g_test_add_func("/pool-fleet/drains", test_drains);
	g_test_add_func("/pool-fleet/replaces-later", test_replaces_later);
	g_test_add_func("/pool-fleet/replaces-at-once-if-none-is-fit",
			test_replaces_at_once_if_none_is_fit);
	g_test_add_func("/pool-fleet/replaces-for-a-need", test_replaces_for_a_need);
	g_test_add_func("/pool-fleet/closes-any", test_closes_any);
	g_test_add_func("/pool-fleet/exchanges", test_exchanges);
	g_test_add_func("/pool-fleet/has-none-to-exchange", test_has_none_to_exchange);
	return g_test_run();
}
