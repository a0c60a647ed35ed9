/* SPDX-License-Identifier: Apache-2.0 */
#include <snowflake-client.h>

int main(void)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeClient) client =
		snowflake_client_new((const char *[]){"127.0.0.1:7609", NULL}, &error);
	gint64 id;

	if (client == NULL || !snowflake_client_get_id(client, "my-program", &id, &error)) {
		g_printerr("%s\n", error->message);
		return 1;
	}
	g_print("%" G_GINT64_FORMAT "\n", id);
	return 0;
}
