/* SPDX-License-Identifier: Apache-2.0 */
#include "client/worker-conflict.h"

#include "common/worker-kind.h"

static gboolean is_known(const SnowflakeClientWorker *worker)
{
	return worker->worker_id >= 0 && worker->registry_id != NULL &&
	       *worker->registry_id != '\0' && g_strcmp0(worker->kind, WORKER_KIND_RELAY) != 0;
}

gboolean worker_conflict_exists(const SnowflakeClientWorker *worker,
				const SnowflakeClientWorker *other)
{
	return worker->worker_id == other->worker_id &&
	       worker->datacenter_id == other->datacenter_id && is_known(worker) &&
	       is_known(other) && !g_str_equal(worker->registry_id, other->registry_id);
}

char *worker_conflict_describe(const SnowflakeClientWorker *worker,
			       const SnowflakeClientWorker *other, const char *other_name)
{
	if (!worker_conflict_exists(worker, other))
		return NULL;
	return g_strdup_printf("issues the same IDs as %s: both are worker %d of datacenter %d, "
			       "but of different registries (%s and %s); use one registry for "
			       "both, or different worker IDs or datacenter IDs",
			       other_name, worker->worker_id, worker->datacenter_id,
			       worker->registry_id, other->registry_id);
}
