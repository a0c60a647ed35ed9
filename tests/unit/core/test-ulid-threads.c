/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Threads draw from one generator in true time. What one of them was given before another one asked
 * is smaller than what the other gets.
 */
#include "core/ulid.h"
#include "core/uuid7.h"
#include "tests/unit/unit-test.h"

#include <pthread.h>
#include <stdatomic.h>

#define N_THREADS 4
#define MAX_BATCH 20

typedef gboolean (*Draw)(gpointer generator, gsize count, Uuid *out_values, GError **error);

typedef struct {
	Draw draw;
	gpointer generator;
	_Atomic(const Uuid *) shown; /* some value that a thread was given last */
	gsize n_values;              /* that each thread draws */
} Crowd;

typedef struct {
	Crowd *crowd;
	Uuid *values;
} Drawer;

/* SNOWFLAKE_TEST_SCALE divides the numbers, where a sanitizer or valgrind makes all of it slow. */
static gsize scaled(gsize number)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");

	return number / (scale != NULL ? (gsize)g_ascii_strtoull(scale, NULL, 10) : 1);
}

static void *drawer_run(void *user_data)
{
	Drawer *self = user_data;
	Crowd *crowd = self->crowd;

	for (gsize n = 0; n < crowd->n_values;) {
		gsize count = MIN(n % MAX_BATCH + 1, crowd->n_values - n);
		const Uuid *before = atomic_load(&crowd->shown);
		g_autoptr(GError) error = NULL;

		g_assert_true(crowd->draw(crowd->generator, count, &self->values[n], &error));
		for (gsize i = 0; i < count; i++) {
			const Uuid *value = &self->values[n + i];

			if (before != NULL)
				g_assert_cmpint(uuid_compare(*before, *value), <, 0);
			before = value;
		}
		atomic_store(&crowd->shown, before);
		n += count;
	}
	return NULL;
}

static int compare_values(const void *a, const void *b)
{
	return uuid_compare(*(const Uuid *)a, *(const Uuid *)b);
}

static void run(Draw draw, gpointer generator)
{
	Crowd crowd = {.draw = draw, .generator = generator, .n_values = scaled(400000)};
	gsize n_values = N_THREADS * crowd.n_values;
	g_autofree Uuid *values = g_new(Uuid, n_values);
	Drawer drawers[N_THREADS];
	pthread_t threads[N_THREADS];

	for (gsize i = 0; i < N_THREADS; i++) {
		drawers[i] = (Drawer){&crowd, &values[i * crowd.n_values]};
		g_assert_cmpint(pthread_create(&threads[i], NULL, drawer_run, &drawers[i]), ==, 0);
	}
	for (gsize i = 0; i < N_THREADS; i++)
		g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
	qsort(values, n_values, sizeof(*values), compare_values);
	for (gsize i = 1; i < n_values; i++)
		g_assert_cmpint(uuid_compare(values[i - 1], values[i]), <, 0);
}

static gboolean draw_ulids(gpointer generator, gsize count, Uuid *out_values, GError **error)
{
	return ulid_generator_draw(generator, count, out_values, error);
}

static gboolean draw_uuids(gpointer generator, gsize count, Uuid *out_values, GError **error)
{
	return uuid7_generator_draw(generator, count, out_values, error);
}

TEST("/ulid-threads/ulid", test_ulid)
{
	SystemClock clock;
	UlidGenerator generator;

	system_clock_init(&clock);
	ulid_generator_init(&generator, &clock.clock);
	run(draw_ulids, &generator);
	ulid_generator_clear(&generator);
}

TEST("/ulid-threads/uuid7", test_uuid7)
{
	SystemClock clock;
	Uuid7Generator generator;

	system_clock_init(&clock);
	uuid7_generator_init(&generator, &clock.clock);
	run(draw_uuids, &generator);
	uuid7_generator_clear(&generator);
}
