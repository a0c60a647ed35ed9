/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/watch.h"

#include "client/pool/clock.h"
#include "client/pool/wait.h"

void pool_watch_init(PoolWatch *self, void (*changed)(gpointer user_data), gpointer user_data)
{
	*self = (PoolWatch){
		.changed = changed,
		.user_data = user_data,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.view =
			{
				.since_us = g_get_monotonic_time(),
				.server = g_strdup(""),
				.datacenter_id = -1,
				.worker_id = -1,
				.failure = g_strdup(POOL_WAIT_NO_ANSWER),
			},
	};
	pool_orders_init(&self->orders);
}

void pool_watch_clear(PoolWatch *self)
{
	pool_orders_clear(&self->orders);
	pool_view_clear(&self->view);
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	pthread_mutex_destroy(&self->mutex);
}

void pool_view_clear(PoolView *self)
{
	g_clear_pointer(&self->server, g_free);
	g_clear_pointer(&self->failure, g_free);
	g_clear_pointer(&self->excluded_server, g_free);
	g_clear_pointer(&self->excluded_nonce, g_free);
	g_clear_pointer(&self->first_sender, g_free);
	g_clear_pointer(&self->proof, g_free);
}

gboolean pool_watch_take(PoolWatch *self, PoolHand *hand, guint most, PoolRun *out_run)
{
	if (pool_hand_take(hand, NULL, most, out_run))
		return TRUE;
	atomic_fetch_add_explicit(&hand->dry, 1, memory_order_relaxed);
	atomic_exchange(&self->is_dry, TRUE);
	return pool_hand_take(hand, NULL, most, out_run);
}

gboolean pool_watch_is_dry(const PoolWatch *self)
{
	return atomic_load(&self->is_dry);
}

void pool_watch_wake(PoolWatch *self)
{
	if (atomic_exchange(&self->is_dry, FALSE))
		self->has_news = TRUE;
}

void pool_watch_tell(PoolWatch *self)
{
	gboolean has_news = pool_orders_have_ended(&self->orders) || self->has_news;

	self->has_news = FALSE;
	if (has_news)
		self->changed(self->user_data);
}

/* How the fleet is */

void pool_watch_get_view(PoolWatch *self, PoolView *out_view)
{
	pthread_mutex_lock(&self->mutex);
	*out_view = self->view;
	out_view->server = g_strdup(self->view.server);
	out_view->failure = g_strdup(self->view.failure);
	out_view->excluded_server = g_strdup(self->view.excluded_server);
	out_view->excluded_nonce = g_strdup(self->view.excluded_nonce);
	out_view->first_sender = g_strdup(self->view.first_sender);
	out_view->proof = g_strdup(self->view.proof);
	pthread_mutex_unlock(&self->mutex);
}

/* Returns: whether it is another text. */
static gboolean replace(char **text, const char *by)
{
	if (g_strcmp0(*text, by) == 0)
		return FALSE;
	g_free(*text);
	*text = g_strdup(by);
	return TRUE;
}

static const char *why_nothing_comes(const PoolFleet *fleet)
{
	if (fleet->is_served && pool_peers_have_serving(&fleet->peers))
		return NULL;
	return fleet->failure != NULL ? fleet->failure->message : POOL_WAIT_NO_ANSWER;
}

/* Returns: whether it has said something since it was last looked at. */
static gboolean look_at_first(PoolView *view, const PoolPeer *first)
{
	const SnowflakeClientWorker *worker = first->worker;
	gboolean has_said = view->asked_at_us != first->worker_asked_us;

	view->datacenter_id = worker != NULL ? worker->datacenter_id : -1;
	view->worker_id = worker != NULL ? worker->worker_id : -1;
	view->as_of_ms = worker != NULL ? worker->as_of_ms : 0;
	view->asked_at_us = first->worker_asked_us;
	view->round_trip_us = first->worker_round_trip_us;
	return has_said;
}

static void take_excluded(PoolWatch *self, const PoolFleet *fleet)
{
	PoolView *view = &self->view;

	if (view->n_excluded == fleet->n_excluded)
		return;
	view->n_excluded = fleet->n_excluded;
	replace(&view->excluded_server, fleet->excluded_server);
	replace(&view->excluded_nonce, fleet->excluded_nonce);
	replace(&view->first_sender, fleet->first_sender);
	replace(&view->proof, fleet->proof);
	self->has_news = TRUE;
}

static void look(PoolWatch *self, const PoolFleet *fleet)
{
	PoolView *view = &self->view;

	gboolean is_served = pool_peers_have_serving(&fleet->peers);

	if (view->is_served != is_served) {
		view->is_served = is_served;
		view->since_us = g_get_monotonic_time();
		self->has_news = TRUE;
	}
	replace(&view->failure, why_nothing_comes(fleet));
	self->has_news |= !is_served && self->n_failures != fleet->n_failures;
	self->n_failures = fleet->n_failures;
	take_excluded(self, fleet);
	if (fleet->first == NULL)
		return;
	self->has_news |= replace(&view->server, fleet->first->server->text);
	self->has_news |= look_at_first(view, fleet->first);
}

/* Who is in it */

static SnowflakeClientWorker *copy_worker(const SnowflakeClientWorker *worker)
{
	SnowflakeClientWorker *copy = g_new(SnowflakeClientWorker, 1);

	*copy = *worker;
	copy->address = g_strdup(worker->address);
	copy->nonce = g_strdup(worker->nonce);
	copy->state = g_strdup(worker->state);
	copy->kind = g_strdup(worker->kind);
	copy->program = g_strdup(worker->program);
	copy->server = g_strdup(worker->server);
	return copy;
}

static GPtrArray *copy_workers(const GPtrArray *workers)
{
	GPtrArray *copy =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);

	for (guint i = 0; i < workers->len; i++)
		g_ptr_array_add(copy, copy_worker(workers->pdata[i]));
	return copy;
}

gboolean pool_watch_get_workers(PoolWatch *self, gint64 max_age_ms, GPtrArray **out_workers,
				gint64 *out_asked_us, gboolean *out_failed)
{
	gint64 since_us = pool_clock_us() - max_age_ms * G_TIME_SPAN_MILLISECOND;
	gboolean known;

	pthread_mutex_lock(&self->mutex);
	known = self->workers != NULL && self->workers_asked_us >= since_us;
	if (known) {
		*out_workers = copy_workers(self->workers);
		*out_asked_us = self->workers_asked_us;
	} else {
		*out_failed = self->workers_failed_us != 0 && self->workers_failed_us >= since_us;
		self->workers_wanted |= !*out_failed;
	}
	pthread_mutex_unlock(&self->mutex);
	return known;
}

void pool_watch_put_workers(PoolWatch *self, GPtrArray *workers, gint64 asked_us, gint64 now_us)
{
	pthread_mutex_lock(&self->mutex);
	if (workers != NULL) {
		g_clear_pointer(&self->workers, g_ptr_array_unref);
		self->workers = workers;
		self->workers_asked_us = asked_us;
	} else {
		self->workers_failed_us = now_us;
	}
	self->has_news |= self->workers_wanted;
	self->workers_wanted = FALSE;
	pthread_mutex_unlock(&self->mutex);
}

static void ask_for_workers(PoolWatch *self, PoolFleet *fleet, gint64 now_us)
{
	if (pool_peers_are_listing(&fleet->peers))
		return;
	if (fleet->is_served)
		pool_fleet_list(fleet, now_us);
	else
		pool_watch_put_workers(self, NULL, now_us, now_us);
}

void pool_watch_tend(PoolWatch *self, PoolFleet *fleet, gint64 now_us)
{
	pthread_mutex_lock(&self->mutex);
	look(self, fleet);

	gboolean workers_wanted = self->workers_wanted;

	pthread_mutex_unlock(&self->mutex);
	if (workers_wanted)
		ask_for_workers(self, fleet, now_us);
}
