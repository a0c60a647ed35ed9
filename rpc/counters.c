/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/counters.h"

#include <pthread.h>
#include <string.h>

struct _CounterSet {
	pthread_mutex_t lock;
	GPtrArray *blocks; /* (element-type Counters): protected by the lock */
};

const char *const COUNTER_METHOD_NAMES[N_COUNTER_METHODS] = {
	[COUNTER_GET_WORKER_ID] = "get_worker_id",
	[COUNTER_GET_TIMESTAMP] = "get_timestamp",
	[COUNTER_GET_ID] = "get_id",
	[COUNTER_GET_DATACENTER_ID] = "get_datacenter_id",
	[COUNTER_GET_IDS] = "get_ids",
	[COUNTER_GET_WORKER] = "get_worker",
	[COUNTER_GET_WORKERS] = "get_workers",
	[COUNTER_GET_COUNTERS] = "get_counters",
	[COUNTER_GET_ULIDS] = "get_ulids",
	[COUNTER_GET_UUIDS] = "get_uuids",
	[COUNTER_GET_ID_RUNS] = "get_id_runs",
	[COUNTER_OTHER_METHOD] = "other",
};

CounterSet *counter_set_new(void)
{
	CounterSet *self = g_new0(CounterSet, 1);

	pthread_mutex_init(&self->lock, NULL);
	self->blocks = g_ptr_array_new_with_free_func(g_aligned_free);
	return self;
}

void counter_set_free(CounterSet *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->blocks);
	pthread_mutex_destroy(&self->lock);
	g_free(self);
}

Counters *counter_set_add(CounterSet *self)
{
	Counters *block = g_aligned_alloc0(1, sizeof *block, _Alignof(Counters));

	pthread_mutex_lock(&self->lock);
	g_ptr_array_add(self->blocks, block);
	pthread_mutex_unlock(&self->lock);
	return block;
}

guint64 counter_set_sum(CounterSet *self, Counter counter)
{
	guint64 sum = 0;

	pthread_mutex_lock(&self->lock);
	for (guint i = 0; i < self->blocks->len; i++)
		sum += counters_get(self->blocks->pdata[i], counter);
	pthread_mutex_unlock(&self->lock);
	return sum;
}

CounterMethod counter_method_of(const char *name)
{
	CounterMethod method = 0;

	while (method < COUNTER_OTHER_METHOD && strcmp(COUNTER_METHOD_NAMES[method], name) != 0)
		method++;
	return method;
}
