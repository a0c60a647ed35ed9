/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/upstream.h"

#include "client/pool/buffer.h"
#include "client/pool/config.h"
#include "client/pool/refill.h"
#include "client/pool/watch.h"
#include "common/fork-guard.h"

struct _PoolUpstream {
	PoolConfig *config;
	PoolBuffer *buffer;
	PoolWatch watch;
	PoolRefill *refill;
};

PoolUpstream *pool_upstream_new(const SnowflakePoolConfig *config, const char *own_nonce,
				void (*changed)(gpointer user_data), gpointer user_data,
				GError **error)
{
	g_autoptr(PoolUpstream) self = g_new0(PoolUpstream, 1);

	fork_guard_install(NULL);
	pool_watch_init(&self->watch, changed, user_data);
	self->config = pool_config_new(config, error);
	if (self->config == NULL)
		return NULL;
	self->config->own_nonce = g_strdup(own_nonce);
	self->buffer = pool_buffer_new(error);
	if (self->buffer == NULL)
		return NULL;
	self->refill = pool_refill_new(self->config, self->buffer, &self->watch, error);
	return self->refill != NULL ? g_steal_pointer(&self) : NULL;
}

void pool_upstream_free(PoolUpstream *self)
{
	if (self == NULL)
		return;
	pool_refill_free(self->refill);
	pool_watch_clear(&self->watch);
	pool_buffer_free(self->buffer);
	pool_config_free(self->config);
	g_free(self);
}

gboolean pool_upstream_take(PoolUpstream *self, guint most, gint64 *out_first, guint *out_count)
{
	PoolRun run;

	if (!pool_watch_take(&self->watch, self->buffer, most, &run)) {
		pool_refill_wake(self->refill);
		return FALSE;
	}
	*out_first = run.first;
	*out_count = run.count;
	return TRUE;
}

PoolBatchRequest *pool_batch_request_new(PoolUpstream *upstream)
{
	return pool_watch_add_request(&upstream->watch, upstream);
}

void pool_batch_request_place(PoolBatchRequest *self, guint count)
{
	PoolUpstream *upstream = self->upstream;

	pool_watch_place_request(&upstream->watch, self, count);
	pool_refill_wake(upstream->refill);
}

PoolBatchRequestState pool_batch_request_state(const PoolBatchRequest *self)
{
	return atomic_load_explicit(&self->state, memory_order_acquire);
}

const GArray *pool_batch_request_runs(const PoolBatchRequest *self)
{
	return self->runs;
}

gint64 pool_batch_request_filled_at_us(const PoolBatchRequest *self)
{
	return self->filled_at_us;
}

guint pool_batch_request_max_count(const PoolBatchRequest *self)
{
	return self->max_count;
}

void pool_upstream_get_view(PoolUpstream *self, PoolView *out_view)
{
	pool_watch_get_view(&self->watch, out_view);
}

gboolean pool_upstream_get_workers(PoolUpstream *self, gint64 max_age_ms, GPtrArray **out_workers,
				   gint64 *out_asked_at_us, gboolean *out_failed)
{
	if (pool_watch_get_workers(&self->watch, max_age_ms, out_workers, out_asked_at_us,
				   out_failed))
		return TRUE;
	if (!*out_failed)
		pool_refill_wake(self->refill);
	return FALSE;
}

void pool_upstream_get_statistics(PoolUpstream *self, SnowflakePoolStatistics *out_statistics)
{
	pool_refill_get_statistics(self->refill, out_statistics);
}
