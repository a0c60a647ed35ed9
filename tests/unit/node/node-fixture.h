/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/snowflake-node.h"

/* Nodes in a state directory, as tests want them. */

/* @option: (nullable): one more, "NAME=VALUE". It is the program test-node, and waits for a worker
 * ID for @start_timeout_ms. */
SnowflakeNode *node_new(const char *directory, const char *option, guint start_timeout_ms,
			GError **error);

/* Likewise, within 10 s; the test fails if there is none. */
SnowflakeNode *node_new_well(const char *directory, const char *option);

/* An ID; the test fails if there is none. */
gint64 next_well(SnowflakeNode *node);
