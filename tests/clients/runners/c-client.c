/* SPDX-License-Identifier: Apache-2.0 */

/* The C library's client, for ../run: a call is a round trip, and each thread has its own. */
#include "client/snowflake-client.h"
#include "tests/clients/runners/runner.h"

static const char *const lacks[][2] = {
	{"agent-at-once", "the server checks the useragent of each call"},
	{"close-in-a-call", "a client is for one thread at a time"},
	{"closed", "a client that was freed cannot be asked"},
	{"known-names", "a name is looked up for each connection; the pool keeps what it found"},
	{"silent-connections", "a connection has the time of the call; the next one is another's"},
	{"most-telling", "the error is that of the server tried last; the message has all"},
	{NULL, NULL},
};

static gpointer open_client(const RunnerOptions *options, GError **error)
{
	const SnowflakeClientTls tls = {options->ca, options->certificate, options->key, FALSE};
	g_autoptr(SnowflakeClient) client = NULL;

	if (options->prefetch_ms != 0) {
		g_set_error_literal(error, runner_unsupported_quark(), 0,
				    "it has nothing in hand; the pool does that");
		return NULL;
	}
	client = snowflake_client_new((const char *const *)options->servers, error);
	if (client == NULL || !snowflake_client_set_tls(client, &tls, error))
		return NULL;
	snowflake_client_set_timeout_ms(client, options->timeout_ms);
	snowflake_client_shuffle_servers(client);
	return g_steal_pointer(&client);
}

static void close_client(gpointer client)
{
	snowflake_client_free(client);
}

static gboolean next(gpointer client, const char *agent, gint64 *out_id, GError **error)
{
	return snowflake_client_get_id(client, agent, out_id, error);
}

static gboolean next_ids(gpointer client, const char *agent, guint count, gint64 *out_ids,
			 GError **error)
{
	return snowflake_client_get_ids(client, agent, count, out_ids, error);
}

static gint64 retry_after_ms(gpointer client)
{
	return snowflake_client_get_retry_after_ms(client);
}

int main(void)
{
	const RunnerKind kind = {
		.name = "libsnowflake-client " VERSION,
		.lacks = lacks,
		.no_fork = "it has nothing in hand",
		.open = open_client,
		.close = close_client,
		.next = next,
		.next_ids = next_ids,
		.retry_after_ms = retry_after_ms,
	};

	return runner_main(&kind);
}
