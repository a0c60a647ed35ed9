/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/peers.h"

#include "client/pool/clock.h"

guint pool_peers_count(const PoolPeers *self)
{
	guint count = 0;

	for (guint i = 0; i < POOL_PEERS_MAX; i++)
		count += self->all[i] != NULL;
	return count;
}

guint pool_peers_poll(const PoolPeers *self, struct pollfd *out_fds)
{
	guint count = 0;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->all[i] != NULL)
			out_fds[count++] = (struct pollfd){
				.fd = self->all[i]->link->fd,
				.events = pool_link_events(self->all[i]->link),
			};
	}
	return count;
}

gboolean pool_peers_have_serving(const PoolPeers *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->all[i];

		if (peer != NULL &&
		    (peer->fitness == POOL_PEER_SERVES || peer->fitness == POOL_PEER_LAST_CHOICE))
			return TRUE;
	}
	return FALSE;
}

gint pool_peers_best_rank(const PoolPeers *self, gint64 now_us)
{
	gint best = POOL_PEER_USELESS;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->all[i] != NULL)
			best = MIN(best, pool_peer_rank(self->all[i], now_us));
	}
	return best;
}

gint64 pool_peers_round_trip_us(const PoolPeers *self, gint rank, gint64 now_us)
{
	gint64 best_us = POOL_NEVER_US;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->all[i];

		if (peer != NULL && pool_peer_rank(peer, now_us) == rank)
			best_us = MIN(best_us, peer->round_trip_us);
	}
	return best_us;
}

PoolPeer *pool_peers_find_idle(const PoolPeers *self, guint count, const PoolPeer *not_this,
			       gint64 now_us)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer *peer = self->all[i];

		if (peer != NULL && peer != not_this && pool_peer_is_idle(peer) &&
		    count < peer->too_many && pool_peer_rank(peer, now_us) != POOL_PEER_USELESS)
			return peer;
	}
	return NULL;
}

const PoolPeer *pool_peers_find_largest(const PoolPeers *self, gint64 now_us)
{
	const PoolPeer *largest = NULL;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->all[i];

		if (peer != NULL && pool_peer_rank(peer, now_us) != POOL_PEER_USELESS &&
		    (largest == NULL || peer->too_many > largest->too_many))
			largest = peer;
	}
	return largest;
}

gboolean pool_peers_has_twin(const PoolPeers *self, const PoolPeer *peer)
{
	if (peer->worker == NULL || *peer->worker->nonce == '\0')
		return FALSE;
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *other = self->all[i];

		if (other != NULL && other != peer && other->worker != NULL &&
		    g_str_equal(other->worker->nonce, peer->worker->nonce))
			return TRUE;
	}
	return FALSE;
}

gboolean pool_peers_serve_order(const PoolPeers *self, const PoolOrder *order, gint64 now_us)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->all[i];

		if (peer != NULL && pool_peer_drawing(peer) > 0 && peer->order == order &&
		    !pool_peer_seems_to_hang(peer, now_us))
			return TRUE;
	}
	return FALSE;
}

gboolean pool_peers_are_idle(const PoolPeers *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->all[i] != NULL && !pool_peer_is_idle(self->all[i]))
			return FALSE;
	}
	return TRUE;
}

gboolean pool_peers_are_listing(const PoolPeers *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->all[i] != NULL && pool_peer_is_listing(self->all[i]))
			return TRUE;
	}
	return FALSE;
}

guint64 pool_peers_drawing(const PoolPeers *self, gint64 now_us)
{
	guint64 count = 0;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->all[i];

		if (peer != NULL && peer->order == NULL && !pool_peer_seems_to_hang(peer, now_us))
			count += pool_peer_drawing(peer);
	}
	return count;
}

gint64 pool_peers_next_us(const PoolPeers *self, gint64 now_us)
{
	gint64 next_us = POOL_NEVER_US;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->all[i] != NULL)
			next_us = MIN(next_us, pool_peer_next_us(self->all[i], now_us));
	}
	return next_us;
}
