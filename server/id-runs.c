/* SPDX-License-Identifier: Apache-2.0 */
#include "server/id-runs.h"

#include "sf_snowflake_types.h"

void id_runs_append(const IdRun *run, GPtrArray *out_runs)
{
	for (guint at = 0, count; at < run->count; at += count) {
		count = id_run_in_tick(run, at);
		g_ptr_array_add(out_runs, g_object_new(SF_TYPE_ID_RUN, "first", id_run_get(run, at),
						       "count", (gint)count, NULL));
	}
}
