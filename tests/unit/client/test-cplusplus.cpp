// SPDX-License-Identifier: Apache-2.0

// A program in C++ that uses the library as it is installed.

#include <snowflake-client.h>
#include <snowflake-id.h>
#include <snowflake-pool.h>

static void links_and_calls()
{
	const char *const servers[] = {"127.0.0.1:1", nullptr};
	GError *error = nullptr;
	SnowflakeClient *client = snowflake_client_new(servers, &error);
	gint64 id = 4711;

	g_assert_no_error(error);
	g_assert_false(snowflake_client_get_id(client, nullptr, &id, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_assert_cmpint(id, ==, 4711);
	g_clear_error(&error);
	snowflake_client_free(client);
}

static void takes_from_a_pool()
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("not a useragent");
	GError *error = nullptr;

	g_assert_null(snowflake_pool_new(&config, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);
	config.agent = "agent";
	config.timeout_ms = 0;

	g_autoptr(SnowflakePool) pool = snowflake_pool_new(&config, &error);
	gint64 id = 4711;

	g_assert_no_error(error);
	g_assert_false(snowflake_pool_take(pool, &id, &error));
	g_assert_cmpint(id, ==, 4711);
	g_clear_error(&error);
}

static void reads_an_id()
{
	g_autoptr(GError) error = nullptr;
	g_autoptr(SnowflakeLayout) layout = snowflake_layout_new("twitter", &error);
	SnowflakeParts parts;

	g_assert_no_error(error);
	g_assert_true(snowflake_layout_decode(layout, 1724551110456385539, &parts, &error));
	g_assert_cmpint(parts.time_ms, ==, 1700000000000);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, nullptr);
	g_test_add_func("/cplusplus/links-and-calls", links_and_calls);
	g_test_add_func("/cplusplus/takes-from-a-pool", takes_from_a_pool);
	g_test_add_func("/cplusplus/reads-an-id", reads_an_id);
	return g_test_run();
}
