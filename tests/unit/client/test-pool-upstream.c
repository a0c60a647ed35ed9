/* SPDX-License-Identifier: Apache-2.0 */

/* The pool as a relay uses it: takes, status of the fleet, and its servers. */
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/pool/watch.h"
#include "client/snowflake-pool.h"
#include "core/clock.h"
#include "tests/unit/client/upstream-fixture.h"
#include "tests/unit/hang-guard.h"

#define LONG_AGE_MS 600000

/* Takes */

/* An idle machine runs this many rounds in a few seconds. A busy machine runs the threads one after
 * the other: a round takes a millisecond or more, and the threads do not meet. */
#define ROUNDS   50000
#define LIMIT_US (5 * G_USEC_PER_SEC)

/* A taker and a producer that begin each round together. */
typedef struct {
	PoolWatch watch;
	PoolBuffer *hand;
	UpstreamNews news;
	_Atomic guint taker;
	_Atomic guint putter;
	/* number of the last meeting, after which no round follows; 0 if unknown */
	_Atomic gint64 end;
} Meeting;

/* If each has a processor, they continue within nanoseconds of each other. */
static void meet(_Atomic guint *own, _Atomic guint *other)
{
	guint round = atomic_fetch_add(own, 1) + 1;

	for (guint spins = 0; atomic_load(other) < round; spins++) {
		if (spins > 10000)
			sched_yield();
	}
}

/* Waits some nanoseconds per turn. */
static void wait_a_bit(guint turns)
{
	for (volatile guint left = turns; left > 0; left--)
		;
}

static void *take_one_each_round(void *user_data)
{
	Meeting *self = user_data;

	for (gint64 i = 1;; i++) {
		PoolRun run = {0};

		meet(&self->taker, &self->putter);
		if (atomic_load(&self->end) == i)
			return NULL;
		UPSTREAM_WAIT(self, pool_watch_take(&self->watch, self->hand, 1, &run));
		g_assert_cmpint(run.first, ==, i);
	}
}

/* No wake-up is lost in any interleaving. In this many rounds, a slow build with ThreadSanitizer
 * hits the gap between the two checks of a take. */
static void test_no_wake_up_is_lost(void)
{
	Meeting self = {.news = UPSTREAM_NEWS_INIT, .hand = pool_buffer_new(NULL)};
	gint64 until_us = g_get_monotonic_time() + LIMIT_US;
	pthread_t thread;
	gint64 i;

	pool_watch_init(&self.watch, upstream_news_note, &self.news);
	g_assert_cmpint(pthread_create(&thread, NULL, take_one_each_round, &self), ==, 0);
	for (i = 1; i <= ROUNDS && g_get_monotonic_time() < until_us; i++) {
		meet(&self.putter, &self.taker);
		wait_a_bit(i % 300);
		g_assert_true(pool_ring_put(&self.hand->ring, &(PoolRun){i, 1, 1}));
		pool_watch_note_refill(&self.watch);
		pool_watch_notify(&self.watch);
	}
	atomic_store(&self.end, i);
	meet(&self.putter, &self.taker);
	pthread_join(thread, NULL);
	pool_watch_clear(&self.watch);
	pool_buffer_free(self.hand);
}

/* The view */

static void test_view(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	gint64 before_us = g_get_monotonic_time();
	gint64 boot_us = clock_boottime_ns() / 1000;
	g_auto(PoolView) served = {0}, lost = {0}, again = {0};

	fake_node_set_as_of_ms(self->nodes[0], 123456);
	upstream_fixture_connect(self);
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
	served = pool_upstream_get_view(self->upstream);
	g_assert_cmpstr(served.server, ==, fake_node_text(self->nodes[0]));
	g_assert_cmpint(served.datacenter_id, ==, 3);
	g_assert_cmpint(served.worker_id, ==, 0);
	g_assert_cmpint(served.as_of_ms, ==, 123456);
	g_assert_cmpint(served.asked_at_us, >=, boot_us);
	g_assert_cmpint(served.round_trip_us, >, 0);
	g_assert_cmpint(served.asked_at_us + served.round_trip_us, <=, clock_boottime_ns() / 1000);
	g_assert_cmpint(served.since_us, >=, before_us);
	g_assert_cmpint(served.since_us, <=, g_get_monotonic_time());
	g_assert_null(served.failure);

	fake_node_set_manner(self->nodes[0], FAKE_NODE_AWAY);
	UPSTREAM_WAIT(self, !upstream_fixture_is_served(self));
	lost = pool_upstream_get_view(self->upstream);
	g_assert_cmpstr(lost.server, ==, served.server);
	g_assert_cmpint(lost.datacenter_id, ==, 3);
	g_assert_cmpint(lost.since_us, >, served.since_us);
	g_assert_nonnull(strstr(lost.failure, "the server closed the connection"));

	fake_node_set_manner(self->nodes[0], FAKE_NODE_SERVES);
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
	again = pool_upstream_get_view(self->upstream);
	g_assert_cmpint(again.since_us, >, lost.since_us);
	g_assert_null(again.failure);
}

static void assert_unknown(const PoolView *view)
{
	g_assert_cmpint(view->datacenter_id, ==, -1);
	g_assert_cmpint(view->worker_id, ==, -1);
	g_assert_cmpint(view->as_of_ms, ==, 0);
}

static gboolean get_view_of_failure(UpstreamFixture *self, PoolView *view)
{
	pool_view_clear(view);
	*view = pool_upstream_get_view(self->upstream);
	return !view->is_served && view->failure != NULL;
}

/* The datacenter ID and worker ID are unknown while the server is away, or if it does not support
 * get_worker. */
static void test_view_of_unknown(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_auto(PoolView) away = {0}, old = {0};

	fake_node_set_manner(self->nodes[0], FAKE_NODE_AWAY);
	fake_node_set_lacks(self->nodes[0], FAKE_NODE_OF_2010);
	upstream_fixture_connect(self);
	/* a legacy server counts as serving until it fails a call for IDs */
	UPSTREAM_WAIT(self, get_view_of_failure(self, &away));
	assert_unknown(&away);

	fake_node_set_manner(self->nodes[0], FAKE_NODE_SERVES);
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
	old = pool_upstream_get_view(self->upstream);
	g_assert_cmpstr(old.server, ==, fake_node_text(self->nodes[0]));
	assert_unknown(&old);
}

/* A server is left out while its state says that it has no worker ID. */
static void test_view_of_unfit_servers(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	static const char *const states[] = {"starting", "unavailable", "what"};

	fake_node_set_state(self->nodes[0], "reclaiming");
	upstream_fixture_connect(self);
	for (guint i = 0; i < G_N_ELEMENTS(states); i++) {
		g_auto(PoolView) view = {0};

		UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
		fake_node_set_state(self->nodes[0], states[i]);
		UPSTREAM_WAIT(self, !upstream_fixture_is_served(self));
		view = pool_upstream_get_view(self->upstream);
		g_assert_nonnull(strstr(view.failure, "it has no worker ID"));
		fake_node_set_state(self->nodes[0], "reclaiming");
	}
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
}

/* A server that waits for its clock is asked, but it does not serve. */
static void test_view_of_waiting_server(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_auto(PoolView) view = {0};

	upstream_fixture_connect(self);
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
	fake_node_set_state(self->nodes[0], "waiting");
	UPSTREAM_WAIT(self, !upstream_fixture_is_served(self));
	view = pool_upstream_get_view(self->upstream);
	g_assert_nonnull(strstr(view.failure, "it waits for its clock to catch up"));
	fake_node_set_state(self->nodes[0], "serving");
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
}

static gboolean fails_with(UpstreamFixture *self, const char *what)
{
	g_auto(PoolView) view = {0};

	view = pool_upstream_get_view(self->upstream);
	return view.failure != NULL && strstr(view.failure, what) != NULL;
}

static void test_view_of_itself(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	fake_node_set_nonce(self->nodes[0], UPSTREAM_OWN_NONCE);
	upstream_fixture_connect(self);
	UPSTREAM_WAIT(self, fails_with(self, "the relay itself; remove it"));
	g_assert_false(upstream_fixture_is_served(self));
	g_assert_cmpuint(fake_node_calls(self->nodes[0], "get_id_runs"), ==, 0);
}

/* IDs that are not unique */

/* Takes all available IDs, which must be above @first. Returns %TRUE. */
static gboolean takes_nothing_below(UpstreamFixture *self, gint64 first)
{
	gint64 id;
	guint count;

	while (pool_upstream_take(self->upstream, 1, &id, &count))
		g_assert_cmpint(id, >, first);
	return TRUE;
}

static guint64 count_excluded(UpstreamFixture *self)
{
	g_auto(PoolView) view = {0};

	view = pool_upstream_get_view(self->upstream);
	return view.n_excluded;
}

/* A server that sends the IDs of its last reply again is excluded, regardless of its kind, and at
 * its other address too. No ID of the second reply is taken. */
static void check_repeats(const char *kind, guint n_nodes, const char *what)
{
	UpstreamFixture self = {0};
	g_auto(PoolView) view = {0};
	gint64 first;
	guint calls = 0;

	g_test_message("%s, %u addresses", kind, n_nodes);
	upstream_fixture_set_up(&self, GUINT_TO_POINTER(n_nodes));
	for (guint i = 0; i < n_nodes; i++) {
		fake_node_set_repeats(self.nodes[i], TRUE);
		fake_node_set_kind(self.nodes[i], kind);
		fake_node_set_nonce(self.nodes[i], "one-process");
		fake_node_set_next_id(self.nodes[i], 1000);
	}
	upstream_fixture_connect(&self);
	first = upstream_fixture_take(&self);
	UPSTREAM_WAIT(&self, takes_nothing_below(&self, first) && fails_with(&self, what));
	for (guint i = 0; i < n_nodes; i++)
		calls += fake_node_calls(self.nodes[i], "get_id_runs");
	g_assert_cmpuint(calls, ==, 2);
	view = pool_upstream_get_view(self.upstream);
	g_assert_cmpuint(view.n_excluded, ==, 1);
	g_assert_cmpstr(view.excluded_nonce, ==, "one-process");
	g_assert_cmpstr(view.first_sender, !=, "");
	g_assert_true(g_str_has_prefix(view.proof, view.excluded_server));
	upstream_fixture_tear_down(&self, NULL);
}

static void test_repeats(void)
{
	check_repeats("server", 1, "had sent before");
	check_repeats("relay", 1, "had sent before");
	check_repeats("server", 2, "the same process was excluded at another address");
}

/* Two servers have the same worker ID of different registries, so their IDs would not be unique.
 * The pool excludes one of them before it sends an ID twice. */
static void test_two_registries(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_auto(PoolView) view = {0};

	fake_node_set_worker_id(self->nodes[1], 0);
	fake_node_set_registry_id(self->nodes[0], "first-registry");
	fake_node_set_registry_id(self->nodes[1], "second-registry");
	upstream_fixture_connect(self);
	while (count_excluded(self) == 0)
		upstream_fixture_take(self);
	view = pool_upstream_get_view(self->upstream);
	g_assert_cmpuint(view.n_excluded, ==, 1);
	g_assert_cmpstr(view.first_sender, !=, view.excluded_server);
	g_assert_nonnull(strstr(view.proof, "both are worker 0 of datacenter 3, but of different "
					    "registries ("));
	/* the other server serves */
	upstream_fixture_take(self);
}

static gboolean were_asked_twice(UpstreamFixture *self)
{
	return fake_node_calls(self->nodes[0], "get_worker") > 1 &&
	       fake_node_calls(self->nodes[1], "get_worker") > 1;
}

/* An earlier version does not report its registry. A relay reports the worker ID in its last ID. */
static void test_registries_that_are_not_compared(void)
{
	static const struct {
		const char *registry_id, *kind;
	} SECOND[] = {{"a-registry", "server"}, {NULL, "server"}, {"another-registry", "relay"}};

	for (guint i = 0; i < G_N_ELEMENTS(SECOND); i++) {
		UpstreamFixture self = {0};

		upstream_fixture_set_up(&self, GUINT_TO_POINTER(2));
		fake_node_set_registry_id(self.nodes[0], "a-registry");
		fake_node_set_worker_id(self.nodes[1], 0);
		fake_node_set_registry_id(self.nodes[1], SECOND[i].registry_id);
		fake_node_set_kind(self.nodes[1], SECOND[i].kind);
		upstream_fixture_connect(&self);
		while (!were_asked_twice(&self))
			upstream_fixture_take(&self);
		g_assert_cmpuint(count_excluded(&self), ==, 0);
		upstream_fixture_tear_down(&self, NULL);
	}
}

/* Makes the IDs of the next @n_low replies lower, and takes IDs until a later reply has arrived. */
static void go_back(UpstreamFixture *self, guint n_low)
{
	gint64 first = upstream_fixture_take(self);
	gint64 after = first + FAKE_NODE_LOW_OFFSET / 4;
	gint64 id;

	fake_node_set_n_low(self->nodes[0], n_low);
	fake_node_set_next_id(self->nodes[0], after);
	do {
		id = upstream_fixture_take(self);
		g_assert_cmpint(id, >, first);
	} while (id < after);
}

static void test_goes_back_once(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	upstream_fixture_connect(self);
	go_back(self, 1);
	go_back(self, 1);
	g_assert_cmpuint(count_excluded(self), ==, 0);
}

/* The server's IDs decrease on two connections, with the same nonce and worker ID. */
static void test_goes_back_twice(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_auto(PoolView) view = {0};
	gint64 first;

	upstream_fixture_connect(self);
	first = upstream_fixture_take(self);
	fake_node_set_n_low(self->nodes[0], 2);
	UPSTREAM_WAIT(self, takes_nothing_below(self, first) && count_excluded(self) == 1);
	view = pool_upstream_get_view(self->upstream);
	g_assert_nonnull(strstr(view.proof, "its IDs decreased on two connections"));
	g_assert_cmpstr(view.first_sender, ==, "");
}

/* A later process has the same worker ID. It has lost its reservations, so its IDs go back. */
static void test_goes_back_after_a_restart(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_auto(PoolView) view = {0};
	gint64 first;

	upstream_fixture_connect(self);
	first = upstream_fixture_take(self);
	fake_node_set_nonce(self->nodes[0], "later-process");
	fake_node_set_n_low(self->nodes[0], 2);
	UPSTREAM_WAIT(self, takes_nothing_below(self, first) && count_excluded(self) == 1);
	view = pool_upstream_get_view(self->upstream);
	g_assert_cmpstr(view.excluded_nonce, ==, "later-process");
}

static gboolean has_worker_id(UpstreamFixture *self, gint worker_id)
{
	g_auto(PoolView) view = {0};

	view = pool_upstream_get_view(self->upstream);
	return view.worker_id == worker_id;
}

/* IDs on one connection increase, although the server reports another worker ID meanwhile. */
static void test_goes_back_on_one_connection(UpstreamFixture *self,
					     G_GNUC_UNUSED gconstpointer data)
{
	upstream_fixture_connect(self);
	upstream_fixture_take(self);
	fake_node_set_worker_id(self->nodes[0], 9);
	UPSTREAM_WAIT(self, has_worker_id(self, 9));
	go_back(self, 1);
	g_assert_cmpuint(count_excluded(self), ==, 0);
}

/* A server's IDs may decrease once when it reports another worker ID, as after a clock step with
 * --on-clock-step=reclaim. The pool drops the connection, and takes its IDs on a new one. */
static void test_goes_back_with_another_worker_id(UpstreamFixture *self,
						  G_GNUC_UNUSED gconstpointer data)
{
	gint64 id;

	upstream_fixture_connect(self);
	upstream_fixture_take(self);
	fake_node_set_worker_id(self->nodes[0], 9);
	fake_node_set_next_id(self->nodes[0], 1000);
	do
		id = upstream_fixture_take(self);
	while (id > 1000000);
	g_assert_cmpuint(count_excluded(self), ==, 0);
}

/* Workers */

static void test_workers(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_autoptr(GPtrArray) workers = NULL;
	gint64 asked_us = -1, again_us = -1;
	gboolean failed = TRUE;

	upstream_fixture_connect(self);
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));

	gint64 before_us = clock_boottime_ns() / 1000;

	g_assert_false(pool_upstream_get_workers(self->upstream, LONG_AGE_MS, &workers, &asked_us,
						 &failed));
	g_assert_false(failed);
	g_assert_null(workers);
	UPSTREAM_WAIT(self, pool_upstream_get_workers(self->upstream, LONG_AGE_MS, &workers,
						      &asked_us, &failed));
	g_assert_cmpuint(workers->len, ==, 3);
	g_assert_cmpint(((SnowflakeClientWorker *)workers->pdata[2])->worker_id, ==, 2);
	g_assert_cmpint(asked_us, >=, before_us);
	g_assert_cmpint(asked_us, <=, clock_boottime_ns() / 1000);
	g_clear_pointer(&workers, g_ptr_array_unref);

	/* the same list once more */
	g_assert_true(pool_upstream_get_workers(self->upstream, LONG_AGE_MS, &workers, &again_us,
						&failed));
	g_assert_cmpint(again_us, ==, asked_us);
	g_clear_pointer(&workers, g_ptr_array_unref);
	g_assert_cmpuint(fake_node_calls(self->nodes[0], "get_workers"), ==, 1);

	/* the list has become too old */
	UPSTREAM_WAIT(self,
		      pool_upstream_get_workers(self->upstream,
						(clock_boottime_ns() / 1000 - asked_us) / 1000 - 1,
						&workers, &again_us, &failed) &&
			      again_us > asked_us);
}

/* The pool reads the first 1,024 servers of a longer list. */
static void test_too_many_workers(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_autoptr(GPtrArray) workers = NULL;
	gint64 asked_us;
	gboolean failed;

	fake_node_set_n_workers(self->nodes[0], 60000);
	upstream_fixture_connect(self);
	UPSTREAM_WAIT(self, upstream_fixture_is_served(self));
	UPSTREAM_WAIT(self, pool_upstream_get_workers(self->upstream, LONG_AGE_MS, &workers,
						      &asked_us, &failed));
	g_assert_cmpuint(workers->len, ==, 1024);
	g_assert_cmpint(((SnowflakeClientWorker *)workers->pdata[1023])->worker_id, ==, 1023);
	upstream_fixture_take(self); /* the connection is still usable */
}

static void check_no_workers(FakeNodeManner manner, FakeNodeLacks lacks)
{
	UpstreamFixture self = {0};
	g_autoptr(GPtrArray) workers = NULL;
	gint64 asked_us = -1;
	gboolean failed = FALSE;

	upstream_fixture_set_up(&self, GUINT_TO_POINTER(1));
	fake_node_set_manner(self.nodes[0], manner);
	fake_node_set_lacks(self.nodes[0], lacks);
	upstream_fixture_connect(&self);
	if (manner == FAKE_NODE_SERVES)
		UPSTREAM_WAIT(&self, upstream_fixture_is_served(&self));
	UPSTREAM_WAIT(&self, pool_upstream_get_workers(self.upstream, LONG_AGE_MS, &workers,
						       &asked_us, &failed) ||
				     failed);
	g_assert_true(failed);
	g_assert_null(workers);
	g_assert_cmpint(asked_us, ==, -1);
	upstream_fixture_tear_down(&self, NULL);
}

static void test_no_workers(void)
{
	check_no_workers(FAKE_NODE_SERVES, FAKE_NODE_LACKS_WORKERS);
	check_no_workers(FAKE_NODE_AWAY, 0);
}

/* The child allocates nothing: another thread of the parent may have held the allocator's lock. */
static void test_bare_child(void)
{
	g_autoptr(FakeNode) node = fake_node_new(0);
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("test");
	g_autoptr(SnowflakePool) pool = NULL;
	int status;
	gint64 id;
	pid_t child;

	config.servers = (const char *[]){fake_node_text(node), NULL};
	config.timeout_ms = HANG_GUARD_S * 1000;
	pool = snowflake_pool_new(&config, NULL);
	g_assert_true(snowflake_pool_take(pool, &id, NULL));
	child = _Fork();
	if (child == 0) {
		alarm(HANG_GUARD_S);
		_exit(snowflake_pool_take(pool, &id, NULL) ? 1 : 0);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	g_assert_true(snowflake_pool_take(pool, &id, NULL));
}

static void never_called(G_GNUC_UNUSED gpointer user_data)
{
	g_assert_not_reached();
}

static void test_config(void)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("1");
	g_autoptr(GError) error = NULL;

	g_assert_null(pool_upstream_new(&config, NULL, never_called, NULL, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);
	/* a program that was built for a later version of the library */
	config.agent = "test";
	config.reserved[G_N_ELEMENTS(config.reserved) - 1] = &config;
	g_assert_null(pool_upstream_new(&config, NULL, never_called, NULL, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
}

static const struct {
	const char *path;
	guint n_nodes;
	void (*run)(UpstreamFixture *self, gconstpointer data);
} tests[] = {
	{"/pool-upstream/view/served", 1, test_view},
	{"/pool-upstream/view/unknown", 1, test_view_of_unknown},
	{"/pool-upstream/view/unfit", 1, test_view_of_unfit_servers},
	{"/pool-upstream/view/waiting", 1, test_view_of_waiting_server},
	{"/pool-upstream/view/itself", 1, test_view_of_itself},
	{"/pool-upstream/not-unique/goes-back/once", 1, test_goes_back_once},
	{"/pool-upstream/not-unique/goes-back/twice", 1, test_goes_back_twice},
	{"/pool-upstream/not-unique/goes-back/restart", 1, test_goes_back_after_a_restart},
	{"/pool-upstream/not-unique/goes-back/one-connection", 1, test_goes_back_on_one_connection},
	{"/pool-upstream/not-unique/another-worker-id", 1, test_goes_back_with_another_worker_id},
	{"/pool-upstream/not-unique/two-registries", 2, test_two_registries},
	{"/pool-upstream/workers/list", 1, test_workers},
	{"/pool-upstream/workers/too-many", 1, test_too_many_workers},
};

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].path, UpstreamFixture, GUINT_TO_POINTER(tests[i].n_nodes),
			   upstream_fixture_set_up, tests[i].run, upstream_fixture_tear_down);
	g_test_add_func("/pool-upstream/no-wake-up-is-lost", test_no_wake_up_is_lost);
	g_test_add_func("/pool-upstream/not-unique/repeats", test_repeats);
	g_test_add_func("/pool-upstream/not-unique/not-compared",
			test_registries_that_are_not_compared);
	g_test_add_func("/pool-upstream/bare-child", test_bare_child);
	g_test_add_func("/pool-upstream/workers/none", test_no_workers);
	g_test_add_func("/pool-upstream/config", test_config);
	return g_test_run();
}
