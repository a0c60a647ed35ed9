/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/fleet.h"

#include "client/pool/clock.h"

#define WANTED_PEERS       2       /* the one that is asked, and the next */
#define SETTLE_US          100000  /* for all that were tried at first to say how far they are */
#define PATIENCE_US        5000    /* how long there is a need, before another is asked too */
#define PROBE_US           500000  /* between two questions how a server is */
#define WATCH_US           2000000 /* likewise, while nobody takes any IDs, if somebody watches */
#define EASE_US            2000000 /* without a need of more, until what is too much is closed */
#define REPLACE_US         1000000 /* at most, until a lost one is replaced, if another is fit */
#define UNFIT_REST_US      200000
#define TRY_SERVERS        8      /* while none is fit: so many are tried at a time ... */
#define TRY_US             250000 /* ... and between two times */
#define TRY_SPREAD_US      500000
#define KEPT_PLACES        2        /* likewise: how many do not give way to others never tried */
#define TWIN_REST_US       60000000 /* of a server that there is another connection to */
#define EXCHANGE_US        60000000 /* between two servers that are tried in place of the spare */
#define EXCHANGE_SPREAD_US 60000000
#define EXCLUDED_MINUTES   10 /* for a server whose IDs are not unique */
#define NEAR(best_us)      ((best_us) + (best_us) / 2)

static gint64 next_try_us(PoolFleet *self, gint64 now_us)
{
	return now_us + TRY_US + pool_servers_random(self->servers, TRY_SPREAD_US);
}

static gint64 next_exchange_us(PoolFleet *self, gint64 now_us)
{
	return now_us + EXCHANGE_US + pool_servers_random(self->servers, EXCHANGE_SPREAD_US);
}

void pool_fleet_init(PoolFleet *self, const PoolConfig *config, gboolean is_watched, int fd,
		     gint64 now_us)
{
	*self = (PoolFleet){
		.config = config,
		.is_watched = is_watched,
		.servers = pool_servers_new(),
		.settles_us = POOL_NEVER_US,
		.needed_us = POOL_NEVER_US,
		.had_need_us = now_us,
	};
	pool_finder_init(&self->finder, config, self->servers, fd, now_us);
	self->tries_us = next_try_us(self, now_us);
	self->exchanges_us = next_exchange_us(self, now_us);
}

void pool_fleet_clear(PoolFleet *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++)
		pool_peer_free(self->peers.all[i]);
	pool_finder_clear(&self->finder);
	pool_seen_clear(&self->seen);
	g_clear_error(&self->failure);
	g_free(self->excluded_server);
	g_free(self->excluded_nonce);
	g_free(self->first_sender);
	g_free(self->proof);
	pool_servers_free(self->servers);
}

static void set_failure(PoolFleet *self, GError *failure)
{
	g_clear_error(&self->failure);
	self->failure = failure;
	self->n_failures++;
}

/* Who is first */

/* One of the best, at random among those that are about as near as the nearest. */
static PoolPeer *draw_first(PoolFleet *self, gint64 now_us)
{
	gint wanted = pool_peers_best_rank(&self->peers, now_us);
	PoolPeer *drawn = NULL;
	guint seen = 0;

	if (wanted == POOL_PEER_USELESS)
		return NULL;

	gint64 near_us = NEAR(pool_peers_round_trip_us(&self->peers, wanted, now_us));

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer *peer = self->peers.all[i];

		if (peer != NULL && pool_peer_rank(peer, now_us) == wanted &&
		    peer->round_trip_us <= near_us &&
		    pool_servers_random(self->servers, ++seen) == 0)
			drawn = peer;
	}
	return drawn;
}

/* Leaves the first for a better one. */
static void choose_first(PoolFleet *self, gint64 now_us)
{
	if (self->first != NULL &&
	    pool_peer_rank(self->first, now_us) <= pool_peers_best_rank(&self->peers, now_us) &&
	    pool_peer_rank(self->first, now_us) != POOL_PEER_USELESS)
		return;

	PoolPeer *drawn = draw_first(self, now_us);

	if (drawn == NULL || drawn == self->first)
		return;
	self->switches += self->first != NULL || self->has_lost_first;
	self->has_lost_first = FALSE;
	self->first = drawn;
}

/* Which is no switch: the one that was the first did not fail. */
static void redraw_first(PoolFleet *self, gint64 now_us)
{
	PoolPeer *drawn = draw_first(self, now_us);

	if (drawn != NULL)
		self->first = drawn;
}

static void note_service(PoolFleet *self, gint64 now_us)
{
	gboolean was_served = self->is_served;

	self->is_served = pool_peers_best_rank(&self->peers, now_us) != POOL_PEER_USELESS;
	if (was_served && !self->is_served)
		self->tries_us = next_try_us(self, now_us);
}

/* What peers say */

/* When a server dies all its clients see it at once, and are not to come to the others all at once.
 * In place of one that never answered another is tried without a pause: it had come after one. */
static void drop(PoolFleet *self, PoolPeer **peer, gint64 now_us, gint64 least_rest_us)
{
	PoolServer *server = (*peer)->server;

	if ((*peer)->fitness != POOL_PEER_UNKNOWN)
		self->replaces_us = now_us + pool_servers_random(self->servers, REPLACE_US);
	pool_servers_rest(self->servers, server, now_us, least_rest_us);
	if (*peer == self->first) {
		self->first = NULL;
		self->has_lost_first = TRUE;
	}
	if (*peer == self->newcomer)
		self->newcomer = NULL;
	g_clear_pointer(peer, pool_peer_free);
	pool_servers_unlink(self->servers, server);
}

/* Evidence that IDs are not unique */

static void exclude(PoolFleet *self, PoolPeer **peer, gint64 until_us, gint64 now_us)
{
	pool_servers_exclude(self->servers, (*peer)->server, until_us);
	drop(self, peer, now_us, 0);
}

/* Returns: whether @peer was excluded, because its process is excluded at another address */
static gboolean exclude_address(PoolFleet *self, PoolPeer **peer, gint64 now_us)
{
	const SnowflakeClientWorker *worker = (*peer)->worker;
	gint64 until_us;

	if (worker == NULL || *worker->nonce == '\0')
		return FALSE;
	until_us = pool_servers_excluded_until_us(self->servers, worker->nonce);
	if (until_us <= now_us)
		return FALSE;
	set_failure(self, g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
				      "%s: excluded: another address of the same process sent IDs "
				      "that are not unique",
				      (*peer)->server->text));
	exclude(self, peer, until_us, now_us);
	return TRUE;
}

static gboolean is_relay(const PoolPeer *peer)
{
	return peer->worker != NULL && g_str_equal(peer->worker->kind, "relay");
}

/* Returns: whether @first is not above the last ID. IDs of a relay can go back, because its
 * prefetched IDs are older than those of a batch. */
static gboolean goes_back(const PoolPeer *peer, gint64 first)
{
	return !is_relay(peer) && first <= peer->server->last_id;
}

static GError *make_protocol_error(const PoolServer *server, const char *what)
{
	return g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, "%s: %s",
			   server->text, what);
}

static char *describe_lower_ids(const PoolServer *server, gint64 first)
{
	return g_strdup_printf("sent ID %" G_GINT64_FORMAT " after ID %" G_GINT64_FORMAT
			       ": its IDs went back on two connections; excluded for "
			       "%d minutes",
			       first, server->last_id, EXCLUDED_MINUTES);
}

static void note_proof(PoolFleet *self, const PoolServer *server, const char *proof,
		       const char *sender)
{
	g_free(self->excluded_server);
	g_free(self->excluded_nonce);
	g_free(self->first_sender);
	g_free(self->proof);
	self->excluded_server = g_strdup(server->text);
	self->excluded_nonce = g_strdup(server->nonce != NULL ? server->nonce : "");
	self->first_sender = g_strdup(sender != NULL ? sender : "");
	self->proof = g_strdup(proof);
	self->n_excluded++;
}

static void exclude_for(PoolFleet *self, PoolPeer **peer, const char *why, const char *sender,
			gint64 now_us)
{
	GError *proof = make_protocol_error((*peer)->server, why);

	note_proof(self, (*peer)->server, proof->message, sender);
	set_failure(self, proof);
	exclude(self, peer, now_us + EXCLUDED_MINUTES * G_TIME_SPAN_MINUTE, now_us);
}

/* IDs that go back once are no proof: the server may have got another worker ID. On the next
 * connection it reports its nonce and worker ID before it is asked for IDs, so a second time is
 * proof. */
static void take_lower_ids(PoolFleet *self, PoolPeer **peer, gint64 first, gint64 now_us)
{
	PoolServer *server = (*peer)->server;
	g_autofree char *why = NULL;

	if (server->has_gone_back) {
		why = describe_lower_ids(server, first);
		exclude_for(self, peer, why, NULL, now_us);
		return;
	}
	server->has_gone_back = TRUE;
	why = g_strdup_printf("ID %" G_GINT64_FORMAT " after ID %" G_GINT64_FORMAT, first,
			      server->last_id);
	set_failure(self, make_protocol_error(server, why));
	drop(self, peer, now_us, 0);
}

static void note_ids(PoolFleet *self, PoolServer *server, const GArray *runs)
{
	const SnowflakeClientIdRun *last =
		&g_array_index(runs, SnowflakeClientIdRun, runs->len - 1);

	server->last_id = last->first + (last->count - 1);
	server->has_gone_back = FALSE;
	pool_seen_add(&self->seen, server->text, runs);
	g_clear_error(&self->failure);
}

/* If two servers send the same ID, either can be wrong. The later one is excluded, which is enough
 * for this pool to give out each ID once.
 * Returns: %FALSE if the IDs must not be given out; @peer is closed then */
static gboolean take_ids(PoolFleet *self, PoolPeer **peer, const GArray *runs, gint64 now_us)
{
	PoolServer *server = (*peer)->server;
	gint64 first = g_array_index(runs, SnowflakeClientIdRun, 0).first;
	gint64 id;
	const char *sender = pool_seen_find(&self->seen, runs, &id);
	g_autofree char *repeat = NULL;

	if (sender != NULL) {
		repeat = g_strdup_printf("sent ID %" G_GINT64_FORMAT
					 ", which %s has sent before: the "
					 "IDs are not unique; excluded for %d minutes",
					 id, sender, EXCLUDED_MINUTES);
		exclude_for(self, peer, repeat, sender, now_us);
	} else if (goes_back(*peer, first)) {
		take_lower_ids(self, peer, first, now_us);
	} else {
		note_ids(self, server, runs);
	}
	return *peer != NULL;
}

static gboolean is_itself(const PoolFleet *self, const PoolPeer *peer)
{
	return peer->worker != NULL && self->config->own_nonce != NULL &&
	       g_str_equal(peer->worker->nonce, self->config->own_nonce);
}

static void set_unfit(PoolFleet *self, const PoolPeer *peer, const char *why)
{
	set_failure(self, g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
				      "%s: %s", peer->server->text, why));
}

/* Of two names of one server the second is no remedy for its death. */
static void take_probe(PoolFleet *self, PoolPeer **peer, gint64 now_us)
{
	if (exclude_address(self, peer, now_us))
		return;

	if (*peer != self->first && pool_peers_has_twin(&self->peers, *peer)) {
		drop(self, peer, now_us, TWIN_REST_US);
		return;
	}
	if (is_itself(self, *peer)) {
		set_unfit(self, *peer, "this address is the relay itself; remove it from --relay");
		drop(self, peer, now_us, TWIN_REST_US);
		return;
	}
	if ((*peer)->fitness == POOL_PEER_UNFIT) {
		set_unfit(self, *peer,
			  is_relay(*peer) ? "a relay that reaches no server"
					  : "it has no worker ID");
		drop(self, peer, now_us, UNFIT_REST_US);
		return;
	}
	/* a draw that the server refuses tells more */
	if ((*peer)->fitness == POOL_PEER_WAITING && self->failure == NULL)
		set_unfit(self, *peer, "it waits for its clock");
	pool_servers_end_failures(self->servers, (*peer)->server);
	pool_finder_hurry(&self->finder, now_us);
	if (self->settles_us == POOL_NEVER_US)
		self->settles_us = now_us + SETTLE_US;
}

PoolPeerEvent pool_fleet_hear(PoolFleet *self, PoolPeer **peer, PoolNews *news, gint64 now_us)
{
	GError *failure = NULL;
	PoolPeerEvent event = pool_peer_advance(*peer, now_us, news, &failure);

	if (failure != NULL)
		set_failure(self, failure);
	switch (event) {
	case POOL_PEER_PROBED:
		take_probe(self, peer, now_us);
		break;
	case POOL_PEER_LISTED:
		pool_finder_take_workers(&self->finder, news->workers);
		break;
	case POOL_PEER_FAILED:
		drop(self, peer, now_us, 0);
		break;
	case POOL_PEER_DRAWN:
		if (!take_ids(self, peer, news->runs, now_us))
			event = POOL_PEER_FAILED;
		break;
	case POOL_PEER_NOTHING:
	case POOL_PEER_REFUSED:
		break;
	}
	return event;
}

/* Connections */

static guint wanted_peers(const PoolFleet *self, gint64 now_us)
{
	gboolean is_looking = now_us < self->settles_us;
	gboolean has_need = self->needed_us != POOL_NEVER_US;

	if (is_looking || has_need || !self->is_served)
		return POOL_PEERS_MAX;
	return self->newcomer != NULL ? WANTED_PEERS + 1 : WANTED_PEERS;
}

/* From when on one that was lost may be replaced: at once if none is fit, and when there has been a
 * need of more for a while. */
static gint64 replaces_us(const PoolFleet *self)
{
	if (!self->is_served)
		return 0;
	if (self->needed_us == POOL_NEVER_US)
		return self->replaces_us;
	return MIN(self->replaces_us, self->needed_us + PATIENCE_US);
}

static void connect_to(PoolFleet *self, PoolPeer **peer, PoolServer *server, gint64 now_us)
{
	GError *failure = NULL;

	*peer = pool_peer_new(server, self->config->tls, now_us, &failure);
	if (*peer != NULL) {
		pool_servers_link(self->servers, server);
		return;
	}
	g_prefix_error(&failure, "%s: ", server->text);
	set_failure(self, failure);
	pool_servers_rest(self->servers, server, now_us, 0);
}

static gboolean connect_one(PoolFleet *self, PoolPeer **peer, gint64 now_us)
{
	PoolServer *server = pool_servers_draw(self->servers, now_us);

	if (server != NULL)
		connect_to(self, peer, server, now_us);
	return server != NULL;
}

/* A fleet that was away for so long that all of it rests is found soon after it is back. */
static void rouse_some(PoolFleet *self, gint64 now_us)
{
	guint roused = 0;

	if (self->is_served || now_us < self->tries_us)
		return;
	while (roused < TRY_SERVERS && pool_servers_rouse(self->servers, now_us))
		roused++;
	self->tries_us = next_try_us(self, now_us);
}

static void connect_more(PoolFleet *self, gint64 now_us)
{
	guint wanted = wanted_peers(self, now_us);

	if (now_us < replaces_us(self))
		return;
	for (guint i = 0; i < POOL_PEERS_MAX && pool_peers_count(&self->peers) < wanted; i++) {
		if (self->peers.all[i] == NULL && !connect_one(self, &self->peers.all[i], now_us))
			return;
	}
}

/* Whether all places are taken while none is fit, and there is a server that was not tried yet. */
static gboolean is_stuck(const PoolFleet *self)
{
	return !self->is_served && pool_peers_count(&self->peers) == POOL_PEERS_MAX &&
	       pool_servers_have_untried(self->servers);
}

static void set_silent(PoolFleet *self, const PoolPeer *peer)
{
	set_failure(self, g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
				      "%s: no answer within %d ms", peer->server->text,
				      POOL_PEER_GIVE_WAY_MS));
}

/* Servers that swallow what they are sent, or refuse, are not to keep the others from being tried;
 * but those in the first places have all their time. */
static void give_way(PoolFleet *self, gint64 now_us)
{
	for (guint i = KEPT_PLACES; i < POOL_PEERS_MAX && is_stuck(self); i++) {
		PoolPeer **peer = &self->peers.all[i];

		if (now_us < pool_peer_gives_way_us(*peer))
			continue;
		if ((*peer)->fitness == POOL_PEER_UNKNOWN)
			set_silent(self, *peer);
		drop(self, peer, now_us, 0);
		connect_to(self, peer, pool_servers_draw_untried(self->servers), now_us);
	}
}

static gint64 next_way_us(const PoolFleet *self)
{
	gint64 next_us = POOL_NEVER_US;

	for (guint i = KEPT_PLACES; i < POOL_PEERS_MAX && is_stuck(self); i++)
		next_us = MIN(next_us, pool_peer_gives_way_us(self->peers.all[i]));
	return next_us;
}

static void close_peer(PoolFleet *self, PoolPeer *peer)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (self->peers.all[i] == peer)
			self->peers.all[i] = NULL;
	}
	if (peer == self->newcomer)
		self->newcomer = NULL;
	pool_servers_unlink(self->servers, peer->server);
	pool_peer_free(peer);
}

static gboolean is_spare(const PoolFleet *self, const PoolPeer *peer)
{
	return peer != NULL && peer != self->first && pool_peer_is_idle(peer);
}

static gboolean has_spare(const PoolFleet *self)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		if (is_spare(self, self->peers.all[i]))
			return TRUE;
	}
	return FALSE;
}

/* The farthest; but any one at random where all are about as near: who answered first did so to all
 * the pools that began together. */
static PoolPeer *draw_spare(PoolFleet *self, gint64 now_us)
{
	gint rank = pool_peers_best_rank(&self->peers, now_us);
	gint64 near_us = NEAR(pool_peers_round_trip_us(&self->peers, rank, now_us));
	PoolPeer *farthest = NULL;
	PoolPeer *drawn = NULL;
	guint seen = 0;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer *peer = self->peers.all[i];

		if (!is_spare(self, peer))
			continue;
		if (farthest == NULL || peer->round_trip_us > farthest->round_trip_us)
			farthest = peer;
		if (pool_servers_random(self->servers, ++seen) == 0)
			drawn = peer;
	}
	return farthest != NULL && farthest->round_trip_us > near_us ? farthest : drawn;
}

static void close_spare(PoolFleet *self, gint64 now_us)
{
	if (pool_peers_count(&self->peers) <= wanted_peers(self, now_us) ||
	    now_us - self->had_need_us < EASE_US)
		return;

	PoolPeer *spare = draw_spare(self, now_us);

	if (spare != NULL)
		close_peer(self, spare);
}

/* Exchange */

/* Nothing else makes a change, so that there is a spare and a place for another one. */
static gboolean is_at_rest(const PoolFleet *self)
{
	return self->is_settled && self->newcomer == NULL &&
	       pool_peers_count(&self->peers) == WANTED_PEERS;
}

/* Now and then another server takes the place of the spare: else one that comes back were asked by
 * nobody, and who has many pools kept them. */
static void invite(PoolFleet *self, gint64 now_us)
{
	PoolPeer **place = self->peers.all;

	if (now_us < self->exchanges_us || !is_at_rest(self))
		return;
	while (*place != NULL)
		place++;
	if (!connect_one(self, place, now_us))
		return;
	self->newcomer = *place;
	self->exchanges_us = next_exchange_us(self, now_us);
}

/* Returns: who makes room: not the first, nor the newcomer unless it is not as good */
static PoolPeer *choose_leaver(const PoolFleet *self, PoolPeer *newcomer, gint64 now_us)
{
	if (pool_peer_rank(newcomer, now_us) > pool_peers_best_rank(&self->peers, now_us))
		return newcomer;
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer *peer = self->peers.all[i];

		if (is_spare(self, peer) && peer != newcomer)
			return peer;
	}
	return NULL;
}

/* When the newcomer has answered. The first is drawn anew too, so that calls even out. */
static void exchange(PoolFleet *self, gint64 now_us)
{
	PoolPeer *newcomer = self->newcomer;

	if (newcomer == NULL || newcomer->fitness == POOL_PEER_UNKNOWN ||
	    !pool_peers_are_idle(&self->peers))
		return;
	self->newcomer = NULL;
	redraw_first(self, now_us);
	if (pool_peers_count(&self->peers) > WANTED_PEERS)
		close_peer(self, choose_leaver(self, newcomer, now_us));
}

/* Questions that are due */

/* When @peer is to be asked how it is: one that is far not so often that it has no time for IDs. */
static gint64 probe_us(const PoolFleet *self, const PoolPeer *peer, PoolNeed need)
{
	if (peer->probed_us == 0)
		return 0;
	if (need != POOL_NEED_NONE)
		return peer->answered_us + pool_peer_patience_us(peer, PROBE_US);
	return self->is_watched ? peer->answered_us + WATCH_US : POOL_NEVER_US;
}

static void probe(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer *peer = self->peers.all[i];

		if (peer != NULL && pool_peer_is_idle(peer) && now_us >= probe_us(self, peer, need))
			pool_peer_probe(peer, now_us);
	}
}

static gint64 next_probe_us(const PoolFleet *self, PoolNeed need)
{
	gint64 next_us = POOL_NEVER_US;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		const PoolPeer *peer = self->peers.all[i];

		if (peer != NULL && pool_peer_is_idle(peer))
			next_us = MIN(next_us, probe_us(self, peer, need));
	}
	return next_us;
}

/* Whoever is watched lacks a server, or all of them: what it knows of may be gone for good. */
static gboolean is_watched_and_lacks(const PoolFleet *self)
{
	return self->is_watched &&
	       (!self->is_served || pool_peers_count(&self->peers) < WANTED_PEERS);
}

/* Whether it is worth while to ask who there is: while nobody takes any IDs, only for what was
 * never known, or if somebody watches and a server is lacking. */
static gboolean is_curious(const PoolFleet *self, PoolNeed need)
{
	return need != POOL_NEED_NONE || is_watched_and_lacks(self) ||
	       !pool_finder_has_found(&self->finder);
}

gboolean pool_fleet_list(PoolFleet *self, gint64 now_us)
{
	PoolPeer *peer = pool_peers_find_idle(&self->peers, 0, self->first, now_us);

	if (peer == NULL)
		peer = pool_peers_find_idle(&self->peers, 0, NULL, now_us);
	if (peer != NULL)
		pool_peer_list(peer, now_us);
	return peer != NULL;
}

static gint64 renews_us(const PoolFleet *self, gint64 now_us)
{
	return pool_finder_next_us(&self->finder, pool_peers_best_rank(&self->peers, now_us) == 0);
}

static void renew(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	if (now_us < renews_us(self, now_us) || !is_curious(self, need))
		return;
	/* one that is silent is not to take the others too */
	if (pool_peers_are_listing(&self->peers))
		pool_finder_put_off(&self->finder, now_us);
	else if (self->config->discover && pool_fleet_list(self, now_us))
		pool_finder_await_workers(&self->finder, now_us);
	else
		pool_finder_look_up(&self->finder, now_us);
}

static void take_names(PoolFleet *self, gint64 now_us)
{
	GError *failure = NULL;

	pool_finder_take_names(&self->finder, now_us, &failure);
	if (failure != NULL)
		set_failure(self, failure);
}

static void note_need(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	if (need != POOL_NEED_MORE) {
		self->needed_us = POOL_NEVER_US;
		return;
	}
	self->had_need_us = now_us;
	if (self->needed_us == POOL_NEVER_US)
		self->needed_us = now_us;
}

/* Has looked around: the first is drawn anew, since it was the first to answer. */
static void settle(PoolFleet *self, gint64 now_us)
{
	if (self->is_settled || now_us < self->settles_us)
		return;
	self->is_settled = TRUE;
	redraw_first(self, now_us);
}

void pool_fleet_tend(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	note_need(self, need, now_us);
	note_service(self, now_us);
	choose_first(self, now_us);
	settle(self, now_us);
	take_names(self, now_us);
	renew(self, need, now_us);
	exchange(self, now_us);
	close_spare(self, now_us);
	rouse_some(self, now_us);
	connect_more(self, now_us);
	give_way(self, now_us);
	invite(self, now_us);
	probe(self, need, now_us);
}

/* Asking for IDs */

static gboolean can_ask_first(const PoolFleet *self, guint count, gint64 now_us)
{
	return self->first != NULL && pool_peer_is_idle(self->first) &&
	       count < self->first->too_many &&
	       pool_peer_rank(self->first, now_us) != POOL_PEER_USELESS;
}

PoolPeer *pool_fleet_choose(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	if (self->first == NULL)
		return NULL;
	if (pool_peer_is_idle(self->first))
		return can_ask_first(self, 1, now_us) ? self->first : NULL;
	if (need != POOL_NEED_MORE ||
	    now_us - self->needed_us < pool_peer_patience_us(self->first, PATIENCE_US))
		return NULL;
	return pool_peers_find_idle(&self->peers, 1, self->first, now_us);
}

PoolPeer *pool_fleet_choose_for_batch(PoolFleet *self, guint count, gint64 now_us)
{
	if (can_ask_first(self, count, now_us))
		return self->first;
	return pool_peers_find_idle(&self->peers, count, self->first, now_us);
}

gint64 pool_fleet_round_trip_us(const PoolFleet *self)
{
	return self->first != NULL ? self->first->round_trip_us : 0;
}

static gint64 next_connect_us(const PoolFleet *self)
{
	gint64 rested_us = pool_servers_next_us(self->servers);

	if (self->is_served)
		return MAX(rested_us, replaces_us(self));
	return rested_us != POOL_NEVER_US ? MIN(rested_us, self->tries_us) : POOL_NEVER_US;
}

gint64 pool_fleet_next_us(const PoolFleet *self, PoolNeed need, gint64 now_us)
{
	gint64 next_us = MIN(pool_peers_next_us(&self->peers, now_us), next_probe_us(self, need));
	guint count = pool_peers_count(&self->peers);
	guint wanted = wanted_peers(self, now_us);

	if (!self->is_settled)
		next_us = MIN(next_us, self->settles_us);
	if (count < wanted)
		next_us = MIN(next_us, next_connect_us(self));
	next_us = MIN(next_us, next_way_us(self));
	if (is_at_rest(self))
		next_us =
			MIN(next_us, MAX(self->exchanges_us, pool_servers_next_us(self->servers)));
	if (count > wanted && has_spare(self))
		next_us = MIN(next_us, self->had_need_us + EASE_US);
	if (is_curious(self, need))
		next_us = MIN(next_us, renews_us(self, now_us));
	return next_us;
}
