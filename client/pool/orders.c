/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/orders.h"

#include "client/pool/clock.h"

static void order_free(PoolOrder *order)
{
	g_array_unref(order->runs);
	g_free(order);
}

void pool_orders_init(PoolOrders *self)
{
	*self = (PoolOrders){
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.all = g_ptr_array_new_with_free_func((GDestroyNotify)order_free),
		.placed = G_QUEUE_INIT,
	};
}

void pool_orders_clear(PoolOrders *self)
{
	g_ptr_array_unref(self->all);
	pthread_mutex_destroy(&self->mutex);
}

PoolOrder *pool_orders_add(PoolOrders *self, PoolUpstream *upstream)
{
	PoolOrder *order = g_new0(PoolOrder, 1);

	order->upstream = upstream;
	order->link.data = order;
	order->runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	pthread_mutex_lock(&self->mutex);
	g_ptr_array_add(self->all, order);
	pthread_mutex_unlock(&self->mutex);
	return order;
}

void pool_orders_place(PoolOrders *self, PoolOrder *order, guint count)
{
	pthread_mutex_lock(&self->mutex);
	order->count = count;
	order->placed_us = pool_clock_us();
	atomic_store_explicit(&order->state, POOL_ORDER_PLACED, memory_order_relaxed);
	g_queue_push_tail_link(&self->placed, &order->link);
	pthread_mutex_unlock(&self->mutex);
}

gint64 pool_orders_oldest_us(PoolOrders *self)
{
	pthread_mutex_lock(&self->mutex);

	const PoolOrder *oldest = g_queue_peek_head(&self->placed);
	gint64 placed_us = oldest != NULL ? oldest->placed_us : POOL_NEVER_US;

	pthread_mutex_unlock(&self->mutex);
	return placed_us;
}

/* Under the mutex. From here on it is not the pool's. */
static void end(PoolOrders *self, PoolOrder *order, PoolOrderState state)
{
	g_queue_unlink(&self->placed, &order->link);
	self->have_ended = TRUE;
	atomic_store_explicit(&order->state, state, memory_order_release);
}

static void refuse_if_too_large(PoolOrders *self, PoolOrder *order, const PoolFleet *fleet,
				gint64 now_us)
{
	const PoolPeer *largest = pool_peers_find_largest(&fleet->peers, now_us);

	if (largest == NULL || order->count < largest->too_many)
		return;
	order->most = largest->too_many - 1;
	end(self, order, POOL_ORDER_REFUSED);
}

/* Returns: whether a server was asked */
static gboolean serve(PoolOrders *self, PoolOrder *order, PoolFleet *fleet, const char *agent,
		      gint64 now_us)
{
	PoolPeer *peer;

	if (pool_peers_serve_order(&fleet->peers, order, now_us))
		return FALSE;
	peer = pool_fleet_choose_for_batch(fleet, order->count, now_us);
	if (peer == NULL) {
		refuse_if_too_large(self, order, fleet, now_us);
		return FALSE;
	}
	pool_peer_draw(peer, agent, order->count, order, now_us);
	return TRUE;
}

gboolean pool_orders_serve(PoolOrders *self, PoolFleet *fleet, const char *agent, gint64 now_us)
{
	gboolean asked = FALSE;
	GList *next;

	pthread_mutex_lock(&self->mutex);
	for (GList *each = self->placed.head; each != NULL; each = next) {
		next = each->next;
		asked |= serve(self, each->data, fleet, agent, now_us);
	}
	pthread_mutex_unlock(&self->mutex);
	return asked;
}

/* Others may be asked for it too, as it seemed to hang: theirs go into the hand. */
static void forget(const PoolPeers *peers, const PoolOrder *order)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (peers->all[i] != NULL && peers->all[i]->order == order)
			pool_peer_forget_order(peers->all[i]);
	}
}

gboolean pool_orders_fill(PoolOrders *self, const PoolPeers *peers, const PoolPeer *peer,
			  const PoolNews *news)
{
	PoolOrder *order = peer->order;

	if (order == NULL)
		return FALSE;
	forget(peers, order);
	g_array_set_size(order->runs, 0);
	g_array_append_vals(order->runs, news->runs->data, news->runs->len);
	order->came_us = pool_clock_us();
	pthread_mutex_lock(&self->mutex);
	end(self, order, POOL_ORDER_FILLED);
	pthread_mutex_unlock(&self->mutex);
	return TRUE;
}

gboolean pool_orders_have_ended(PoolOrders *self)
{
	gboolean have_ended = self->have_ended;

	self->have_ended = FALSE;
	return have_ended;
}
