/* SPDX-License-Identifier: Apache-2.0 */

/* Batches that a relay requests from a fleet without splitting them. */
#include <poll.h>

#include "core/clock.h"
#include "tests/unit/client/upstream-fixture.h"
#include "tests/unit/hang-guard.h"

static PoolBatchRequest *place(UpstreamFixture *self, guint count)
{
	PoolBatchRequest *order = pool_batch_request_new(self->upstream);

	g_assert_cmpint(pool_batch_request_state(order), ==, POOL_BATCH_REQUEST_IDLE);
	pool_batch_request_place(order, count);
	return order;
}

static PoolBatchRequestState wait_for_end(UpstreamFixture *self, const PoolBatchRequest *order)
{
	UPSTREAM_WAIT(self, pool_batch_request_state(order) != POOL_BATCH_REQUEST_PLACED);
	return pool_batch_request_state(order);
}

/* Returns: the first ID */
static gint64 check_filled(const PoolBatchRequest *order, guint count)
{
	const GArray *runs = order->runs;
	gint64 last = 0;
	guint sum = 0;

	g_assert_cmpint(pool_batch_request_state(order), ==, POOL_BATCH_REQUEST_FILLED);
	for (guint i = 0; i < runs->len; i++) {
		const SnowflakeClientIdRun *run = &g_array_index(runs, SnowflakeClientIdRun, i);

		g_assert_cmpint(run->first, >, last);
		last = run->first + run->count - 1;
		sum += run->count;
	}
	g_assert_cmpuint(sum, ==, count);
	return g_array_index(runs, SnowflakeClientIdRun, 0).first;
}

static const struct {
	FakeNodeLacks lacks;
	guint max_batch;
	guint count;
	guint most; /* max_batch of the refusal; 0 if the request is filled */
	guint calls;
	gboolean tells_limit;
} orders[] = {
	{0, 10000, 1, 0, 1, FALSE},
	{0, 10000, 10000, 0, 1, FALSE},
	{0, 10000, 10001, 10000, 0, FALSE},
	{0, 10000, G_MAXUINT, 10000, 0, FALSE},
	{0, 7000, 10000, 9999, 1, FALSE},
	{0, 7000, 10000, 7000, 1, TRUE},
	{0, 10000, 10001, 10000, 0, TRUE},
	{0, 7, 7, 0, 1, FALSE},
	{0, 1, 2, 1, 1, FALSE},
	{FAKE_NODE_LACKS_RUNS, 10000, 1000, 0, 2, FALSE},
	{FAKE_NODE_LACKS_RUNS, 10000, 1001, 1000, 1, FALSE},
	{FAKE_NODE_LACKS_RUNS, 10, 100, 99, 2, FALSE},
	{FAKE_NODE_LACKS_RUNS, 10, 100, 10, 2, TRUE},
	{FAKE_NODE_OF_2010, 10000, 1, 0, 3, FALSE},
	{FAKE_NODE_OF_2010, 10000, 2, 1, 2, FALSE},
};

/* One server answers once, and nothing else is requested. */
static void check_order(guint at)
{
	UpstreamFixture fixture = {0};

	g_test_message("order %u", at);
	upstream_fixture_set_up(&fixture, GUINT_TO_POINTER(1));
	fake_node_set_lacks(fixture.nodes[0], orders[at].lacks);
	fake_node_set_max_batch(fixture.nodes[0], orders[at].max_batch);
	fake_node_set_tells_limit(fixture.nodes[0], orders[at].tells_limit);
	upstream_fixture_connect(&fixture);

	gint64 before_us = clock_boottime_ns() / 1000;
	PoolBatchRequest *order = place(&fixture, orders[at].count);
	PoolBatchRequestState state = wait_for_end(&fixture, order);
	g_autoptr(GArray) counts = fake_node_counts(fixture.nodes[0]);

	g_assert_cmpuint(counts->len, ==, orders[at].calls);
	if (orders[at].most == 0) {
		check_filled(order, orders[at].count);
		g_assert_cmpint(order->filled_at_us, >=, before_us);
		g_assert_cmpint(order->filled_at_us, <=, clock_boottime_ns() / 1000);
	} else {
		g_assert_cmpint(state, ==, POOL_BATCH_REQUEST_REFUSED);
		g_assert_cmpuint(order->max_count, ==, orders[at].most);
	}
	upstream_fixture_tear_down(&fixture, NULL);
}

static void test_orders(void)
{
	for (guint i = 0; i < G_N_ELEMENTS(orders); i++)
		check_order(i);
}

/* A refusal does not affect smaller batches. */
static void test_refused_once(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	PoolBatchRequest *order;

	fake_node_set_max_batch(self->nodes[0], 7000);
	upstream_fixture_connect(self);
	order = place(self, 10000);
	g_assert_cmpint(wait_for_end(self, order), ==, POOL_BATCH_REQUEST_REFUSED);
	pool_batch_request_place(order, 7000);
	g_assert_cmpint(wait_for_end(self, order), ==, POOL_BATCH_REQUEST_FILLED);
	check_filled(order, 7000);
}

/* A batch that one server refuses is requested from another one, even from a busy one. */
static void test_one_that_gives_more(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	PoolBatchRequest *large, *other, *small;

	fake_node_set_max_batch(self->nodes[0], 10);
	upstream_fixture_connect(self);
	large = place(self, 100);
	/* refused while only one of them is known */
	while (wait_for_end(self, large) == POOL_BATCH_REQUEST_REFUSED)
		pool_batch_request_place(large, 100);
	g_assert_cmpint(check_filled(large, 100) >> 40, ==, 2);

	guint calls = fake_node_calls(self->nodes[1], "get_id_runs");

	fake_node_set_manner(self->nodes[1], FAKE_NODE_HANGS);
	pool_batch_request_place(large, 100);
	fake_node_wait_for_calls(self->nodes[1], "get_id_runs", calls + 1);
	other = place(self, 200);
	small = place(self, 5);
	g_assert_cmpint(wait_for_end(self, small), ==, POOL_BATCH_REQUEST_FILLED);
	g_assert_cmpint(check_filled(small, 5) >> 40, ==, 1);
	g_assert_cmpint(pool_batch_request_state(other), ==, POOL_BATCH_REQUEST_PLACED);
	fake_node_set_manner(self->nodes[1], FAKE_NODE_SERVES);
	g_assert_cmpint(wait_for_end(self, other), ==, POOL_BATCH_REQUEST_FILLED);
	g_assert_cmpint(wait_for_end(self, large), ==, POOL_BATCH_REQUEST_FILLED);
}

/* While the first request is pending, the others are added, and a taker finds no prefetched IDs. */
static void test_in_their_order(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	static const guint sizes[] = {1001, 1002, 1003, 1004};
	PoolBatchRequest *placed[G_N_ELEMENTS(sizes)];
	gint64 last = 0, id;
	guint count, n_orders = 0;

	fake_node_set_manner(self->nodes[0], FAKE_NODE_HANGS);
	upstream_fixture_connect(self);
	placed[0] = place(self, sizes[0]);
	fake_node_wait_for_calls(self->nodes[0], "get_id_runs", 1);
	for (guint i = 1; i < G_N_ELEMENTS(sizes); i++)
		placed[i] = place(self, sizes[i]);
	g_assert_false(pool_upstream_take(self->upstream, 1, &id, &count));
	fake_node_set_manner(self->nodes[0], FAKE_NODE_SERVES);
	for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
		g_assert_cmpint(wait_for_end(self, placed[i]), ==, POOL_BATCH_REQUEST_FILLED);

		gint64 first = check_filled(placed[i], sizes[i]);

		g_assert_cmpint(first, >, last);
		last = first;
	}

	/* the buffer had the second turn, or the third if its pass was late */
	g_autoptr(GArray) counts = fake_node_counts(self->nodes[0]);

	g_assert_cmpuint(g_array_index(counts, guint, 0), ==, sizes[0]);
	for (guint i = 1; i < 3 && g_array_index(counts, guint, i) > 1000; i++)
		n_orders++;
	g_assert_cmpuint(n_orders, <, 2);
	upstream_fixture_take(self);
}

/* Two servers that hang get one batch request each. */
static void test_at_once(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	PoolBatchRequest *placed[2];

	upstream_fixture_connect(self);
	for (guint i = 0; i < 2; i++)
		fake_node_wait_for_calls(self->nodes[i], "get_worker", 1);
	upstream_fixture_take(self); /* both servers have answered */
	for (guint i = 0; i < 2; i++)
		fake_node_set_manner(self->nodes[i], FAKE_NODE_HANGS);
	for (guint i = 0; i < 2; i++)
		placed[i] = place(self, 1001 + i);
	for (guint i = 0; i < 2; i++)
		fake_node_wait_for_calls(self->nodes[i], "get_id_runs", 1);
	for (guint i = 0; i < 2; i++)
		fake_node_set_manner(self->nodes[i], FAKE_NODE_SERVES);
	for (guint i = 0; i < 2; i++) {
		g_assert_cmpint(wait_for_end(self, placed[i]), ==, POOL_BATCH_REQUEST_FILLED);
		check_filled(placed[i], 1001 + i);
	}
}

static guint64 prefetched(UpstreamFixture *self)
{
	SnowflakePoolStatistics statistics;

	pool_upstream_get_statistics(self->upstream, &statistics);
	return statistics.prefetched;
}

/* The other server is asked long before the first request expires, so a late answer is not lost. */
static void test_late_answer(UpstreamFixture *self, G_GNUC_UNUSED gconstpointer data)
{
	gint64 limit_us = g_get_monotonic_time() + HANG_GUARD_US;
	PoolBatchRequest *order;

	upstream_fixture_connect(self);

	guint first = upstream_fixture_first(self);

	fake_node_set_manner(self->nodes[first], FAKE_NODE_HANGS);
	order = place(self, 100);
	g_assert_cmpint(wait_for_end(self, order), ==, POOL_BATCH_REQUEST_FILLED);
	fake_node_set_manner(self->nodes[first], FAKE_NODE_SERVES);
	while (prefetched(self) < 100) {
		g_assert_cmpint(g_get_monotonic_time(), <, limit_us);
		poll(NULL, 0, 1);
	}
	g_assert_cmpint(upstream_fixture_take(self) >> 40, ==, first + 1);
}

static const struct {
	const char *path;
	guint n_nodes;
	void (*run)(UpstreamFixture *self, gconstpointer data);
} tests[] = {
	{"/pool-orders/refused-once", 1, test_refused_once},
	{"/pool-orders/one-that-gives-more", 2, test_one_that_gives_more},
	{"/pool-orders/in-their-order", 1, test_in_their_order},
	{"/pool-orders/late-answer", 2, test_late_answer},
	{"/pool-orders/at-once", 2, test_at_once},
};

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].path, UpstreamFixture, GUINT_TO_POINTER(tests[i].n_nodes),
			   upstream_fixture_set_up, tests[i].run, upstream_fixture_tear_down);
	g_test_add_func("/pool-orders/counts", test_orders);
	return g_test_run();
}
