/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "client/pool/config.h"
#include "client/pool/hand.h"
#include "client/pool/refill.h"
#include "common/fork-guard.h"

struct _SnowflakePool {
	PoolHand *hand;
	pthread_key_t key; /* a thread's slot of the hand */
	gboolean has_key;
	PoolConfig *config;
	PoolRefill *refill; /* of this process, once the hand is started; else of a parent. Changed
			     * under the lock of the hand. */
	SnowflakePool *next;
};

/* All that there are, under the lock of common/fork-guard.h. */
static SnowflakePool *pools;

static void enlist(SnowflakePool *self)
{
	fork_guard_lock();
	self->next = pools;
	pools = self;
	fork_guard_unlock();
}

static void delist(SnowflakePool *self)
{
	fork_guard_lock();
	for (SnowflakePool **at = &pools; *at != NULL; at = &(*at)->next) {
		if (*at == self) {
			*at = self->next;
			break;
		}
	}
	fork_guard_unlock();
}

static gboolean has_slot(const SnowflakePool *self, const PoolSlot *slot)
{
	return slot >= self->hand->slots && slot < self->hand->slots + POOL_HAND_MAX_SLOTS;
}

/* A thread ends. Its pool may have gone already, and the slot with it. */
static void leave_slot(void *slot)
{
	fork_guard_lock();
	for (const SnowflakePool *pool = pools; pool != NULL; pool = pool->next) {
		if (has_slot(pool, slot))
			pool_hand_release(pool->hand, slot);
	}
	fork_guard_unlock();
}

static gboolean start(SnowflakePool *self, GError **error)
{
	PoolRefill *refill = pool_refill_new(self->config, self->hand, NULL, error);

	if (refill == NULL)
		return FALSE;
	self->refill = refill;
	atomic_store(&self->hand->is_started, TRUE);
	return TRUE;
}

static gboolean make_key(SnowflakePool *self, GError **error)
{
	int code = pthread_key_create(&self->key, leave_slot);

	self->has_key = code == 0;
	if (code != 0)
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
			    "no key for what threads have in hand: %s", g_strerror(code));
	return self->has_key;
}

static gboolean refuse_argument(GError **error, const char *what)
{
	g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
			    what);
	return FALSE;
}

SnowflakePool *snowflake_pool_new(const SnowflakePoolConfig *config, GError **error)
{
	if (config == NULL) {
		refuse_argument(error, "no config");
		return NULL;
	}
	fork_guard_install(NULL);

	g_autoptr(SnowflakePool) self = g_new0(SnowflakePool, 1);

	self->config = pool_config_new(config, error);
	if (self->config == NULL)
		return NULL;
	self->hand = pool_hand_new(error);
	if (self->hand == NULL || !make_key(self, error) || !start(self, error))
		return NULL;
	enlist(self);
	return g_steal_pointer(&self);
}

void snowflake_pool_free(SnowflakePool *self)
{
	if (self == NULL)
		return;
	delist(self);
	if (self->has_key)
		pthread_key_delete(self->key);
	pool_refill_free(self->refill);
	pool_hand_free(self->hand);
	pool_config_free(self->config);
	g_free(self);
}

/* In the child of a fork the first take begins anew. */
static gboolean see_to_start(SnowflakePool *self, GError **error)
{
	pthread_mutex_t *lock = &self->hand->wait.mutex;
	gboolean is_started;

	if (G_LIKELY(atomic_load(&self->hand->is_started)))
		return TRUE;
	pthread_mutex_lock(lock);
	is_started = atomic_load(&self->hand->is_started);
	if (!is_started) {
		g_clear_pointer(&self->refill, pool_refill_free);
		is_started = start(self, error);
	}
	pthread_mutex_unlock(lock);
	return is_started;
}

/* NULL: there is none for this thread, and it takes from the ring. */
static PoolSlot *own_slot(SnowflakePool *self)
{
	PoolSlot *slot = pthread_getspecific(self->key);

	if (slot != NULL && pool_slot_is_mine(slot))
		return slot;
	slot = pool_hand_claim(self->hand);
	if (slot != NULL && pthread_setspecific(self->key, slot) != 0) {
		pool_hand_release(self->hand, slot);
		return NULL;
	}
	return slot;
}

static gboolean wait_and_take(SnowflakePool *self, PoolSlot *slot, guint most, PoolRun *out_run)
{
	PoolWait *wait = &self->hand->wait;
	gint64 deadline_us =
		g_get_monotonic_time() + self->config->timeout_ms * G_TIME_SPAN_MILLISECOND;
	guint64 round = pool_wait_begin(wait);
	gboolean is_woken = TRUE;
	gboolean taken;

	while (!(taken = pool_hand_take(self->hand, slot, most, out_run)) && is_woken) {
		pool_refill_call(self->refill);
		is_woken = pool_wait_for(wait, &round, deadline_us);
	}
	pool_wait_end(wait);
	return taken;
}

/* A thread that is cancelled while it waits would leave the others waiting. */
static gboolean take_when_dry(SnowflakePool *self, PoolSlot *slot, guint most, PoolRun *out_run,
			      GError **error)
{
	gboolean taken = FALSE;
	int state;

	atomic_fetch_add_explicit(&self->hand->dry, 1, memory_order_relaxed);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (self->config->timeout_ms > 0)
		taken = wait_and_take(self, slot, most, out_run);
	else
		pool_refill_call(self->refill);
	pthread_setcancelstate(state, NULL);
	if (!taken)
		pool_wait_set_error(&self->hand->wait, self->config->timeout_ms, error);
	return taken;
}

static gboolean take_some(SnowflakePool *self, guint most, PoolRun *out_run, GError **error)
{
	if (!see_to_start(self, error))
		return FALSE;

	PoolSlot *slot = own_slot(self);

	return pool_hand_take(self->hand, slot, most, out_run) ||
	       take_when_dry(self, slot, most, out_run, error);
}

static G_GNUC_NO_INLINE gboolean take_otherwise(SnowflakePool *self, gint64 *out_id, GError **error)
{
	PoolRun run;

	if (self == NULL)
		return refuse_argument(error, "no pool");
	if (out_id == NULL)
		return refuse_argument(error, "no place for the ID");
	if (!take_some(self, 1, &run, error))
		return FALSE;
	*out_id = run.first;
	return TRUE;
}

gboolean snowflake_pool_take(SnowflakePool *self, gint64 *out_id, GError **error)
{
	if (G_LIKELY(self != NULL && out_id != NULL)) {
		PoolSlot *slot = pthread_getspecific(self->key);

		if (G_LIKELY(slot != NULL && pool_slot_take(slot, self->hand, out_id)))
			return TRUE;
	}
	return take_otherwise(self, out_id, error);
}

gboolean snowflake_pool_take_run(SnowflakePool *self, guint most, gint64 *out_first,
				 guint *out_count, GError **error)
{
	PoolRun run;

	if (self == NULL)
		return refuse_argument(error, "no pool");
	if (out_first == NULL || out_count == NULL)
		return refuse_argument(error, "no place for the IDs");
	if (most == 0)
		return refuse_argument(error, "a count of 0, the least is 1");
	if (!take_some(self, most, &run, error))
		return FALSE;
	*out_first = run.first;
	*out_count = run.count;
	return TRUE;
}

void snowflake_pool_get_statistics(SnowflakePool *self, SnowflakePoolStatistics *out_statistics)
{
	g_return_if_fail(self != NULL && out_statistics != NULL);
	*out_statistics = (SnowflakePoolStatistics){0};
	if (atomic_load(&self->hand->is_started))
		pool_refill_get_statistics(self->refill, out_statistics);
}
