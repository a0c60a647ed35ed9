/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-workers.h"

#include "worker/keeper-clock.h"
#include "worker/keeper-private.h"

#define LATE_US     (2 * G_USEC_PER_SEC)
/* If there is an old list, it is late when the registry has been silent for as long. */
#define SILENT_US   (300 * G_TIME_SPAN_MILLISECOND)
/* After a list was late: tell all who waited for it so, then ask again. */
#define LATE_FOR_US G_USEC_PER_SEC
#define MIN_AGE_MS  200 /* or whoever is told that a list came might find it too old already */

void keeper_workers_put_off(Keeper *self)
{
	guint n_workers = self->workers != NULL ? self->workers->len : 0;

	self->list_due_us = g_get_monotonic_time() +
			    keeper_plan_list_pause_us(n_workers, self->registry->workers_reads,
						      g_random_double());
}

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

/* The static ones from here on are called with the mutex held. */

static void ask(Keeper *self, gint64 now_us)
{
	self->list_asked_us = now_us;
	self->list_is_late = FALSE;
	self->list_wanted = TRUE;
	self->poked = TRUE;
	pthread_cond_signal(&self->wake);
}

/* When what was asked for is late. */
static gint64 late_at_us(const Keeper *self)
{
	gint64 late_us = self->list_asked_us + LATE_US;

	if (self->workers == NULL)
		return late_us;
	return MIN(late_us, MAX(self->list_asked_us, self->heard_us) + SILENT_US);
}

static void take(Keeper *self, GPtrArray *list, gint64 now_us)
{
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	self->workers = list;
	g_clear_pointer(&self->quarantined, g_ptr_array_unref);
	self->quarantined = g_steal_pointer(&self->registry->quarantined);
	self->workers_ns = self->registry->workers_ns;
	self->workers_reads = self->registry->workers_reads;
	self->listed_us = now_us;
	self->list_asked_us = 0;
	self->news = TRUE;
	keeper_workers_put_off(self);
}

static void look_after_list(Keeper *self, gint64 now_us)
{
	gboolean is_late = self->list_asked_us != 0 && now_us >= late_at_us(self);

	self->news = self->news || (is_late && !self->list_is_late);
	self->list_is_late = is_late;
	if (self->registry->ops->list == NULL || now_us < self->list_due_us)
		return;
	ask(self, now_us);
	keeper_workers_put_off(self);
}

void keeper_workers_take(Keeper *self)
{
	GPtrArray *list = g_steal_pointer(&self->registry->workers);
	gint64 now_us = g_get_monotonic_time();

	pthread_mutex_lock(&self->mutex);
	self->heard_us = self->registry->heard_us;
	self->reachable = self->registry->reachable;
	if (list != NULL)
		take(self, list, now_us);
	/* or all of a fleet would list when it finds its registry again */
	if (!self->reachable)
		keeper_workers_put_off(self);
	look_after_list(self, now_us);
	pthread_mutex_unlock(&self->mutex);
}

static gint64 as_of_ms(const Keeper *self)
{
	/* the offset of now: what was so before a step of the clock has the age that it has */
	return (self->workers_ns + system_clock_offset_ns(self->clock)) / CLOCK_NS_PER_MS;
}

/* With what is reserved at @time_ms. */
static Worker *copy_worker(const Keeper *self, const Worker *worker, gint64 time_ms)
{
	Worker *copy = g_new(Worker, 1);

	*copy = *worker;
	copy->address = g_strdup(worker->address);
	copy->program = g_strdup(worker->program);
	copy->nonce = g_strdup(worker->nonce);
	copy->reserved_until_ms =
		keeper_clock_reserved_until_ms(self, worker->reserved_until_ms, time_ms);
	return copy;
}

static GPtrArray *copy_list(const Keeper *self)
{
	GPtrArray *copy = g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);

	for (guint i = 0; self->workers != NULL && i < self->workers->len; i++)
		g_ptr_array_add(copy, copy_worker(self, self->workers->pdata[i], as_of_ms(self)));
	return copy;
}

/* Those that still are. */
static GPtrArray *copy_quarantined(const Keeper *self)
{
	GPtrArray *copy = g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);
	gint64 now_ms = clock_now_ms(&self->clock->clock);

	for (guint i = 0; i < self->quarantined->len; i++) {
		g_autoptr(Worker) one = copy_worker(self, self->quarantined->pdata[i], now_ms);

		if (one->reserved_until_ms != 0)
			g_ptr_array_add(copy, g_steal_pointer(&one));
	}
	return copy;
}

static void ask_unless_asked(Keeper *self, gint64 now_us)
{
	if (self->list_asked_us == 0 || now_us >= late_at_us(self) + LATE_FOR_US)
		ask(self, now_us);
}

/* Asks, too. Returns: why no list is to be expected in a moment; NULL: one is */
static const char *why_no_list(Keeper *self, gint64 now_us)
{
	if (self->stop_by_us != 0)
		return "this server is stopping";
	ask_unless_asked(self, now_us);
	return now_us >= late_at_us(self) ? "no list of the workers came within 2 s" : NULL;
}

static GPtrArray *get(Keeper *self, gint64 max_age_us, gboolean may_wait, GError **error)
{
	gint64 now_us = g_get_monotonic_time();
	const char *why_not = NULL;

	if (self->registry->ops->list == NULL ||
	    (self->workers != NULL && now_us - self->listed_us <= max_age_us))
		return copy_list(self);
	why_not = why_no_list(self, now_us);
	if (self->workers != NULL && (why_not != NULL || !may_wait))
		return copy_list(self);
	if (why_not != NULL)
		g_set_error_literal(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, why_not);
	return NULL;
}

gboolean keeper_get_workers(Keeper *self, gint64 max_age_ms, gboolean may_wait,
			    GPtrArray **out_workers, gint64 *out_as_of_ms, GError **error)
{
	gint64 max_age_us = MAX(max_age_ms, MIN_AGE_MS) * G_TIME_SPAN_MILLISECOND;
	GPtrArray *list;

	pthread_mutex_lock(&self->mutex);
	list = get(self, max_age_us, may_wait, error);
	if (list != NULL) {
		*out_workers = list;
		*out_as_of_ms = as_of_ms(self);
	}
	pthread_mutex_unlock(&self->mutex);
	return list != NULL;
}

static gboolean is_old(const Keeper *self, gint64 now_us)
{
	return self->workers == NULL ||
	       now_us - self->listed_us >=
		       keeper_plan_list_age_us(self->workers->len, self->workers_reads);
}

gboolean keeper_get_quarantined(Keeper *self, GPtrArray **out_records, gint64 *out_as_of_ms)
{
	gint64 now_us = g_get_monotonic_time();
	gboolean known;

	if (self->registry->ops->list == NULL)
		return FALSE;
	pthread_mutex_lock(&self->mutex);
	/* what is asked for while it is out of reach is asked of it as soon as it is back: by all
	 * that are watched, at once */
	if (is_old(self, now_us) && self->reachable && self->stop_by_us == 0)
		ask_unless_asked(self, now_us);
	known = self->quarantined != NULL;
	if (known) {
		*out_records = copy_quarantined(self);
		*out_as_of_ms = as_of_ms(self);
	}
	pthread_mutex_unlock(&self->mutex);
	return known;
}
