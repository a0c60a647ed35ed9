/* SPDX-License-Identifier: Apache-2.0 */

/* The C library's pool, for c.py. */
#include "client/snowflake-pool.h"
#include "tests/clients/runners/c.h"

gpointer runner_open(const char *const *servers, const char *agent, int timeout_ms,
		     int attempt_timeout_ms G_GNUC_UNUSED, int prefetch_ms, int max_age_ms,
		     const char *ca, const char *certificate, const char *key, GError **error)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT(agent);

	config.servers = servers;
	if (timeout_ms >= 0)
		config.timeout_ms = (guint)timeout_ms;
	if (prefetch_ms >= 0)
		config.prefetch_ms = (guint)prefetch_ms;
	if (max_age_ms >= 0)
		config.max_age_ms = (guint)max_age_ms;
	config.tls = (SnowflakeClientTls){.ca = ca, .certificate = certificate, .key = key};
	return snowflake_pool_new(&config, error);
}

void runner_close(gpointer pool)
{
	snowflake_pool_free(pool);
}

gboolean runner_next(gpointer pool, const char *agent G_GNUC_UNUSED, gint64 *out_id, GError **error)
{
	return snowflake_pool_take(pool, out_id, error);
}

/* Takes runs, in the form in which the pool stores them. */
gboolean runner_next_ids(gpointer pool, const char *agent G_GNUC_UNUSED, guint count,
			 gint64 *out_ids, GError **error)
{
	for (guint got = 0, run = 0; got < count; got += run) {
		gint64 first;

		if (!snowflake_pool_take_run(pool, count - got, &first, &run, error))
			return FALSE;
		for (guint i = 0; i < run; i++)
			out_ids[got + i] = first + i;
	}
	return TRUE;
}

gint64 runner_retry_after_ms(gpointer pool G_GNUC_UNUSED)
{
	return 0;
}
