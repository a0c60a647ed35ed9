/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/ring.h"
#include "tests/unit/unit-test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define N_THREADS 8
#define N_IDS     2000000 /* divided by SNOWFLAKE_TEST_SCALE */

static PoolRing *ring_new(void)
{
	return g_aligned_alloc0(1, sizeof(PoolRing), _Alignof(PoolRing));
}

TEST("/pool-ring/takes-in-order", test_takes_in_order)
{
	PoolRing *ring = ring_new();
	PoolRun run = {0};
	guint64 dropped = 0;

	g_assert_false(pool_ring_take(ring, 1, 0, &run, &dropped));
	g_assert_true(pool_ring_put(ring, &(PoolRun){100, 3, 1}));
	g_assert_true(pool_ring_put(ring, &(PoolRun){200, 2, 2}));
	g_assert_cmpuint(pool_ring_level(ring), ==, 5);
	g_assert_true(pool_ring_take(ring, 2, 0, &run, &dropped));
	g_assert_cmpint(run.first, ==, 100);
	g_assert_cmpuint(run.count, ==, 2);
	g_assert_cmpuint(run.batch, ==, 1);
	g_assert_cmpuint(pool_ring_level(ring), ==, 3);
	/* no more than the run has */
	g_assert_true(pool_ring_take(ring, 9, 0, &run, &dropped));
	g_assert_cmpint(run.first, ==, 102);
	g_assert_cmpuint(run.count, ==, 1);
	g_assert_true(pool_ring_take(ring, 9, 0, &run, &dropped));
	g_assert_cmpint(run.first, ==, 200);
	g_assert_cmpuint(run.count, ==, 2);
	g_assert_cmpuint(run.batch, ==, 2);
	g_assert_false(pool_ring_take(ring, 1, 0, &run, &dropped));
	g_assert_cmpint(run.first, ==, 200);
	g_assert_cmpuint(pool_ring_level(ring), ==, 0);
	g_assert_cmpuint(dropped, ==, 0);
	g_assert_cmpuint(pool_load_relaxed(&ring->put), ==, 5);
	g_aligned_free(ring);
}

TEST("/pool-ring/drops-what-is-old", test_drops_what_is_old)
{
	PoolRing *ring = ring_new();
	PoolRun run = {0};
	guint64 dropped = 0;

	for (guint batch = 1; batch <= 4; batch++)
		g_assert_true(pool_ring_put(ring, &(PoolRun){100 * batch, 10, batch}));
	g_assert_true(pool_ring_take(ring, 4, 0, &run, &dropped));
	g_assert_true(pool_ring_take(ring, 4, 3, &run, &dropped));
	g_assert_cmpint(run.first, ==, 300);
	g_assert_cmpuint(dropped, ==, 16);
	/* dropping alone takes nothing */
	g_assert_false(pool_ring_take(ring, 0, 3, &run, &dropped));
	g_assert_cmpuint(pool_ring_level(ring), ==, 16);
	g_assert_false(pool_ring_take(ring, 0, 5, &run, &dropped));
	g_assert_cmpuint(pool_ring_level(ring), ==, 0);
	g_assert_cmpuint(dropped, ==, 32);
	g_aligned_free(ring);
}

TEST("/pool-ring/full", test_full)
{
	PoolRing *ring = ring_new();
	PoolRun run;
	guint64 dropped = 0;

	for (guint round = 0; round < 3; round++) {
		for (guint i = 0; i < POOL_RING_RUNS; i++)
			g_assert_true(pool_ring_put(ring, &(PoolRun){1 + i, 2, 0}));
		g_assert_false(pool_ring_put(ring, &(PoolRun){1, 1, 0}));
		/* an entry is free once its run is taken to the end */
		g_assert_true(pool_ring_take(ring, 1, 0, &run, &dropped));
		g_assert_false(pool_ring_put(ring, &(PoolRun){1, 1, 0}));
		g_assert_true(pool_ring_take(ring, 1, 0, &run, &dropped));
		g_assert_cmpint(run.first, ==, 2);
		g_assert_cmpuint(pool_ring_level(ring), ==, 2 * (POOL_RING_RUNS - 1));
		for (guint i = 1; i < POOL_RING_RUNS; i++) {
			g_assert_true(pool_ring_take(ring, 2, 0, &run, &dropped));
			g_assert_cmpint(run.first, ==, 1 + i);
		}
	}
	g_aligned_free(ring);
}

TEST("/pool-ring/long-run", test_long_run)
{
	PoolRing *ring = ring_new();
	const guint count = 2 * POOL_RING_MAX_COUNT + 7;
	PoolRun run;
	guint64 dropped = 0;
	gint64 next = 1000;

	g_assert_true(pool_ring_put(ring, &(PoolRun){1000, count, 1}));
	g_assert_cmpuint(pool_ring_level(ring), ==, count);
	while (pool_ring_take(ring, 50000, 0, &run, &dropped)) {
		g_assert_cmpint(run.first, ==, next);
		next += run.count;
		g_assert_cmpuint(pool_ring_level(ring), ==, 1000 + count - next);
	}
	g_assert_cmpint(next, ==, 1000 + count);
	g_aligned_free(ring);
}

typedef struct {
	PoolRing *ring;
	guint n_ids;
	_Atomic guint taken;
	_Atomic guint8 *seen;
} Shared;

static void *take_all(void *user_data)
{
	Shared *shared = user_data;
	gint64 last = -1;
	guint most = 1;

	while (atomic_load(&shared->taken) < shared->n_ids) {
		PoolRun run;
		guint64 dropped = 0;

		if (!pool_ring_take(shared->ring, most, 0, &run, &dropped)) {
			sched_yield();
			continue;
		}
		g_assert_cmpuint(dropped, ==, 0);
		g_assert_cmpint(run.first, >, last);
		g_assert_cmpuint(run.batch, ==, run.first / 1000);
		last = run.first + run.count - 1;
		for (guint i = 0; i < run.count; i++)
			g_assert_cmpuint(atomic_fetch_add(&shared->seen[run.first + i], 1), ==, 0);
		atomic_fetch_add(&shared->taken, run.count);
		most = most % 37 + 1;
	}
	return NULL;
}

/* Short runs, so that entries are overwritten while threads read them. */
static void put_all(Shared *shared)
{
	for (guint next = 0, count; next < shared->n_ids; next += count) {
		count = MIN(1 + next % 7, MIN(1000 - next % 1000, shared->n_ids - next));

		const PoolRun run = {next, count, next / 1000};

		while (!pool_ring_put(shared->ring, &run))
			sched_yield();
		g_assert_cmpuint(pool_ring_level(shared->ring), <=, 7 * POOL_RING_RUNS);
	}
}

/* No ID is taken twice or lost, and each thread takes its IDs in order. */
TEST("/pool-ring/threads", test_threads)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");
	guint n_ids = N_IDS / (guint)(scale != NULL ? atoi(scale) : 1);
	Shared shared = {ring_new(), n_ids, 0, g_malloc0(n_ids)};
	pthread_t threads[N_THREADS];

	for (guint i = 0; i < N_THREADS; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, take_all, &shared), ==, 0);
	put_all(&shared);
	for (guint i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	g_assert_cmpuint(atomic_load(&shared.taken), ==, n_ids);
	g_assert_cmpuint(pool_ring_level(shared.ring), ==, 0);
	g_free((void *)shared.seen);
	g_aligned_free(shared.ring);
}
