/* SPDX-License-Identifier: Apache-2.0 */

/* The C library's client, for c.py. */
#include "tests/clients/runners/c.h"

gpointer runner_open(const char *const *servers, const char *agent G_GNUC_UNUSED, int timeout_ms,
		     int attempt_timeout_ms, int prefetch_ms G_GNUC_UNUSED,
		     int max_age_ms G_GNUC_UNUSED, const char *ca, const char *certificate,
		     const char *key, GError **error)
{
	const SnowflakeClientTls tls = {.ca = ca, .certificate = certificate, .key = key};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, error);

	if (client == NULL || !snowflake_client_set_tls(client, &tls, error))
		return NULL;
	if (timeout_ms >= 0)
		snowflake_client_set_timeout_ms(client, (guint)timeout_ms);
	if (attempt_timeout_ms >= 0)
		snowflake_client_set_attempt_timeout_ms(client, (guint)attempt_timeout_ms);
	snowflake_client_shuffle_servers(client);
	return g_steal_pointer(&client);
}

void runner_close(gpointer client)
{
	snowflake_client_free(client);
}

gboolean runner_next(gpointer client, const char *agent, gint64 *out_id, GError **error)
{
	return snowflake_client_get_id(client, agent, out_id, error);
}

gboolean runner_next_ids(gpointer client, const char *agent, guint count, gint64 *out_ids,
			 GError **error)
{
	return snowflake_client_get_ids(client, agent, count, out_ids, error);
}

gint64 runner_retry_after_ms(gpointer client)
{
	return snowflake_client_get_retry_after_ms(client);
}
