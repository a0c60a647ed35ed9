/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Many pools in one process, as if each were in a separate program: each has its own thread and
 * connections. One thread takes IDs from all of them in turn, so that the cost of the takes is
 * small compared with that of the pools.
 *
 * It takes one ID from each pool, and prints a line. Then it takes at a constant rate. For each
 * line that it reads, it prints a line of JSON: the totals since the start, and the longest take
 * and the longest delay of the takers since the last such line. It ends at the end of its standard
 * input.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/pool/pace.h"
#include "client/snowflake-pool.h"

#define TICK_NS   5000000 /* long, so that the takers of a thousand pools cost little */
#define MAX_POOLS 1000    /* each pool needs a pthread key, of which a process has 1,024 */

typedef struct {
	char **servers;
	int pools;
	double rate; /* IDs a second from each pool */
} Options;

typedef struct {
	GPtrArray *pools;
	double ids_per_tick; /* from each pool */
	_Atomic gboolean stops;
	_Atomic guint64 ids;
	_Atomic guint64 failed;
	/* the longest times since the last line */
	_Atomic gint64 longest_ns;
	_Atomic gint64 late_ns;
} Crowd;

static gboolean parse(int argc, char **argv, Options *options)
{
	const GOptionEntry entries[] = {
		{"pools", 0, 0, G_OPTION_ARG_INT, &options->pools, "Pools (1)", "N"},
		{"rate", 0, 0, G_OPTION_ARG_DOUBLE, &options->rate,
		 "IDs a second from each (0: it only has them)", "N"},
		{G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->servers,
		 "HOST:PORT...", NULL},
		{0},
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;

	g_option_context_set_summary(context, "Takes IDs from many pools.");
	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		fprintf(stderr, "bench-crowd: %s\n", error->message);
		return FALSE;
	}
	if (options->pools < 1 || options->pools > MAX_POOLS) {
		fprintf(stderr, "bench-crowd: --pools is %d, must be 1 to %d\n", options->pools,
			MAX_POOLS);
		return FALSE;
	}
	return TRUE;
}

static void raise_to(_Atomic gint64 *highest, gint64 value)
{
	gint64 seen = atomic_load_explicit(highest, memory_order_relaxed);

	while (seen < value &&
	       !atomic_compare_exchange_weak_explicit(highest, &seen, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* Takes an ID. Returns when the take ended. */
static gint64 take(Crowd *self, SnowflakePool *pool, gint64 begun_ns)
{
	g_autoptr(GError) error = NULL;
	gint64 id, now_ns;

	if (snowflake_pool_take(pool, &id, &error))
		atomic_fetch_add_explicit(&self->ids, 1, memory_order_relaxed);
	else if (atomic_fetch_add_explicit(&self->failed, 1, memory_order_relaxed) == 0)
		fprintf(stderr, "bench-crowd: %s\n", error->message);
	now_ns = pace_now_ns();
	raise_to(&self->longest_ns, now_ns - begun_ns);
	return now_ns;
}

/* Returns how many takes of pool @i are due by the end of @tick. The takes of the pools are spread
 * evenly. */
static guint64 due(const Crowd *self, guint i, guint64 tick)
{
	return (guint64)(self->ids_per_tick * (double)tick + (double)i / self->pools->len);
}

static void *run(void *user_data)
{
	Crowd *self = user_data;
	gint64 begun_ns = pace_now_ns();

	for (guint64 tick = 1; self->ids_per_tick > 0 && !atomic_load(&self->stops); tick++) {
		gint64 due_ns = begun_ns + (gint64)tick * TICK_NS;
		gint64 now_ns;

		pace_sleep_until(due_ns);
		now_ns = pace_now_ns();
		raise_to(&self->late_ns, now_ns - due_ns);
		for (guint i = 0; i < self->pools->len; i++) {
			for (guint64 n = due(self, i, tick - 1); n < due(self, i, tick); n++)
				now_ns = take(self, self->pools->pdata[i], now_ns);
		}
	}
	return NULL;
}

static void print(Crowd *self)
{
	SnowflakePoolStatistics sum = {0};

	for (guint i = 0; i < self->pools->len; i++) {
		SnowflakePoolStatistics one;

		snowflake_pool_get_statistics(self->pools->pdata[i], &one);
		sum.discarded += one.discarded;
		sum.empty_buffer += one.empty_buffer;
		sum.refills += one.refills;
		sum.failovers += one.failovers;
	}
	printf("{\"ids\": %" G_GUINT64_FORMAT ", \"failed\": %" G_GUINT64_FORMAT ", "
	       "\"longest_us\": %.1f, \"late_us\": %.1f, "
	       "\"discarded\": %" G_GUINT64_FORMAT ", \"empty_buffer\": %" G_GUINT64_FORMAT ", "
	       "\"refills\": %" G_GUINT64_FORMAT ", \"failovers\": %" G_GUINT64_FORMAT "}\n",
	       atomic_load(&self->ids), atomic_load(&self->failed),
	       (double)atomic_exchange(&self->longest_ns, 0) / 1000,
	       (double)atomic_exchange(&self->late_ns, 0) / 1000, sum.discarded, sum.empty_buffer,
	       sum.refills, sum.failovers);
	fflush(stdout);
}

static GPtrArray *make_pools(const Options *options, GError **error)
{
	g_autoptr(GPtrArray) pools =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_pool_free);
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("bench-crowd");

	config.servers = (const char *const *)options->servers;
	for (int i = 0; i < options->pools; i++) {
		SnowflakePool *pool = snowflake_pool_new(&config, error);

		if (pool == NULL)
			return NULL;
		g_ptr_array_add(pools, pool);
	}
	return g_steal_pointer(&pools);
}

static gboolean take_first(const GPtrArray *pools, GError **error)
{
	gint64 id;

	for (guint i = 0; i < pools->len; i++) {
		if (!snowflake_pool_take(pools->pdata[i], &id, error))
			return FALSE;
	}
	return TRUE;
}

static gboolean serve(const Options *options, GError **error)
{
	g_autoptr(GPtrArray) pools = make_pools(options, error);
	Crowd crowd = {.pools = pools, .ids_per_tick = options->rate * TICK_NS / PACE_NS_PER_S};
	char line[16];
	pthread_t taker;

	if (pools == NULL || !take_first(pools, error))
		return FALSE;
	puts("ready");
	fflush(stdout);
	g_assert_cmpint(pthread_create(&taker, NULL, run, &crowd), ==, 0);
	while (fgets(line, sizeof line, stdin) != NULL)
		print(&crowd);
	atomic_store(&crowd.stops, TRUE);
	pthread_join(taker, NULL);
	return TRUE;
}

int main(int argc, char **argv)
{
	Options options = {.pools = 1};
	g_autoptr(GError) error = NULL;

	if (!parse(argc, argv, &options))
		return 2;

	gboolean served = serve(&options, &error);

	if (!served)
		fprintf(stderr, "bench-crowd: %s\n", error->message);
	g_strfreev(options.servers);
	return served ? 0 : 1;
}
