/* SPDX-License-Identifier: Apache-2.0 */
#include "node/snowflake-node.h"

#include <string.h>
#include <unistd.h>

#include "tests/unit/node/node-fixture.h"
#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"

#define N_THREADS    4
#define N_IDS        200000
#define WORKER_SHIFT 12
#define WORKER_MASK  31
#define START_MS     2000

/* A layout with one worker ID, and one with 16 IDs per tick of 100 ms. */
static const char ONE_WORKER[] = "layout=epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=10,"
				 "worker_bits=0,sequence_bits=12";
static const char SLOW[] = "layout=epoch_ms=0,tick_ms=100,time_bits=40,datacenter_bits=10,"
			   "worker_bits=9,sequence_bits=4";

static guint worker_of(gint64 id)
{
	return (guint)(id >> WORKER_SHIFT & WORKER_MASK);
}

typedef struct {
	SnowflakeNode *node;
	gint64 *ids;
} Drawer;

static gpointer draw(gpointer data)
{
	Drawer *self = data;

	for (guint i = 0; i < N_IDS; i++) {
		self->ids[i] = next_well(self->node);
		g_assert_cmpint(self->ids[i], >, i > 0 ? self->ids[i - 1] : 0);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	gint64 first = *(const gint64 *)a;
	gint64 second = *(const gint64 *)b;

	return first < second ? -1 : first > second;
}

/* IDs increase in each thread, and none is issued twice. */
TEST("/node/threads", test_threads)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, NULL);
	g_autofree gint64 *ids = g_new(gint64, N_THREADS * N_IDS);
	GThread *threads[N_THREADS];
	Drawer drawers[N_THREADS];

	for (guint i = 0; i < N_THREADS; i++) {
		drawers[i] = (Drawer){node, ids + i * N_IDS};
		threads[i] = g_thread_new("draw", draw, &drawers[i]);
	}
	for (guint i = 0; i < N_THREADS; i++)
		g_thread_join(threads[i]);
	qsort(ids, N_THREADS * N_IDS, sizeof *ids, compare);
	for (guint i = 1; i < N_THREADS * N_IDS; i++)
		g_assert_cmpint(ids[i], >, ids[i - 1]);
}

TEST("/node/runs", test_runs)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, NULL);
	gint64 last = 0;

	for (guint i = 0; i < 2000; i++) {
		g_autoptr(GError) error = NULL;
		guint most = 1 + i % 9000;
		guint count = 0;
		gint64 first;

		snowflake_node_next_run(node, most, &first, &count, &error);
		g_assert_no_error(error);
		g_assert_cmpint(first, >, last);
		g_assert_cmpuint(count, >=, 1);
		g_assert_cmpuint(count, <=, most);
		last = first + count - 1;
		g_assert_cmpint(last >> WORKER_SHIFT, ==, first >> WORKER_SHIFT);
	}

	g_autoptr(GError) error = NULL;
	gint64 first = 1;
	guint count = 2;

	g_assert_false(snowflake_node_next_run(node, 0, &first, &count, &error));
	g_assert_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT);
	g_assert_cmpint(first, ==, 1);
	g_assert_cmpuint(count, ==, 2);
}

/* Returns in a later tick of the default layout. */
static void end_tick_of_now(void)
{
	gint64 now_ms = g_get_real_time() / 1000;

	while (g_get_real_time() / 1000 - now_ms < 2)
		g_thread_yield();
}

/* The nodes of a directory have different worker IDs. A freed worker ID is available at once, but a
 * node that starts in the tick of its last ID takes another one instead of waiting. */
TEST("/node/share", test_share)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) first = node_new_well(directory, NULL);
	g_autoptr(SnowflakeNode) second = node_new_well(directory, "datacenter-id=0");
	g_autoptr(SnowflakeNode) pinned = node_new_well(directory, "worker-id=7");

	g_assert_cmpuint(worker_of(next_well(first)), ==, 0);
	g_assert_cmpuint(worker_of(next_well(second)), ==, 1);
	g_assert_cmpuint(worker_of(next_well(pinned)), ==, 7);
	g_clear_pointer(&first, snowflake_node_free);
	end_tick_of_now();
	first = node_new_well(directory, NULL);
	g_assert_cmpuint(worker_of(next_well(first)), ==, 0);
}

TEST("/node/none-free", test_none_free)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, ONE_WORKER);
	g_autoptr(GError) error = NULL;

	g_assert_cmpuint(worker_of(next_well(node)), ==, 0);
	g_assert_null(node_new(directory, ONE_WORKER, START_MS, &error));
	g_assert_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE);
	g_assert_nonnull(strstr(error->message, "no worker ID within 2000 ms: none of the 1 worker "
						"IDs of datacenter 0 is free in "));
}

TEST("/node/held", test_held)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, "worker-id=3");
	g_autoptr(GError) error = NULL;
	g_autofree char *holder = NULL;

	holder = g_strdup_printf("held by pid %d (test-node@%s", (int)getpid(), g_get_host_name());
	g_assert_cmpuint(worker_of(next_well(node)), ==, 3);
	g_assert_null(node_new(directory, "worker-id=3", START_MS, &error));
	g_assert_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_FAILED);
	g_test_message("%s", error->message);
	g_assert_nonnull(strstr(error->message, holder));
}

/* The slow layout has 16 IDs per 100 ms. */
TEST("/node/sequence-runs-out", test_sequence_runs_out)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *state = g_strconcat("state-directory=", directory, NULL);
	const char *const impatient[] = {state, "max-wait=0", "max-ahead=0", SLOW, NULL};
	const SnowflakeNodeConfig config = {.options = impatient};
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeNode) node = snowflake_node_new(&config, &error);
	gint64 id;

	g_assert_no_error(error);
	while (snowflake_node_next(node, &id, &error))
		g_assert_no_error(error);
	g_assert_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE);
	g_assert_nonnull(strstr(error->message,
				"all IDs for the current time have been issued, retry after "));
}

TEST("/node/waits", test_waits)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, SLOW);

	for (guint i = 0; i < 40; i++)
		next_well(node);
}

static void *draw_for_ever(void *node)
{
	for (;;) {
		next_well(node);
		pthread_testcancel();
	}
	return NULL;
}

/* One waiting thread is cancelled; the others continue. */
TEST("/node/cancelled", test_cancelled)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, SLOW);

	for (guint i = 0; i < 5; i++) {
		pthread_t thread;

		g_assert_cmpint(pthread_create(&thread, NULL, draw_for_ever, node), ==, 0);
		for (guint n = 0; n < 20; n++)
			next_well(node);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	for (guint i = 0; i < 40; i++)
		next_well(node);
}

/* The node extends its reservation. */
TEST("/node/extends", test_extends)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, NULL);
	gint64 end_tick = state_fixture_record_end(directory, "worker-0-0.json");
	gint64 last = next_well(node);

	/* the first reservation has ended, so IDs of later ticks need another one */
	while (last >> 22 <= end_tick) {
		gint64 id = next_well(node);

		g_assert_cmpint(id, >, last);
		last = id;
	}
	g_assert_cmpint(state_fixture_record_end(directory, "worker-0-0.json"), >, end_tick);
}

TEST("/node/bad-config", test_bad_config)
{
	static const struct {
		const char *program;
		const char *option;
		const char *message;
	} CASES[] = {
		{NULL, "listen=127.0.0.1:1", "option \"listen\" has no effect"},
		{NULL, "worker-id=32", "worker ID 32"},
		{NULL, "zookeeper=a:1", "zookeeper: requires datacenter-id"},
		{"", NULL, "invalid program name \"\"; use 1 to 64 letters, digits"},
		{"a b", NULL, "invalid program name \"a b\""},
		{"a@b", NULL, "invalid program name \"a@b\""},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const char *const options[] = {CASES[i].option, NULL};
		const SnowflakeNodeConfig config = {.options = options,
						    .program = CASES[i].program};
		g_autoptr(GError) error = NULL;

		g_assert_null(snowflake_node_new(&config, &error));
		g_assert_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, CASES[i].message));
	}
	g_assert_null(snowflake_node_new(NULL, NULL));
	snowflake_node_free(NULL);
}
