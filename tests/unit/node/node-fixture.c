/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node/node-fixture.h"

SnowflakeNode *node_new(const char *directory, const char *option, guint start_timeout_ms,
			GError **error)
{
	g_autofree char *state = g_strconcat("state-directory=", directory, NULL);
	const char *const options[] = {state, option, NULL};
	const SnowflakeNodeConfig config = {
		.options = options,
		.program = "test-node",
		.start_timeout_ms = start_timeout_ms,
	};

	return snowflake_node_new(&config, error);
}

SnowflakeNode *node_new_well(const char *directory, const char *option)
{
	g_autoptr(GError) error = NULL;
	SnowflakeNode *node = node_new(directory, option, 10000, &error);

	g_assert_no_error(error);
	return node;
}

gint64 next_well(SnowflakeNode *node)
{
	g_autoptr(GError) error = NULL;
	gint64 id = 0;

	snowflake_node_next(node, &id, &error);
	g_assert_no_error(error);
	return id;
}
