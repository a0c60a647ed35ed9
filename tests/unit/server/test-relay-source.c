/* SPDX-License-Identifier: Apache-2.0 */
#include "server/relay-source.h"

#include "client/snowflake-client.h"
#include "core/layout.h"
#include "tests/unit/unit-test.h"

#define TICK     G_GINT64_CONSTANT(500000000000)
#define SEQUENCE 4096

/* Returns an ID of datacenter 3, worker 7. */
static gint64 id_at(gint64 tick, guint sequence)
{
	return tick << 22 | 3 << 17 | 7 << 12 | (gint64)sequence;
}

static GArray *runs_new(const SnowflakeClientIdRun *runs, guint n)
{
	GArray *array = g_array_new(FALSE, FALSE, sizeof *runs);

	return g_array_append_vals(array, runs, n);
}

static void assert_same(const IdRun *run, const SnowflakeClientIdRun *parts, guint n)
{
	guint at = 0;

	for (guint i = 0; i < n; i++)
		for (guint j = 0; j < parts[i].count; j++)
			g_assert_cmpint(id_run_get(run, at++), ==, parts[i].first + j);
	g_assert_cmpuint(run->count, ==, at);
}

TEST("/relay-source/numbers", test_numbers)
{
	static const SnowflakeClientIdRun CASES[] = {
		{1, 1},
		{1, 10000},
		{G_MAXINT64, 1},
		{G_MAXINT64 - 9999, 10000},
		/* the layout does not matter */
		{G_GINT64_CONSTANT(0x7fffffffffff0fff), 4096},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GArray) runs = runs_new(&CASES[i], 1);
		IdRun run;

		g_assert_true(relay_source_join_runs(&LAYOUT_TWITTER, runs, &run));
		assert_same(&run, &CASES[i], 1);
		g_assert_cmpuint(id_run_ticks(&run), ==, 1);
		g_assert_cmpuint(id_run_in_tick(&run, 0), ==, CASES[i].count);
	}
}

TEST("/relay-source/runs", test_runs)
{
	static const struct {
		const char *what;
		SnowflakeClientIdRun parts[3];
		guint n;
		gboolean is_batch;
	} CASES[] = {
		{"one", {{0, 5}}, 1, TRUE},
		{"over two ticks", {{4090, 6}, {SEQUENCE, 1}}, 2, TRUE},
		{"over three", {{4095, 1}, {SEQUENCE, SEQUENCE}, {2 * SEQUENCE, 3}}, 3, TRUE},
		{"a hole at the end of a tick", {{4090, 5}, {SEQUENCE, 1}}, 2, FALSE},
		{"a hole at the beginning", {{4090, 6}, {SEQUENCE + 1, 1}}, 2, FALSE},
		{"a tick left out", {{4090, 6}, {2 * SEQUENCE, 1}}, 2, FALSE},
		{"a last run that is too long", {{4095, 1}, {SEQUENCE, SEQUENCE + 1}}, 2, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		SnowflakeClientIdRun parts[3];
		g_autoptr(GArray) runs = NULL;
		const IdRun untouched = {.count = 4711};
		IdRun run = untouched;

		for (guint j = 0; j < CASES[i].n; j++) {
			gint64 cursor = CASES[i].parts[j].first;

			parts[j].first = id_at(TICK + cursor / SEQUENCE, cursor % SEQUENCE);
			parts[j].count = CASES[i].parts[j].count;
		}
		runs = runs_new(parts, CASES[i].n);
		g_test_message("%s", CASES[i].what);
		g_assert_cmpint(relay_source_join_runs(&LAYOUT_TWITTER, runs, &run), ==,
				CASES[i].is_batch);
		if (!CASES[i].is_batch) {
			g_assert_cmpuint(run.count, ==, untouched.count);
			continue;
		}
		assert_same(&run, parts, CASES[i].n);
		g_assert_cmpuint(id_run_ticks(&run), ==, CASES[i].n);
	}
}

/* Runs from two workers, or from another layout, are not a batch. */
TEST("/relay-source/strangers", test_strangers)
{
	const SnowflakeClientIdRun of_two[] = {{id_at(TICK, 4095), 1},
					       {id_at(TICK + 1, 0) ^ 1 << 12, 1}};
	const SnowflakeClientIdRun of_one[] = {{id_at(TICK, 4095), 1}, {id_at(TICK + 1, 0), 2}};
	g_autoptr(GArray) two_workers = runs_new(of_two, 2);
	g_autoptr(GArray) one_worker = runs_new(of_one, 2);
	Layout layout;
	IdRun run;

	g_assert_false(relay_source_join_runs(&LAYOUT_TWITTER, two_workers, &run));
	g_assert_true(layout_parse("js-safe", &layout, NULL));
	g_assert_false(relay_source_join_runs(&layout, one_worker, &run));
	/* a single run is a batch */
	g_array_set_size(one_worker, 1);
	g_assert_true(relay_source_join_runs(&layout, one_worker, &run));
	assert_same(&run, of_one, 1);
}
