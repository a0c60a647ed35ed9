/* SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of the prefetched amount and its age, with a clock of the test. */
#include "client/pool/refill.h"
#include "tests/unit/unit-test.h"

#define MS       G_TIME_SPAN_MILLISECOND
#define SPAN_US  (50 * MS)
#define IDLE_US  (500 * MS)
#define MAX_AGE  (640 * MS)
#define BATCH_US (10 * MS) /* a 64th of the maximum age */

/* Takes @ids_per_ms for @n_ms, and updates the rate each @step_ms. */
static void take(PoolRate *rate, gint64 *now_us, guint64 *gone, guint ids_per_ms, guint n_ms,
		 guint step_ms)
{
	for (guint i = 0; i < n_ms; i += step_ms) {
		*now_us += step_ms * MS;
		*gone += ids_per_ms * step_ms;
		pool_rate_observe(rate, *now_us, *gone, FALSE);
	}
}

TEST("/pool-rate/steady", test_steady)
{
	static const guint steps_ms[] = {1, 3, 10, 25};

	for (guint i = 0; i < G_N_ELEMENTS(steps_ms); i++) {
		PoolRate rate;
		gint64 now_us = 7;
		guint64 gone = 0;

		pool_rate_init(&rate, IDLE_US, now_us);
		g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), ==, 0);
		take(&rate, &now_us, &gone, 1000, 300, steps_ms[i]);
		g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), >=, 49000);
		g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), <=, 50000);
		g_assert_cmpuint(pool_rate_target(&rate, 2 * SPAN_US), >=, 98000);
		/* the rate rises most of the way in 50 ms */
		take(&rate, &now_us, &gone, 4000, 50, MIN(steps_ms[i], 10));
		g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), >=, 150000);
	}
}

TEST("/pool-rate/idle", test_idle)
{
	PoolRate rate;
	gint64 now_us = 0;
	guint64 gone = 0;

	pool_rate_init(&rate, IDLE_US, now_us);
	take(&rate, &now_us, &gone, 4000, 300, 3);
	/* a short pause keeps more than half of the rate */
	take(&rate, &now_us, &gone, 0, 50, 3);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), >=, 150000);
	take(&rate, &now_us, &gone, 0, 440, 3);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), >, 1000);
	take(&rate, &now_us, &gone, 0, 12, 3);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), ==, 0);
	/* one prefetched ID for a client that takes a few per second */
	now_us += 200 * MS;
	pool_rate_observe(&rate, now_us, ++gone, FALSE);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), ==, 1);
	/* the total of two counters may seem to decrease */
	now_us += 200 * MS;
	pool_rate_observe(&rate, now_us, gone - 1, FALSE);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), <=, 1);
}

TEST("/pool-rate/dry", test_dry)
{
	PoolRate rate;
	guint target = 0;

	pool_rate_init(&rate, IDLE_US, 0);
	pool_rate_observe(&rate, 100, 0, TRUE);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), ==, POOL_RATE_FIRST);
	for (guint i = 1; target < POOL_RATE_MAX_TARGET; i++) {
		pool_rate_observe(&rate, 100, 0, TRUE);
		target = pool_rate_target(&rate, SPAN_US);
		g_assert_cmpuint(target, ==, POOL_RATE_FIRST << i);
	}
	pool_rate_observe(&rate, 100, 0, TRUE);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), ==, POOL_RATE_MAX_TARGET);
	for (guint i = 1; i <= 1000; i++)
		pool_rate_observe(&rate, 100 + 3 * i * MS, 0, FALSE);
	g_assert_cmpuint(pool_rate_target(&rate, SPAN_US), ==, 0);
}

TEST("/pool-ages/in-order", test_ages)
{
	PoolAges ages;

	pool_ages_init(&ages, MAX_AGE);
	g_assert_cmpuint(pool_ages_oldest(&ages, 5), ==, 1);
	g_assert_cmpint(pool_ages_next_us(&ages), ==, POOL_NEVER_US);
	g_assert_cmpuint(pool_ages_batch(&ages, 1000), ==, 1);
	g_assert_cmpuint(pool_ages_batch(&ages, 1000 + BATCH_US - 1), ==, 1);
	g_assert_cmpuint(pool_ages_batch(&ages, 1000 + BATCH_US), ==, 2);
	g_assert_cmpint(pool_ages_next_us(&ages), ==, 1000 + MAX_AGE);
	g_assert_cmpuint(pool_ages_oldest(&ages, 1000 + MAX_AGE - 1), ==, 1);
	g_assert_cmpuint(pool_ages_oldest(&ages, 1000 + MAX_AGE), ==, 2);
	g_assert_cmpint(pool_ages_next_us(&ages), ==, 1000 + BATCH_US + MAX_AGE);
	g_assert_cmpuint(pool_ages_oldest(&ages, 1000 + BATCH_US + MAX_AGE), ==, 3);
	g_assert_cmpint(pool_ages_next_us(&ages), ==, POOL_NEVER_US);
	/* a batch that has ended gets no more */
	g_assert_cmpuint(pool_ages_batch(&ages, 1000 + BATCH_US), ==, 3);
}

/* A late answer also makes the IDs received before it too old. */
TEST("/pool-ages/late-answer", test_late_answer)
{
	PoolAges ages;

	pool_ages_init(&ages, MAX_AGE);
	g_assert_cmpuint(pool_ages_batch(&ages, 100 * MS), ==, 1);
	g_assert_cmpuint(pool_ages_batch(&ages, 50 * MS), ==, 2);
	g_assert_cmpuint(pool_ages_batch(&ages, 120 * MS), ==, 3);
	g_assert_cmpint(pool_ages_next_us(&ages), ==, 50 * MS + MAX_AGE);
	g_assert_cmpuint(pool_ages_oldest(&ages, 50 * MS + MAX_AGE - 1), ==, 1);
	g_assert_cmpuint(pool_ages_oldest(&ages, 50 * MS + MAX_AGE), ==, 3);
}
