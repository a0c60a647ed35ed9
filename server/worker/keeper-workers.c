/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/keeper-workers.h"

#include "server/worker/keeper-private.h"

#define LATE_US    (2 * G_USEC_PER_SEC)
/* After a list was late: refuse, so that all who waited for it hear so, then ask again. */
#define REFUSE_US  G_USEC_PER_SEC
#define MIN_AGE_MS 200 /* or whoever is told that a list came might find it too old already */

void keeper_workers_ask(Keeper *self)
{
	gboolean wanted;

	pthread_mutex_lock(&self->mutex);
	wanted = self->list_wanted;
	self->list_wanted = FALSE;
	pthread_mutex_unlock(&self->mutex);
	if (wanted)
		self->registry->ops->list(self->registry);
}

void keeper_workers_take(Keeper *self)
{
	GPtrArray *list = g_steal_pointer(&self->registry->workers);
	gint64 now_us = g_get_monotonic_time();

	pthread_mutex_lock(&self->mutex);
	if (list != NULL) {
		g_clear_pointer(&self->workers, g_ptr_array_unref);
		self->workers = list;
		self->listed_us = now_us;
		self->list_asked_us = 0;
		self->news = TRUE;
	} else if (self->list_asked_us != 0 && !self->list_is_late &&
		   now_us - self->list_asked_us >= LATE_US) {
		self->list_is_late = TRUE;
		self->news = TRUE;
	}
	pthread_mutex_unlock(&self->mutex);
}

static GPtrArray *array_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);
}

/* With the mutex held. */
static GPtrArray *copy_list(const Keeper *self)
{
	GPtrArray *copy = array_new();

	for (guint i = 0; i < self->workers->len; i++) {
		const Worker *worker = self->workers->pdata[i];
		Worker *own = g_new(Worker, 1);

		*own = *worker;
		own->address = g_strdup(worker->address);
		own->nonce = g_strdup(worker->nonce);
		g_ptr_array_add(copy, own);
	}
	return copy;
}

/* With the mutex held. */
static GPtrArray *list_this_one(const Keeper *self)
{
	GPtrArray *list = array_new();
	Worker *worker = g_new(Worker, 1);

	*worker = (Worker){
		.datacenter_id = self->status.datacenter_id,
		.worker_id = self->status.worker_id,
		.address = g_strdup(self->config.address),
		.nonce = g_strdup(self->config.nonce),
		.claimed_at_ms = self->status.claimed_at_ms,
		.reserved_until_ms = self->status.reserved_until_ms,
	};
	g_ptr_array_add(list, worker);
	return list;
}

/* With the mutex held: asks, unless that was done. %FALSE: no list is to be expected. */
static gboolean expect_list(Keeper *self, gint64 now_us, GError **error)
{
	gint64 waited_us = now_us - self->list_asked_us;

	if (self->stopping) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
			    "this server is stopping");
		return FALSE;
	}
	if (self->list_asked_us != 0 && waited_us >= LATE_US && waited_us < LATE_US + REFUSE_US) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
			    "no list of the workers came within %d s",
			    (int)(LATE_US / G_USEC_PER_SEC));
		return FALSE;
	}
	if (self->list_asked_us == 0 || waited_us >= LATE_US) {
		self->list_asked_us = now_us;
		self->list_is_late = FALSE;
		self->list_wanted = TRUE;
		self->poked = TRUE;
		pthread_cond_signal(&self->wake);
	}
	return TRUE;
}

gboolean keeper_workers_get(Keeper *self, gint64 max_age_ms, GPtrArray **out_workers,
			    GError **error)
{
	gint64 max_age_us = MAX(max_age_ms, MIN_AGE_MS) * G_TIME_SPAN_MILLISECOND;
	gint64 now_us = g_get_monotonic_time();
	GPtrArray *list = NULL;

	pthread_mutex_lock(&self->mutex);
	if (self->registry->ops->list == NULL)
		list = list_this_one(self);
	else if (self->workers != NULL && now_us - self->listed_us <= max_age_us)
		list = copy_list(self);
	else
		expect_list(self, now_us, error);
	pthread_mutex_unlock(&self->mutex);
	if (list == NULL)
		return FALSE;
	*out_workers = list;
	return TRUE;
}
