/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/upstream.h"

#include "client/pool/buffer.h"
#include "client/pool/config.h"
#include "client/pool/refill.h"
#include "client/pool/watch.h"
#include "common/fork-guard.h"
#include "core/clock.h"

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
	PoolBatchRequest *request = g_new0(PoolBatchRequest, 1);

	request->upstream = upstream;
	request->link.data = request;
	request->runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	pthread_mutex_lock(&upstream->watch.mutex);
	g_ptr_array_add(upstream->watch.requests, request);
	pthread_mutex_unlock(&upstream->watch.mutex);
	return request;
}

void pool_batch_request_place(PoolBatchRequest *self, guint count)
{
	PoolWatch *watch = &self->upstream->watch;

	pthread_mutex_lock(&watch->mutex);
	self->count = count;
	self->placed_at_us = clock_boottime_ns() / 1000;
	pool_store_relaxed(&self->state, POOL_BATCH_REQUEST_PLACED);
	g_queue_push_tail_link(&watch->placed, &self->link);
	pthread_mutex_unlock(&watch->mutex);
	pool_refill_wake(self->upstream->refill);
}

PoolBatchRequestState pool_batch_request_state(const PoolBatchRequest *self)
{
	return atomic_load_explicit(&self->state, memory_order_acquire);
}

PoolView pool_upstream_get_view(PoolUpstream *self)
{
	PoolView view;

	pthread_mutex_lock(&self->watch.mutex);
	view = self->watch.view;
	view.server = g_strdup(view.server);
	view.failure = g_strdup(view.failure);
	view.excluded_server = g_strdup(view.excluded_server);
	view.excluded_nonce = g_strdup(view.excluded_nonce);
	view.first_sender = g_strdup(view.first_sender);
	view.proof = g_strdup(view.proof);
	pthread_mutex_unlock(&self->watch.mutex);
	return view;
}

gboolean pool_upstream_get_workers(PoolUpstream *self, gint64 max_age_ms, GPtrArray **out_workers,
				   gint64 *out_asked_at_us, gboolean *out_failed)
{
	PoolWatch *watch = &self->watch;
	gint64 since_us = clock_boottime_ns() / 1000 - max_age_ms * G_TIME_SPAN_MILLISECOND;
	gboolean is_known, has_failed;

	pthread_mutex_lock(&watch->mutex);
	is_known = watch->workers != NULL && watch->workers_asked_at_us >= since_us;
	has_failed = watch->workers_failed_at_us != 0 && watch->workers_failed_at_us >= since_us;
	if (is_known) {
		*out_workers = g_ptr_array_ref(watch->workers);
		*out_asked_at_us = watch->workers_asked_at_us;
	} else {
		*out_failed = has_failed;
		watch->workers_wanted |= !has_failed;
	}
	pthread_mutex_unlock(&watch->mutex);
	if (!is_known && !has_failed)
		pool_refill_wake(self->refill);
	return is_known;
}

void pool_upstream_get_statistics(PoolUpstream *self, SnowflakePoolStatistics *out_statistics)
{
	pool_refill_get_statistics(self->refill, out_statistics);
}
