/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/watch.h"

#include "core/clock.h"

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

/* Takes without IDs */

gboolean pool_watch_take(PoolWatch *self, PoolBuffer *buffer, guint most, PoolRun *out_run)
{
	if (pool_buffer_take(buffer, NULL, most, out_run))
		return TRUE;
	atomic_fetch_add_explicit(&buffer->empty_buffer, 1, memory_order_relaxed);
	atomic_exchange(&self->is_empty, TRUE);
	return pool_buffer_take(buffer, NULL, most, out_run);
}

void pool_watch_note_refill(PoolWatch *self)
{
	if (atomic_exchange(&self->is_empty, FALSE))
		self->is_changed = TRUE;
}

/* Batch requests */

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

/* Returns the request to the thread that placed it. The caller holds the mutex. */
static void end_request(PoolWatch *self, PoolBatchRequest *request, PoolBatchRequestState state)
{
	g_queue_unlink(&self->placed, &request->link);
	self->is_changed = TRUE;
	atomic_store_explicit(&request->state, state, memory_order_release);
}

gboolean pool_watch_serve_requests(PoolWatch *self, PoolFleet *fleet, const char *agent,
				   gint64 now_us)
{
	guint refused_count = 0; /* smallest count that all fit servers refuse; 0: none is fit */
	gboolean has_drawn = FALSE;
	GList *next;

	FOR_EACH_SERVER (fleet, fit)
		if (pool_server_rank(fit, now_us) != POOL_SERVER_USELESS)
			refused_count = MAX(
				refused_count,
				batch_limits_offer(&fit->limits, CLIENT_RESULT_RUNS).refused_count);
	pthread_mutex_lock(&self->mutex);
	for (GList *each = self->placed.head; each != NULL; each = next) {
		PoolBatchRequest *request = each->data;
		PoolServer *server;
		gboolean is_drawing = FALSE; /* by a server that does not seem to hang */

		next = each->next;
		FOR_EACH_SERVER (fleet, drawing)
			is_drawing |= drawing->batch_request == request &&
				      pool_server_drawing(drawing) > 0 &&
				      !pool_server_seems_to_hang(drawing, now_us);
		if (is_drawing)
			continue;
		server = pool_fleet_choose_for_batch(fleet, request->count, now_us);
		if (server != NULL) {
			pool_server_draw(server, agent, request->count, request, now_us);
			has_drawn = TRUE;
		} else if (refused_count > 0 && request->count >= refused_count) {
			request->max_count = refused_count - 1;
			end_request(self, request, POOL_BATCH_REQUEST_REFUSED);
		}
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
	/* other servers may also draw for it, because the first seemed to hang: their IDs go to the
	 * buffer */
	FOR_EACH_SERVER (fleet, drawing)
		if (drawing->batch_request == request)
			drawing->batch_request = NULL;
	g_array_set_size(request->runs, 0);
	g_array_append_vals(request->runs, data->runs->data, data->runs->len);
	request->filled_at_us = clock_boottime_ns() / 1000;
	pthread_mutex_lock(&self->mutex);
	end_request(self, request, POOL_BATCH_REQUEST_FILLED);
	pthread_mutex_unlock(&self->mutex);
	return TRUE;
}

/* The state of the fleet */

/* Returns: whether the text has changed */
static gboolean replace_text(char **text, const char *by)
{
	if (g_strcmp0(*text, by) == 0)
		return FALSE;
	g_free(*text);
	*text = g_strdup(by);
	return TRUE;
}

/* Updates the view. The caller holds the mutex. */
static void update_view(PoolWatch *self, const PoolFleet *fleet)
{
	PoolView *view = &self->view;
	gboolean is_served = FALSE; /* by a server that may have just refused a draw */
	const PoolServer *first = fleet->first;
	const SnowflakeClientWorker *worker = first != NULL ? first->worker : NULL;
	const char *failure =
		fleet->failure != NULL ? fleet->failure->message : POOL_WAIT_NO_ANSWER;

	FOR_EACH_SERVER (fleet, server)
		is_served |= server->fitness == POOL_SERVER_SERVES ||
			     server->fitness == POOL_SERVER_DRAINING;
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
