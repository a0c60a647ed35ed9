/* SPDX-License-Identifier: Apache-2.0 */

/* The C library's pool, for ../run: all threads take from one. */
#include "client/snowflake-pool.h"
#include "tests/clients/runners/runner.h"

static const char *const lacks[][2] = {
	{"attempts", "a take says what the server has that was tried last"},
	{"agent-of-servers", "a take waits as long as it may, and the pool asks again"},
	{"at-once", "a take waits as long as it may"},
	{"close-in-a-call", "nobody may take from a pool that is freed"},
	{"closed", "a pool that was freed cannot be asked"},
	{"late", "the pool asks, and not the take: what comes is in hand for the next one"},
	{"most-telling", "a take says what the server has that was tried last"},
	{"retry-after", "it asks again by itself"},
	{NULL, NULL},
};

static gpointer open_pool(const RunnerOptions *options, GError **error)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT(options->agent);

	if (options->prefetch_ms == 0) {
		g_set_error_literal(error, runner_unsupported_quark(), 0,
				    "it always has IDs in hand; the client has none");
		return NULL;
	}
	config.servers = (const char *const *)options->servers;
	config.timeout_ms = options->timeout_ms;
	if (options->prefetch_ms > 0)
		config.prefetch_ms = (guint)options->prefetch_ms;
	if (options->max_age_ms >= 0)
		config.max_age_ms = (guint)options->max_age_ms;
	config.tls = (SnowflakeClientTls){options->ca, options->certificate, options->key, FALSE};
	return snowflake_pool_new(&config, error);
}

static void close_pool(gpointer pool)
{
	snowflake_pool_free(pool);
}

static gboolean next(gpointer pool, const char *agent, gint64 *out_id, GError **error)
{
	(void)agent;
	return snowflake_pool_take(pool, out_id, error);
}

/* In runs, as they are in hand. */
static gboolean next_ids(gpointer pool, const char *agent, guint count, gint64 *out_ids,
			 GError **error)
{
	(void)agent;
	for (guint got = 0, run = 0; got < count; got += run) {
		gint64 first;

		if (!snowflake_pool_take_run(pool, count - got, &first, &run, error))
			return FALSE;
		for (guint i = 0; i < run; i++)
			out_ids[got + i] = first + i;
	}
	return TRUE;
}

int main(void)
{
	const RunnerKind kind = {
		.name = "libsnowflake-client " VERSION,
		.lacks = lacks,
		.is_shared = TRUE,
		.open = open_pool,
		.close = close_pool,
		.next = next,
		.next_ids = next_ids,
	};

	return runner_main(&kind);
}
