/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes IDs from running servers with a pool in this process. Prints JSON: the number of IDs, the
 * rate, the longest take, and whether an ID was a duplicate.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/pool/takers.h"

#define SEEN_BEFORE_MS 10000
#define SEEN_AFTER_MS  60000

typedef struct {
	char **servers;
	int threads;
	double seconds;
	gint64 ids;
	double rate;
	int burst;
	int forks;
	int prefetch_ms;
	int max_age_ms;
	int timeout_ms;
	gboolean discover;
	gboolean check;
} Options;

static gboolean parse(int argc, char **argv, Options *options)
{
	const GOptionEntry entries[] = {
		{"threads", 0, 0, G_OPTION_ARG_INT, &options->threads, "Threads (1)", "N"},
		{"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &options->seconds,
		 "Run for S seconds, or until SIGINT (1)", "S"},
		{"ids", 0, 0, G_OPTION_ARG_INT64, &options->ids, "No more than so many", "N"},
		{"rate", 0, 0, G_OPTION_ARG_DOUBLE, &options->rate,
		 "IDs a second (as fast as it goes)", "N"},
		{"burst", 0, 0, G_OPTION_ARG_INT, &options->burst,
		 "Ten times a second so many at once, for each thread; with --rate", "N"},
		{"forks", 0, 0, G_OPTION_ARG_INT, &options->forks, "Children a second", "N"},
		{"prefetch-ms", 0, 0, G_OPTION_ARG_INT, &options->prefetch_ms, "Of the pool", "MS"},
		{"max-age-ms", 0, 0, G_OPTION_ARG_INT, &options->max_age_ms, "Of the pool", "MS"},
		{"timeout-ms", 0, 0, G_OPTION_ARG_INT, &options->timeout_ms, "Of the pool", "MS"},
		{"discover", 0, 0, G_OPTION_ARG_NONE, &options->discover, "Of the pool", NULL},
		{"check", 0, 0, G_OPTION_ARG_NONE, &options->check,
		 "See that no ID comes twice; of the default layout", NULL},
		{G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->servers,
		 "HOST:PORT...", NULL},
		{0},
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;

	g_option_context_set_summary(context, "Takes IDs from a pool.");
	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		fprintf(stderr, "bench-pool: %s\n", error->message);
		return FALSE;
	}
	if (options->threads < 1 || options->threads > TAKERS_MAX_THREADS) {
		fprintf(stderr, "bench-pool: --threads is %d, must be 1 to %d\n", options->threads,
			TAKERS_MAX_THREADS);
		return FALSE;
	}
	return TRUE;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a;
	double right = *(const double *)b;

	return (left > right) - (left < right);
}

static double median(GArray *values)
{
	double *sorted = (double *)(void *)values->data;

	if (values->len == 0)
		return 0;
	qsort(sorted, values->len, sizeof(*sorted), compare);
	return sorted[values->len / 2];
}

static void print(const TakersReport *report, SnowflakePool *pool)
{
	SnowflakePoolStatistics statistics;
	g_autofree char *error =
		report->first_error != NULL ? g_strescape(report->first_error, NULL) : NULL;

	snowflake_pool_get_statistics(pool, &statistics);
	printf("{\"ids\": %" G_GUINT64_FORMAT ", \"seconds\": %.6f, \"ids_per_s\": %.0f, "
	       "\"failed\": %" G_GUINT64_FORMAT ", \"first_error\": \"%s\", "
	       "\"twice\": %" G_GUINT64_FORMAT ", \"went_back\": %" G_GUINT64_FORMAT ", "
	       "\"longest_us\": %.1f, \"burst_ns\": %.3f, \"bursts\": %u, "
	       "\"children\": %u, \"bad_children\": %u, ",
	       report->ids, report->seconds, (double)report->ids / report->seconds, report->failed,
	       error != NULL ? error : "", report->twice, report->went_back, report->longest_us,
	       median(report->burst_ns), report->burst_ns->len, report->children,
	       report->bad_children);
	printf("\"prefetched\": %" G_GUINT64_FORMAT ", \"taken\": %" G_GUINT64_FORMAT ", "
	       "\"discarded\": %" G_GUINT64_FORMAT ", \"empty_buffer\": %" G_GUINT64_FORMAT ", "
	       "\"refills\": %" G_GUINT64_FORMAT ", \"failovers\": %" G_GUINT64_FORMAT "}\n",
	       statistics.prefetched, statistics.taken, statistics.discarded,
	       statistics.empty_buffer, statistics.refills, statistics.failovers);
}

static int run(const Options *options)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("bench-pool");
	const TakersPlan plan = {
		.threads = (guint)options->threads,
		.seconds = options->seconds,
		.max_ids = (guint64)options->ids,
		.ids_per_s = options->rate,
		.burst = options->rate > 0 ? (guint)options->burst : 0,
		.forks_per_s = (guint)options->forks,
	};
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakePool) pool = NULL;
	gint64 first_ms = g_get_real_time() / 1000 - SEEN_BEFORE_MS;
	Seen *seen = NULL;
	TakersReport report;

	config.servers = (const char *const *)options->servers;
	config.discover = options->discover;
	config.prefetch_ms = (guint)options->prefetch_ms;
	config.max_age_ms = (guint)options->max_age_ms;
	config.timeout_ms = (guint)options->timeout_ms;
	pool = snowflake_pool_new(&config, &error);
	if (pool == NULL) {
		fprintf(stderr, "bench-pool: %s\n", error->message);
		return 1;
	}
	if (options->check)
		seen = seen_new(first_ms,
				(guint)(options->seconds * 1000) + SEEN_BEFORE_MS + SEEN_AFTER_MS);
	if (options->check && seen == NULL) {
		fprintf(stderr, "bench-pool: no memory to remember IDs in\n");
		return 1;
	}
	takers_run(&plan, pool, seen, &report);
	print(&report, pool);
	takers_report_clear(&report);
	seen_free(seen);
	return 0;
}

int main(int argc, char **argv)
{
	Options options = {
		.threads = 1,
		.seconds = 1,
		.prefetch_ms = SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS,
		.max_age_ms = SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS,
		.timeout_ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS,
	};

	if (!parse(argc, argv, &options))
		return 2;

	int status = run(&options);

	g_strfreev(options.servers);
	return status;
}
