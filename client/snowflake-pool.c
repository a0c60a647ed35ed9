/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "client/call.h"
#include "client/pool/buffer.h"
#include "client/pool/config.h"
#include "client/pool/refill.h"
#include "common/fork-guard.h"

struct _SnowflakePool {
	PoolBuffer *buffer;
	pthread_key_t key; /* the calling thread's slot of the buffer */
	gboolean has_key;
	PoolConfig *config;
	PoolRefill *refill; /* of this process once the buffer is started, otherwise of a parent.
			     * Changed under the buffer's mutex. */
	SnowflakePool *next;
};

static SnowflakePool *pools; /* all pools of the process, under fork_guard_lock() */

/* Called when a thread ends. Its pool, and with it the slot, may be gone already. */
static void leave_slot(void *data)
{
	PoolSlot *slot = data;

	fork_guard_lock();
	for (const SnowflakePool *pool = pools; pool != NULL; pool = pool->next) {
		if (slot >= pool->buffer->slots &&
		    slot < pool->buffer->slots + POOL_BUFFER_MAX_SLOTS)
			pool_buffer_release_slot(pool->buffer, slot);
	}
	fork_guard_unlock();
}

static gboolean start_refill(SnowflakePool *self, GError **error)
{
	PoolRefill *refill = pool_refill_new(self->config, self->buffer, NULL, error);

	if (refill == NULL)
		return FALSE;
	self->refill = refill;
	atomic_store(&self->buffer->is_started, TRUE);
	return TRUE;
}

SnowflakePool *snowflake_pool_new(const SnowflakePoolConfig *config, GError **error)
{
	g_autoptr(SnowflakePool) self = NULL;
	int code;

	if (config == NULL) {
		client_call_refuse_argument(error, "no config");
		return NULL;
	}
	fork_guard_install(NULL);
	self = g_new0(SnowflakePool, 1);
	self->config = pool_config_new(config, error);
	if (self->config == NULL)
		return NULL;
	self->buffer = pool_buffer_new(error);
	if (self->buffer == NULL)
		return NULL;
	code = pthread_key_create(&self->key, leave_slot);
	self->has_key = code == 0;
	if (code != 0) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
			    "cannot create a thread-specific key: %s", g_strerror(code));
		return NULL;
	}
	if (!start_refill(self, error))
		return NULL;
	fork_guard_lock();
	self->next = pools;
	pools = self;
	fork_guard_unlock();
	return g_steal_pointer(&self);
}

void snowflake_pool_free(SnowflakePool *self)
{
	if (self == NULL)
		return;
	fork_guard_lock();
	for (SnowflakePool **at = &pools; *at != NULL; at = &(*at)->next) {
		if (*at == self) {
			*at = self->next;
			break;
		}
	}
	fork_guard_unlock();
	if (self->has_key)
		pthread_key_delete(self->key);
	pool_refill_free(self->refill);
	pool_buffer_free(self->buffer);
	pool_config_free(self->config);
	g_free(self);
}

/* In a forked child, the first take starts a new thread. */
static gboolean ensure_started(SnowflakePool *self, GError **error)
{
	pthread_mutex_t *lock = &self->buffer->wait.mutex;
	gboolean is_started;

	if (G_LIKELY(atomic_load(&self->buffer->is_started)))
		return TRUE;
	pthread_mutex_lock(lock);
	is_started = atomic_load(&self->buffer->is_started);
	if (!is_started && self->refill != NULL && pool_refill_has_descriptors(self->refill)) {
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
				    "the process was not created by fork(), so its pool has no "
				    "thread; use fork(), or create the pool in the child");
	} else if (!is_started) {
		g_clear_pointer(&self->refill, pool_refill_free);
		is_started = start_refill(self, error);
	}
	pthread_mutex_unlock(lock);
	return is_started;
}

/* Cancellation is disabled, because a thread that is cancelled during the wait would leave a mutex
 * locked, and other threads would wait for it. */
static gboolean wait_and_take(SnowflakePool *self, PoolSlot *slot, guint most, PoolRun *out_run,
			      GError **error)
{
	PoolWait *wait = &self->buffer->wait;
	gint64 timeout_us = self->config->timeout_ms * G_TIME_SPAN_MILLISECOND;
	gint64 deadline_us = g_get_monotonic_time() + timeout_us;
	gboolean taken = FALSE, is_woken = TRUE;
	guint64 round;
	int state;

	atomic_fetch_add_explicit(&self->buffer->empty_buffer, 1, memory_order_relaxed);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (timeout_us > 0) {
		round = pool_wait_begin(wait);
		while (!(taken = pool_buffer_take(self->buffer, slot, most, out_run)) && is_woken) {
			pool_refill_wake(self->refill);
			is_woken = pool_wait_for(wait, &round, deadline_us);
		}
		pool_wait_end(wait);
	} else {
		pool_refill_wake(self->refill);
	}
	pthread_setcancelstate(state, NULL);
	if (!taken)
		pool_wait_set_error(wait, self->config->timeout_ms, error);
	return taken;
}

static gboolean take_run(SnowflakePool *self, guint most, PoolRun *out_run, GError **error)
{
	PoolSlot *slot;

	if (!ensure_started(self, error))
		return FALSE;
	slot = pthread_getspecific(self->key);
	if (slot == NULL || !pool_slot_is_mine(slot)) {
		slot = pool_buffer_claim_slot(self->buffer);
		if (slot != NULL && pthread_setspecific(self->key, slot) != 0) {
			pool_buffer_release_slot(self->buffer, slot);
			slot = NULL; /* the thread takes from the ring instead */
		}
	}
	return pool_buffer_take(self->buffer, slot, most, out_run) ||
	       wait_and_take(self, slot, most, out_run, error);
}

/* A separate function, to keep the fast path short. */
static G_GNUC_NO_INLINE gboolean take_slowly(SnowflakePool *self, gint64 *out_id, GError **error)
{
	PoolRun run;

	if (self == NULL)
		return client_call_refuse_argument(error, "no pool");
	if (out_id == NULL)
		return client_call_refuse_argument(error, "the pointer for the ID is NULL");
	if (!take_run(self, 1, &run, error))
		return FALSE;
	*out_id = run.first;
	return TRUE;
}

gboolean snowflake_pool_take(SnowflakePool *self, gint64 *out_id, GError **error)
{
	if (G_LIKELY(self != NULL && out_id != NULL)) {
		PoolSlot *slot = pthread_getspecific(self->key);

		if (G_LIKELY(slot != NULL && pool_slot_take(slot, self->buffer, out_id)))
			return TRUE;
	}
	return take_slowly(self, out_id, error);
}

gboolean snowflake_pool_take_run(SnowflakePool *self, guint most, gint64 *out_first,
				 guint *out_count, GError **error)
{
	PoolRun run;

	if (self == NULL)
		return client_call_refuse_argument(error, "no pool");
	if (out_first == NULL || out_count == NULL)
		return client_call_refuse_argument(error, "the pointer for the IDs is NULL");
	if (most == 0)
		return client_call_refuse_argument(error, "the count is 0; it must be at least 1");
	if (!take_run(self, most, &run, error))
		return FALSE;
	*out_first = run.first;
	*out_count = run.count;
	return TRUE;
}

void snowflake_pool_get_statistics(SnowflakePool *self, SnowflakePoolStatistics *out_statistics)
{
	g_return_if_fail(self != NULL && out_statistics != NULL);
	*out_statistics = (SnowflakePoolStatistics){0};
	if (atomic_load(&self->buffer->is_started))
		pool_refill_get_statistics(self->refill, out_statistics);
}
