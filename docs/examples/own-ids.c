/* SPDX-License-Identifier: Apache-2.0 */
#include <snowflake-node.h>

int main(void)
{
	const SnowflakeNodeConfig config = {
		.options = (const char *[]){"datacenter-id=1", NULL},
	};
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeNode) node = snowflake_node_new(&config, &error);
	gint64 id;

	if (node == NULL || !snowflake_node_next(node, &id, &error)) {
		g_printerr("%s\n", error->message);
		return 1;
	}
	g_print("%" G_GINT64_FORMAT "\n", id);
	return 0;
}
