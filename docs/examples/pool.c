/* SPDX-License-Identifier: Apache-2.0 */
#include <snowflake-pool.h>

int main(void)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("my-program");
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakePool) pool = NULL;
	gint64 id;

	config.servers = (const char *[]){"127.0.0.1:7609", NULL};
	pool = snowflake_pool_new(&config, &error);
	if (pool == NULL || !snowflake_pool_take(pool, &id, &error)) {
		g_printerr("%s\n", error->message);
		return 1;
	}
	g_print("%" G_GINT64_FORMAT "\n", id);
	return 0;
}
