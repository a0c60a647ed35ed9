/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/snowflake-node.h"

/* Creates nodes in a state directory. */

/* @option: (nullable): another option, "NAME=VALUE". The node has the program name test-node, and
 * waits up to @start_timeout_ms for a worker ID. */
SnowflakeNode *node_new(const char *directory, const char *option, guint start_timeout_ms,
			GError **error);

/* Like node_new(), within 10 s; the test fails without a node. */
SnowflakeNode *node_new_well(const char *directory, const char *option);

/* Returns an ID; the test fails without one. */
gint64 next_well(SnowflakeNode *node);
