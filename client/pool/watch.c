/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/watch.h"

#include "client/pool/clock.h"

static void batch_request_free(PoolBatchRequest *request)
{
	g_array_unref(request->runs);
	g_free(request);
}

void pool_watch_init(PoolWatch *self, void (*changed)(gpointer user_data), gpointer user_data)
{
	*self = (PoolWatch){
		.changed = changed,
		.user_data = user_data,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.requests = g_ptr_array_new_with_free_func((GDestroyNotify)batch_request_free),
		.placed = G_QUEUE_INIT,
		.view =
			{
				.since_us = g_get_monotonic_time(),
				.server = g_strdup(""),
				.datacenter_id = -1,
				.worker_id = -1,
				.failure = g_strdup(POOL_WAIT_NO_ANSWER),
			},
	};
}

void pool_watch_clear(PoolWatch *self)
{
	g_ptr_array_unref(self->requests);
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

void pool_watch_notify(PoolWatch *self)
{
	gboolean is_changed = self->is_changed;

	self->is_changed = FALSE;
	if (is_changed)
		self->changed(self->user_data);
}

/* Takes that found nothing */

gboolean pool_watch_take(PoolWatch *self, PoolBuffer *buffer, guint most, PoolRun *out_run)
{
	if (pool_buffer_take(buffer, NULL, most, out_run))
		return TRUE;
	atomic_fetch_add_explicit(&buffer->dry, 1, memory_order_relaxed);
	atomic_exchange(&self->is_dry, TRUE);
	return pool_buffer_take(buffer, NULL, most, out_run);
}

gboolean pool_watch_is_dry(const PoolWatch *self)
{
	return atomic_load(&self->is_dry);
}

void pool_watch_note_refill(PoolWatch *self)
{
	if (atomic_exchange(&self->is_dry, FALSE))
		self->is_changed = TRUE;
}

/* Batch requests */

PoolBatchRequest *pool_watch_add_request(PoolWatch *self, PoolUpstream *upstream)
{
	PoolBatchRequest *request = g_new0(PoolBatchRequest, 1);

	request->upstream = upstream;
	request->link.data = request;
	request->runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	pthread_mutex_lock(&self->mutex);
	g_ptr_array_add(self->requests, request);
	pthread_mutex_unlock(&self->mutex);
	return request;
}

void pool_watch_place_request(PoolWatch *self, PoolBatchRequest *request, guint count)
{
	pthread_mutex_lock(&self->mutex);
	request->count = count;
	request->placed_at_us = pool_clock_us();
	atomic_store_explicit(&request->state, POOL_BATCH_REQUEST_PLACED, memory_order_relaxed);
	g_queue_push_tail_link(&self->placed, &request->link);
	pthread_mutex_unlock(&self->mutex);
}

gint64 pool_watch_oldest_request_us(PoolWatch *self)
{
	const PoolBatchRequest *oldest;
	gint64 placed_at_us;

	pthread_mutex_lock(&self->mutex);
	oldest = g_queue_peek_head(&self->placed);
	placed_at_us = oldest != NULL ? oldest->placed_at_us : POOL_NEVER_US;
	pthread_mutex_unlock(&self->mutex);
	return placed_at_us;
}

/* Under the mutex. Hands the request back to the thread that placed it. */
static void end_request(PoolWatch *self, PoolBatchRequest *request, PoolBatchRequestState state)
{
	g_queue_unlink(&self->placed, &request->link);
	self->is_changed = TRUE;
	atomic_store_explicit(&request->state, state, memory_order_release);
}

/* Under the mutex. Returns: whether it has begun a draw */
static gboolean serve_request(PoolWatch *self, PoolBatchRequest *request, PoolFleet *fleet,
			      const char *agent, gint64 now_us)
{
	PoolServer *server;
	guint refused_count;

	if (pool_fleet_is_drawing_for(fleet, request, now_us))
		return FALSE;
	server = pool_fleet_choose_for_batch(fleet, request->count, now_us);
	if (server != NULL) {
		pool_server_draw(server, agent, request->count, request, now_us);
		return TRUE;
	}
	refused_count = pool_fleet_refused_count(fleet, now_us);
	if (refused_count > 0 && request->count >= refused_count) {
		request->max_count = refused_count - 1;
		end_request(self, request, POOL_BATCH_REQUEST_REFUSED);
	}
	return FALSE;
}

gboolean pool_watch_serve_requests(PoolWatch *self, PoolFleet *fleet, const char *agent,
				   gint64 now_us)
{
	gboolean has_drawn = FALSE;
	GList *next;

	pthread_mutex_lock(&self->mutex);
	for (GList *each = self->placed.head; each != NULL; each = next) {
		next = each->next;
		has_drawn |= serve_request(self, each->data, fleet, agent, now_us);
	}
	pthread_mutex_unlock(&self->mutex);
	return has_drawn;
}

gboolean pool_watch_fill_request(PoolWatch *self, PoolFleet *fleet, const PoolServer *server,
				 const PoolEventData *data)
{
	PoolBatchRequest *request = server->batch_request;

	if (request == NULL)
		return FALSE;
	/* other servers can draw for it too, as the first seemed to hang */
	pool_fleet_forget_request(fleet, request);
	g_array_set_size(request->runs, 0);
	g_array_append_vals(request->runs, data->runs->data, data->runs->len);
	request->filled_at_us = pool_clock_us();
	pthread_mutex_lock(&self->mutex);
	end_request(self, request, POOL_BATCH_REQUEST_FILLED);
	pthread_mutex_unlock(&self->mutex);
	return TRUE;
}

/* The state of the fleet */

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

/* Returns: whether it is another text */
static gboolean replace_text(char **text, const char *by)
{
	if (g_strcmp0(*text, by) == 0)
		return FALSE;
	g_free(*text);
	*text = g_strdup(by);
	return TRUE;
}

/* Under the mutex. */
static void update_view(PoolWatch *self, const PoolFleet *fleet)
{
	PoolView *view = &self->view;
	gboolean is_served = pool_fleet_has_serving(fleet);
	const PoolServer *first = fleet->first;
	const SnowflakeClientWorker *worker = first != NULL ? first->worker : NULL;
	const char *failure =
		fleet->failure != NULL ? fleet->failure->message : POOL_WAIT_NO_ANSWER;

	if (view->is_served != is_served) {
		view->is_served = is_served;
		view->since_us = g_get_monotonic_time();
		self->is_changed = TRUE;
	}
	replace_text(&view->failure, fleet->is_served && is_served ? NULL : failure);
	self->is_changed |= !is_served && self->n_failures != fleet->n_failures;
	self->n_failures = fleet->n_failures;
	if (view->n_excluded != fleet->n_excluded) {
		view->n_excluded = fleet->n_excluded;
		replace_text(&view->excluded_server, fleet->excluded_server);
		replace_text(&view->excluded_nonce, fleet->excluded_nonce);
		replace_text(&view->first_sender, fleet->first_sender);
		replace_text(&view->proof, fleet->proof);
		self->is_changed = TRUE;
	}
	if (first == NULL)
		return;
	self->is_changed |= replace_text(&view->server, first->endpoint->text);
	self->is_changed |= view->asked_at_us != first->worker_asked_at_us;
	view->datacenter_id = worker != NULL ? worker->datacenter_id : -1;
	view->worker_id = worker != NULL ? worker->worker_id : -1;
	view->as_of_ms = worker != NULL ? worker->as_of_ms : 0;
	view->asked_at_us = first->worker_asked_at_us;
	view->round_trip_us = first->worker_round_trip_us;
}

/* The list of servers */

static GPtrArray *copy_workers(const GPtrArray *workers)
{
	GPtrArray *copies =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);

	for (guint i = 0; i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];
		SnowflakeClientWorker *copy = g_memdup2(worker, sizeof(*worker));

		copy->address = g_strdup(worker->address);
		copy->nonce = g_strdup(worker->nonce);
		copy->state = g_strdup(worker->state);
		copy->kind = g_strdup(worker->kind);
		copy->program = g_strdup(worker->program);
		copy->server = g_strdup(worker->server);
		g_ptr_array_add(copies, copy);
	}
	return copies;
}

gboolean pool_watch_get_workers(PoolWatch *self, gint64 max_age_ms, GPtrArray **out_workers,
				gint64 *out_asked_at_us, gboolean *out_failed)
{
	gint64 since_us = pool_clock_us() - max_age_ms * G_TIME_SPAN_MILLISECOND;
	gboolean is_known;

	pthread_mutex_lock(&self->mutex);
	is_known = self->workers != NULL && self->workers_asked_at_us >= since_us;
	if (is_known) {
		*out_workers = copy_workers(self->workers);
		*out_asked_at_us = self->workers_asked_at_us;
	} else {
		*out_failed =
			self->workers_failed_at_us != 0 && self->workers_failed_at_us >= since_us;
		self->workers_wanted |= !*out_failed;
	}
	pthread_mutex_unlock(&self->mutex);
	return is_known;
}

void pool_watch_put_workers(PoolWatch *self, GPtrArray *workers, gint64 asked_at_us, gint64 now_us)
{
	pthread_mutex_lock(&self->mutex);
	if (workers != NULL) {
		g_clear_pointer(&self->workers, g_ptr_array_unref);
		self->workers = workers;
		self->workers_asked_at_us = asked_at_us;
	} else {
		self->workers_failed_at_us = now_us;
	}
	self->is_changed |= self->workers_wanted;
	self->workers_wanted = FALSE;
	pthread_mutex_unlock(&self->mutex);
}

void pool_watch_tend(PoolWatch *self, PoolFleet *fleet, gint64 now_us)
{
	gboolean workers_wanted;

	pthread_mutex_lock(&self->mutex);
	update_view(self, fleet);
	workers_wanted = self->workers_wanted;
	pthread_mutex_unlock(&self->mutex);
	if (!workers_wanted || pool_fleet_is_listing(fleet))
		return;
	if (fleet->is_served)
		pool_fleet_list(fleet, now_us);
	else
		pool_watch_put_workers(self, NULL, now_us, now_us);
}
