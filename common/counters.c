/* SPDX-License-Identifier: Apache-2.0 */
#include "common/counters.h"

#include <pthread.h>
#include <string.h>

struct _CounterSet {
	pthread_mutex_t lock;
	GPtrArray *blocks; /* of Counters; under the lock */
};

static const char *const NAMES[N_NAMED_COUNTERS] = {
	[COUNTER_IDS_GENERATED] = "ids_generated",
	[COUNTER_ULIDS_GENERATED] = "ulids_generated",
	[COUNTER_CALLS] = "calls",
	[COUNTER_EXCEPTIONS] = "exceptions",
	[COUNTER_CLOCK_SKEW] = "clock_skew",
	[COUNTER_WAITS] = "waits",
	[COUNTER_CONNECTIONS_ACCEPTED] = "connections_accepted",
	[COUNTER_CONNECTIONS_REFUSED] = "connections_refused",
	[COUNTER_CONNECTIONS_ENDED] = "connections_ended",
	[COUNTER_CLOSED_BAD_BYTES] = "closed_bad_bytes",
	[COUNTER_CLOSED_FRAME_TIMEOUT] = "closed_frame_timeout",
	[COUNTER_CLOSED_WRITE_TIMEOUT] = "closed_write_timeout",
	[COUNTER_CLOSED_IDLE_TIMEOUT] = "closed_idle_timeout",
	[COUNTER_CLOSED_FOR_ROOM] = "closed_for_room",
	[COUNTER_CLOSED_HANDSHAKE] = "closed_handshake",
	[COUNTER_CLOSED_NOT_ALLOWED] = "closed_not_allowed",
	[COUNTER_HANDSHAKES] = "handshakes",
	[COUNTER_BYTES_RECEIVED] = "bytes_received",
	[COUNTER_BYTES_SENT] = "bytes_sent",
	[COUNTER_REFUSED_CLOCK] = "refused_clock",
	[COUNTER_REFUSED_AGENT] = "refused_agent",
	[COUNTER_REFUSED_WORKER] = "refused_worker",
	[COUNTER_REFUSED_COUNT] = "refused_count",
	[COUNTER_REFUSED_REGISTRY] = "refused_registry",
	[COUNTER_REFUSED_LAYOUT] = "refused_layout",
	[COUNTER_REFUSED_METHOD] = "refused_method",
	[COUNTER_REFUSED_MESSAGE] = "refused_message",
	[COUNTER_BAD_HTTP] = "bad_bytes_http",
	[COUNTER_BAD_TLS] = "bad_bytes_tls",
	[COUNTER_BAD_PROXY] = "bad_bytes_proxy",
	[COUNTER_BAD_THEADER] = "bad_bytes_theader",
	[COUNTER_BAD_JSON] = "bad_bytes_json",
	[COUNTER_BAD_ZLIB] = "bad_bytes_zlib",
	[COUNTER_BAD_THRIFT] = "bad_bytes_thrift",
};

static const char *const METHODS[N_COUNTER_METHODS] = {
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

const char *counter_name(Counter counter)
{
	return NAMES[counter];
}

const char *counter_method_name(CounterMethod method)
{
	return METHODS[method];
}

CounterMethod counter_method_of(const char *name)
{
	CounterMethod method = 0;

	while (method < COUNTER_OTHER_METHOD && strcmp(METHODS[method], name) != 0)
		method++;
	return method;
}
