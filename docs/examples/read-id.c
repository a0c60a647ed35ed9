/* SPDX-License-Identifier: Apache-2.0 */
#include <snowflake-id.h>

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeLayout) layout = snowflake_layout_new("twitter", &error);
	SnowflakeParts parts;
	gint64 id;

	if (layout == NULL ||
	    !snowflake_id_parse(SNOWFLAKE_ID_DECIMAL, argc == 2 ? argv[1] : "", &id, &error) ||
	    !snowflake_layout_decode(layout, id, &parts, &error)) {
		g_printerr("%s\n", error->message);
		return 1;
	}
	g_print("worker %u, %" G_GINT64_FORMAT " ms\n", parts.worker_id, parts.time_ms);
	return 0;
}
