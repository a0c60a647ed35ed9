/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/snowflake-client.h"

/* Compares two servers' worker IDs and registries. Relays do not issue IDs, so they are not
 * compared.
 * @worker: a server's report, in which unknown texts can be %NULL
 * @other: the report of another server
 * Returns: %TRUE if @worker issues the same IDs as @other; %FALSE if it does not, as far as is
 * known */
gboolean worker_conflict_exists(const SnowflakeClientWorker *worker,
				const SnowflakeClientWorker *other);

/* Describes a conflict.
 * @other_name: the name of @other for the text
 * Returns: (transfer full) (nullable): that @worker issues the same IDs as @other, with the remedy;
 * %NULL unless worker_conflict_exists() */
char *worker_conflict_describe(const SnowflakeClientWorker *worker,
			       const SnowflakeClientWorker *other, const char *other_name);
