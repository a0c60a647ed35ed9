/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/fleet.h"

#include "client/pool/clock.h"
#include "common/worker-kind.h"

#define WANTED_SERVERS   2       /* the first, and a spare */
#define SETTLE_US        100000  /* for all that are tried at the start to show their distance */
#define PATIENCE_US      5000    /* how long more is needed, until another server is used too */
#define PROBE_US         500000  /* between two probes of a server */
#define WATCH_US         2000000 /* the same, if the pool is watched while nobody takes IDs */
#define EASE_US          2000000 /* since more was needed, until a surplus server is closed */
#define REPLACE_US       1000000 /* at most, until a lost server is replaced */
#define UNFIT_BACKOFF_US 200000
#define TWIN_BACKOFF_US  60000000 /* of a server that there is another connection to */
#define RETRY_ENDPOINTS  8        /* whose backoffs end at a time while no server is fit */
#define RETRY_US         250000   /* between two times */
#define RETRY_SPREAD_US  500000
#define KEPT_SERVERS     2        /* that do not give way while no server is fit */
#define ROTATE_US        60000000 /* between two rotations */
#define ROTATE_SPREAD_US 60000000
#define EXCLUDED_MINUTES 10 /* for a server whose IDs are not unique */

#define FOR_EACH_SERVER(fleet, server)                                                             \
	for (guint i_ = 0; i_ < POOL_FLEET_MAX_SERVERS; i_++)                                      \
		for (PoolServer *server = (fleet)->servers[i_]; server != NULL; server = NULL)

static gint64 next_retry_us(PoolFleet *self, gint64 now_us)
{
	return now_us + RETRY_US + pool_endpoints_random(self->endpoints, RETRY_SPREAD_US);
}

static gint64 next_rotation_us(PoolFleet *self, gint64 now_us)
{
	return now_us + ROTATE_US + pool_endpoints_random(self->endpoints, ROTATE_SPREAD_US);
}

void pool_fleet_init(PoolFleet *self, const PoolConfig *config, gboolean is_watched, int fd,
		     gint64 now_us)
{
	*self = (PoolFleet){
		.config = config,
		.is_watched = is_watched,
		.endpoints = pool_endpoints_new(),
		.settle_at_us = POOL_NEVER_US,
		.needed_since_us = POOL_NEVER_US,
		.last_needed_at_us = now_us,
	};
	pool_discovery_init(&self->discovery, config, self->endpoints, fd, now_us);
	self->retry_at_us = next_retry_us(self, now_us);
	self->rotate_at_us = next_rotation_us(self, now_us);
}

void pool_fleet_clear(PoolFleet *self)
{
	FOR_EACH_SERVER (self, server)
		pool_server_free(server);
	pool_discovery_clear(&self->discovery);
	pool_seen_clear(&self->seen);
	g_clear_error(&self->failure);
	g_free(self->excluded_server);
	g_free(self->excluded_nonce);
	g_free(self->first_sender);
	g_free(self->proof);
	pool_endpoints_free(self->endpoints);
}

static void set_failure(PoolFleet *self, GError *failure)
{
	g_clear_error(&self->failure);
	self->failure = failure;
	self->n_failures++;
}

static void set_server_failure(PoolFleet *self, const PoolEndpoint *endpoint,
			       SnowflakeClientError code, const char *why)
{
	set_failure(self, g_error_new(SNOWFLAKE_CLIENT_ERROR, code, "%s: %s", endpoint->text, why));
}

/* All servers together */

static guint count_servers(const PoolFleet *self)
{
	guint count = 0;

	FOR_EACH_SERVER (self, server)
		count++;
	return count;
}

guint pool_fleet_get_pollfds(const PoolFleet *self, struct pollfd *out_fds)
{
	guint count = 0;

	FOR_EACH_SERVER (self, server)
		out_fds[count++] = (struct pollfd){
			.fd = server->connection->fd,
			.events = client_connection_events(server->connection),
		};
	return count;
}

gboolean pool_fleet_has_serving(const PoolFleet *self)
{
	FOR_EACH_SERVER (self, server)
		if (server->fitness == POOL_SERVER_SERVES ||
		    server->fitness == POOL_SERVER_DRAINING)
			return TRUE;
	return FALSE;
}

static gint best_rank(const PoolFleet *self, gint64 now_us)
{
	gint best = POOL_SERVER_USELESS;

	FOR_EACH_SERVER (self, server)
		best = MIN(best, pool_server_rank(server, now_us));
	return best;
}

/* Returns: the largest round trip that counts as near, among servers of this rank: 1.5 times the
 * shortest one; POOL_NEVER_US: there are none */
static gint64 near_us(const PoolFleet *self, gint rank, gint64 now_us)
{
	gint64 best_us = POOL_NEVER_US;

	FOR_EACH_SERVER (self, server)
		if (pool_server_rank(server, now_us) == rank)
			best_us = MIN(best_us, server->round_trip_us);
	return best_us != POOL_NEVER_US ? best_us + best_us / 2 : POOL_NEVER_US;
}

static PoolServer *find_idle(const PoolFleet *self, guint count, const PoolServer *except,
			     gint64 now_us)
{
	FOR_EACH_SERVER (self, server)
		if (server != except && pool_server_is_idle(server) &&
		    count < pool_server_refused_count(server) &&
		    pool_server_rank(server, now_us) != POOL_SERVER_USELESS)
			return server;
	return NULL;
}

guint pool_fleet_refused_count(const PoolFleet *self, gint64 now_us)
{
	guint largest = 0;

	FOR_EACH_SERVER (self, server)
		if (pool_server_rank(server, now_us) != POOL_SERVER_USELESS)
			largest = MAX(largest, pool_server_refused_count(server));
	return largest;
}

gboolean pool_fleet_is_drawing_for(const PoolFleet *self, const PoolBatchRequest *request,
				   gint64 now_us)
{
	FOR_EACH_SERVER (self, server)
		if (server->batch_request == request && pool_server_drawing(server) > 0 &&
		    !pool_server_seems_to_hang(server, now_us))
			return TRUE;
	return FALSE;
}

void pool_fleet_forget_request(PoolFleet *self, const PoolBatchRequest *request)
{
	FOR_EACH_SERVER (self, server)
		if (server->batch_request == request)
			server->batch_request = NULL;
}

gboolean pool_fleet_is_listing(const PoolFleet *self)
{
	FOR_EACH_SERVER (self, server)
		if (pool_server_is_listing(server))
			return TRUE;
	return FALSE;
}

guint64 pool_fleet_drawing(const PoolFleet *self, gint64 now_us)
{
	guint64 count = 0;

	FOR_EACH_SERVER (self, server)
		if (server->batch_request == NULL && !pool_server_seems_to_hang(server, now_us))
			count += pool_server_drawing(server);
	return count;
}

/* The first server */

/* Returns: (nullable): a random one of the best servers that are about as near as the nearest */
static PoolServer *draw_first(PoolFleet *self, gint64 now_us)
{
	gint wanted = best_rank(self, now_us);
	gint64 limit_us = near_us(self, wanted, now_us);
	PoolServer *drawn = NULL;
	guint seen = 0;

	if (wanted == POOL_SERVER_USELESS)
		return NULL;
	FOR_EACH_SERVER (self, server)
		if (pool_server_rank(server, now_us) == wanted &&
		    server->round_trip_us <= limit_us &&
		    pool_endpoints_random(self->endpoints, ++seen) == 0)
			drawn = server;
	return drawn;
}

/* Leaves the first for a better server. */
static void choose_first(PoolFleet *self, gint64 now_us)
{
	PoolServer *drawn;

	if (self->first != NULL &&
	    pool_server_rank(self->first, now_us) <= best_rank(self, now_us) &&
	    pool_server_rank(self->first, now_us) != POOL_SERVER_USELESS)
		return;
	drawn = draw_first(self, now_us);
	if (drawn == NULL || drawn == self->first)
		return;
	self->switches += self->first != NULL || self->has_lost_first;
	self->has_lost_first = FALSE;
	self->first = drawn;
}

/* Does not count as a switch, because the first did not fail. */
static void redraw_first(PoolFleet *self, gint64 now_us)
{
	PoolServer *drawn = draw_first(self, now_us);

	if (drawn != NULL)
		self->first = drawn;
}

/* Events */

static void forget_server(PoolFleet *self, PoolServer **server)
{
	if (*server == self->candidate)
		self->candidate = NULL;
	pool_endpoints_unlink(self->endpoints, (*server)->endpoint);
	g_clear_pointer(server, pool_server_free);
}

/* Closes the connection, and backs off. When a server dies, all its clients notice at once. They
 * must not come to the others all at once. A server that never answered is replaced without a
 * pause, because there was one before it. */
static void drop_server(PoolFleet *self, PoolServer **server, gint64 now_us,
			gint64 least_backoff_us)
{
	if ((*server)->fitness != POOL_SERVER_UNKNOWN)
		self->replace_at_us = now_us + pool_endpoints_random(self->endpoints, REPLACE_US);
	pool_endpoints_back_off(self->endpoints, (*server)->endpoint, now_us, least_backoff_us);
	if (*server == self->first) {
		self->first = NULL;
		self->has_lost_first = TRUE;
	}
	forget_server(self, server);
}

static void exclude_server(PoolFleet *self, PoolServer **server, gint64 until_us, gint64 now_us)
{
	pool_endpoints_exclude(self->endpoints, (*server)->endpoint, until_us);
	drop_server(self, server, now_us, 0);
}

/* Returns: whether *@server was excluded, because its process is excluded at another endpoint */
static gboolean exclude_endpoint(PoolFleet *self, PoolServer **server, gint64 now_us)
{
	const SnowflakeClientWorker *worker = (*server)->worker;
	gint64 until_us;

	if (worker == NULL || *worker->nonce == '\0')
		return FALSE;
	until_us = pool_endpoints_excluded_until_us(self->endpoints, worker->nonce);
	if (until_us <= now_us)
		return FALSE;
	set_server_failure(self, (*server)->endpoint, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			   "excluded: another address of the same process sent IDs that are not "
			   "unique");
	exclude_server(self, server, until_us, now_us);
	return TRUE;
}

/* @sender: (nullable): the server that sent the same ID before */
static void exclude_for_proof(PoolFleet *self, PoolServer **server, const char *why,
			      const char *sender, gint64 now_us)
{
	const PoolEndpoint *endpoint = (*server)->endpoint;

	set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, why);
	g_free(self->excluded_server);
	g_free(self->excluded_nonce);
	g_free(self->first_sender);
	g_free(self->proof);
	self->excluded_server = g_strdup(endpoint->text);
	self->excluded_nonce = g_strdup(endpoint->nonce != NULL ? endpoint->nonce : "");
	self->first_sender = g_strdup(sender != NULL ? sender : "");
	self->proof = g_strdup(self->failure->message);
	self->n_excluded++;
	exclude_server(self, server, now_us + EXCLUDED_MINUTES * G_TIME_SPAN_MINUTE, now_us);
}

static gboolean is_relay(const PoolServer *server)
{
	return server->worker != NULL && g_str_equal(server->worker->kind, WORKER_KIND_RELAY);
}

/* Returns: whether @first is not above the last ID. IDs of a relay can go back, because its
 * prefetched IDs are older than those of a batch. */
static gboolean goes_back(const PoolServer *server, gint64 first)
{
	return !is_relay(server) && first <= server->endpoint->last_id;
}

/* IDs that go back once are no proof: the server may have got another worker ID. On the next
 * connection it reports its nonce and worker ID before it is drawn from, so a second time is
 * proof. */
static void handle_lower_ids(PoolFleet *self, PoolServer **server, gint64 first, gint64 now_us)
{
	PoolEndpoint *endpoint = (*server)->endpoint;
	g_autofree char *what = g_strdup_printf(
		"ID %" G_GINT64_FORMAT " after ID %" G_GINT64_FORMAT, first, endpoint->last_id);
	g_autofree char *why = NULL;

	if (endpoint->has_gone_back) {
		why = g_strdup_printf("sent %s: its IDs went back on two connections; excluded for "
				      "%d minutes",
				      what, EXCLUDED_MINUTES);
		exclude_for_proof(self, server, why, NULL, now_us);
		return;
	}
	endpoint->has_gone_back = TRUE;
	set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, what);
	drop_server(self, server, now_us, 0);
}

/* If two servers send the same ID, either can be wrong. The later one is excluded, which is enough
 * for this pool to give out each ID once.
 * Returns: %FALSE if the IDs must not be given out; the connection is closed then */
static gboolean accept_ids(PoolFleet *self, PoolServer **server, const GArray *runs, gint64 now_us)
{
	PoolEndpoint *endpoint = (*server)->endpoint;
	const SnowflakeClientIdRun *last =
		&g_array_index(runs, SnowflakeClientIdRun, runs->len - 1);
	gint64 first = g_array_index(runs, SnowflakeClientIdRun, 0).first;
	gint64 id;
	const char *sender = pool_seen_find(&self->seen, runs, &id);

	if (sender != NULL) {
		g_autofree char *why = g_strdup_printf(
			"sent ID %" G_GINT64_FORMAT ", which %s has sent before: the "
			"IDs are not unique; excluded for %d minutes",
			id, sender, EXCLUDED_MINUTES);

		exclude_for_proof(self, server, why, sender, now_us);
		return FALSE;
	}
	if (goes_back(*server, first)) {
		handle_lower_ids(self, server, first, now_us);
		return FALSE;
	}
	pool_endpoint_note_ids(endpoint, last->first + (last->count - 1));
	pool_seen_add(&self->seen, endpoint->text, runs);
	g_clear_error(&self->failure);
	return TRUE;
}

/* Whether there is another connection to the same process, by another name. */
static gboolean has_twin(const PoolFleet *self, const PoolServer *server)
{
	if (server->worker == NULL || *server->worker->nonce == '\0')
		return FALSE;
	FOR_EACH_SERVER (self, other)
		if (other != server && other->worker != NULL &&
		    g_str_equal(other->worker->nonce, server->worker->nonce))
			return TRUE;
	return FALSE;
}

static void handle_probe(PoolFleet *self, PoolServer **server, gint64 now_us)
{
	const SnowflakeClientWorker *worker = (*server)->worker;
	PoolEndpoint *endpoint = (*server)->endpoint;
	const char *own_nonce = self->config->own_nonce;

	if (exclude_endpoint(self, server, now_us))
		return;
	/* a second connection to a server does not help when it dies */
	if (*server != self->first && has_twin(self, *server)) {
		drop_server(self, server, now_us, TWIN_BACKOFF_US);
		return;
	}
	if (worker != NULL && own_nonce != NULL && g_str_equal(worker->nonce, own_nonce)) {
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
				   "this address is the relay itself; remove it from --relay");
		drop_server(self, server, now_us, TWIN_BACKOFF_US);
		return;
	}
	if ((*server)->fitness == POOL_SERVER_UNFIT) {
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
				   is_relay(*server) ? "a relay that reaches no server"
						     : "it has no worker ID");
		drop_server(self, server, now_us, UNFIT_BACKOFF_US);
		return;
	}
	/* the server's refusal of a draw says more */
	if ((*server)->fitness == POOL_SERVER_WAITING && self->failure == NULL)
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
				   "it waits for its clock");
	pool_endpoints_end_failures(self->endpoints, endpoint);
	pool_discovery_retry_now(&self->discovery, now_us);
	if (self->settle_at_us == POOL_NEVER_US)
		self->settle_at_us = now_us + SETTLE_US;
}

PoolServerEvent pool_fleet_handle_event(PoolFleet *self, PoolServer **server, PoolEventData *data,
					gint64 now_us)
{
	GError *failure = NULL;
	PoolServerEvent event = pool_server_advance(*server, now_us, data, &failure);

	if (failure != NULL)
		set_failure(self, failure);
	switch (event) {
	case POOL_SERVER_PROBED:
		handle_probe(self, server, now_us);
		break;
	case POOL_SERVER_LISTED:
		pool_discovery_take_list(&self->discovery, data->workers);
		break;
	case POOL_SERVER_FAILED:
		drop_server(self, server, now_us, 0);
		break;
	case POOL_SERVER_DRAWN:
		if (!accept_ids(self, server, data->runs, now_us))
			event = POOL_SERVER_FAILED;
		break;
	case POOL_SERVER_NOTHING:
	case POOL_SERVER_REFUSED:
		break;
	}
	return event;
}

/* Timers: each has a function that returns when it is due, POOL_NEVER_US if never, and a function
 * that does what is due. */

/* At the start, the first is drawn again from all that were tried, because it was the first to
 * answer. */
static gint64 settle_due_us(const PoolFleet *self, G_GNUC_UNUSED gint64 now_us)
{
	return self->is_settled ? POOL_NEVER_US : self->settle_at_us;
}

static void settle(PoolFleet *self, gint64 now_us)
{
	self->is_settled = TRUE;
	redraw_first(self, now_us);
}

gboolean pool_fleet_list(PoolFleet *self, gint64 now_us)
{
	PoolServer *server = find_idle(self, 0, self->first, now_us);

	if (server == NULL)
		server = find_idle(self, 0, NULL, now_us);
	if (server != NULL)
		pool_server_list(server, now_us);
	return server != NULL;
}

/* While nobody takes IDs, endpoints are looked for only if none were ever found, or if the pool is
 * watched and lacks a server: those it knows can be gone for good. */
static gint64 discover_due_us(const PoolFleet *self, gint64 now_us)
{
	gboolean lacks_servers = !self->is_served || count_servers(self) < WANTED_SERVERS;

	if (self->need == POOL_NEED_NONE && !(self->is_watched && lacks_servers) &&
	    pool_discovery_has_found(&self->discovery))
		return POOL_NEVER_US;
	return pool_discovery_next_us(&self->discovery, best_rank(self, now_us) == 0);
}

static void discover(PoolFleet *self, gint64 now_us)
{
	/* one server that is silent must not occupy the others too */
	if (pool_fleet_is_listing(self))
		pool_discovery_put_off(&self->discovery, now_us);
	else if (self->config->discover && pool_fleet_list(self, now_us))
		pool_discovery_expect_list(&self->discovery, now_us);
	else
		pool_discovery_resolve(&self->discovery, now_us);
}

static guint wanted_servers(const PoolFleet *self, gint64 now_us)
{
	gboolean is_settling = now_us < self->settle_at_us;
	gboolean is_needed = self->needed_since_us != POOL_NEVER_US;

	if (is_settling || is_needed || !self->is_served)
		return POOL_FLEET_MAX_SERVERS;
	return self->candidate != NULL ? WANTED_SERVERS + 1 : WANTED_SERVERS;
}

static gboolean is_spare(const PoolFleet *self, const PoolServer *server)
{
	return server != self->first && pool_server_is_idle(server);
}

static gint64 close_surplus_due_us(const PoolFleet *self, gint64 now_us)
{
	if (count_servers(self) > wanted_servers(self, now_us))
		FOR_EACH_SERVER (self, server)
			if (is_spare(self, server))
				return self->last_needed_at_us + EASE_US;
	return POOL_NEVER_US;
}

static void close_server(PoolFleet *self, PoolServer *server)
{
	for (guint i = 0; i < POOL_FLEET_MAX_SERVERS; i++)
		if (self->servers[i] == server)
			forget_server(self, &self->servers[i]);
}

/* Closes the farthest spare. If all are about as near, a random one: which of them answered first
 * did so for all the pools that began together. */
static void close_surplus(PoolFleet *self, gint64 now_us)
{
	gint64 limit_us = near_us(self, best_rank(self, now_us), now_us);
	PoolServer *farthest = NULL;
	PoolServer *drawn = NULL;
	guint seen = 0;

	FOR_EACH_SERVER (self, server) {
		if (!is_spare(self, server))
			continue;
		if (farthest == NULL || server->round_trip_us > farthest->round_trip_us)
			farthest = server;
		if (pool_endpoints_random(self->endpoints, ++seen) == 0)
			drawn = server;
	}
	close_server(self, farthest->round_trip_us > limit_us ? farthest : drawn);
}

/* While no server is fit, backoffs end early, so that a fleet that was away for so long that all
 * its backoffs are long is found soon after it is back. */
static gint64 retry_due_us(const PoolFleet *self, G_GNUC_UNUSED gint64 now_us)
{
	if (self->is_served || pool_endpoints_next_us(self->endpoints) == POOL_NEVER_US)
		return POOL_NEVER_US;
	return self->retry_at_us;
}

static void retry_endpoints(PoolFleet *self, gint64 now_us)
{
	for (guint i = 0; i < RETRY_ENDPOINTS; i++)
		if (!pool_endpoints_end_a_backoff(self->endpoints, now_us))
			break;
	self->retry_at_us = next_retry_us(self, now_us);
}

/* A server that was lost is replaced at once if none is fit, and soon if more is needed. */
static gint64 replace_due_us(const PoolFleet *self)
{
	if (!self->is_served)
		return 0;
	if (self->needed_since_us == POOL_NEVER_US)
		return self->replace_at_us;
	return MIN(self->replace_at_us, self->needed_since_us + PATIENCE_US);
}

static gint64 connect_due_us(const PoolFleet *self, gint64 now_us)
{
	if (count_servers(self) >= wanted_servers(self, now_us))
		return POOL_NEVER_US;
	return MAX(pool_endpoints_next_us(self->endpoints), replace_due_us(self));
}

static void connect_to(PoolFleet *self, PoolServer **server, PoolEndpoint *endpoint, gint64 now_us)
{
	GError *failure = NULL;

	*server = pool_server_new(endpoint, self->config->tls, now_us, &failure);
	if (*server != NULL) {
		pool_endpoints_link(self->endpoints, endpoint);
		return;
	}
	g_prefix_error(&failure, "%s: ", endpoint->text);
	set_failure(self, failure);
	pool_endpoints_back_off(self->endpoints, endpoint, now_us, 0);
}

static void connect_more(PoolFleet *self, gint64 now_us)
{
	guint wanted = wanted_servers(self, now_us);

	for (guint i = 0; i < POOL_FLEET_MAX_SERVERS && count_servers(self) < wanted; i++) {
		PoolEndpoint *endpoint;

		if (self->servers[i] != NULL)
			continue;
		endpoint = pool_endpoints_draw(self->endpoints, now_us);
		if (endpoint == NULL)
			return;
		connect_to(self, &self->servers[i], endpoint, now_us);
	}
}

/* While no server is fit, and an endpoint was not tried yet, servers that never answer or refuse
 * must not occupy all connections. The first connections keep all their time. */
static gint64 give_way_due_us(const PoolFleet *self, G_GNUC_UNUSED gint64 now_us)
{
	gint64 due_us = POOL_NEVER_US;

	if (self->is_served || count_servers(self) < POOL_FLEET_MAX_SERVERS ||
	    !pool_endpoints_have_untried(self->endpoints))
		return POOL_NEVER_US;
	for (guint i = KEPT_SERVERS; i < POOL_FLEET_MAX_SERVERS; i++)
		due_us = MIN(due_us, pool_server_gives_way_us(self->servers[i]));
	return due_us;
}

static void give_way(PoolFleet *self, gint64 now_us)
{
	for (guint i = KEPT_SERVERS; i < POOL_FLEET_MAX_SERVERS; i++) {
		PoolServer **server = &self->servers[i];

		if (now_us < give_way_due_us(self, now_us) ||
		    now_us < pool_server_gives_way_us(*server))
			continue;
		if ((*server)->fitness == POOL_SERVER_UNKNOWN)
			set_server_failure(
				self, (*server)->endpoint, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
				"no answer within " G_STRINGIFY(POOL_SERVER_GIVE_WAY_MS) " ms");
		drop_server(self, server, now_us, 0);
		connect_to(self, server, pool_endpoints_draw_untried(self->endpoints), now_us);
	}
}

/* Rotation: now and then another server takes the place of the spare. Otherwise no pool would use a
 * server that comes back, and a server with many pools would keep them. */
static gint64 rotate_due_us(const PoolFleet *self, G_GNUC_UNUSED gint64 now_us)
{
	if (!self->is_settled || self->candidate != NULL || count_servers(self) != WANTED_SERVERS)
		return POOL_NEVER_US;
	return MAX(self->rotate_at_us, pool_endpoints_next_us(self->endpoints));
}

static void start_rotation(PoolFleet *self, gint64 now_us)
{
	PoolServer **free_place = self->servers;

	while (*free_place != NULL)
		free_place++;
	connect_to(self, free_place, pool_endpoints_draw(self->endpoints, now_us), now_us);
	self->candidate = *free_place;
	self->rotate_at_us = next_rotation_us(self, now_us);
}

/* Once the candidate has answered, the first is drawn again too, so that calls even out, and one
 * server is closed: not the first, and not the candidate unless it is worse. */
static void finish_rotation(PoolFleet *self, gint64 now_us)
{
	PoolServer *candidate = self->candidate;
	PoolServer *evicted = NULL;

	if (candidate == NULL || candidate->fitness == POOL_SERVER_UNKNOWN)
		return;
	FOR_EACH_SERVER (self, server)
		if (!pool_server_is_idle(server))
			return;
	self->candidate = NULL;
	redraw_first(self, now_us);
	if (count_servers(self) <= WANTED_SERVERS)
		return;
	if (pool_server_rank(candidate, now_us) > best_rank(self, now_us))
		evicted = candidate;
	FOR_EACH_SERVER (self, server)
		if (evicted == NULL && is_spare(self, server) && server != candidate)
			evicted = server;
	close_server(self, evicted);
}

/* Returns: when to probe it. A server with a long round trip is probed less often, so that it has
 * time for draws. */
static gint64 probe_due_us(const PoolFleet *self, const PoolServer *server)
{
	if (!pool_server_is_idle(server))
		return POOL_NEVER_US;
	if (server->probed_at_us == 0)
		return 0;
	if (self->need != POOL_NEED_NONE)
		return server->answered_at_us + pool_server_patience_us(server, PROBE_US);
	return self->is_watched ? server->answered_at_us + WATCH_US : POOL_NEVER_US;
}

static gint64 probes_due_us(const PoolFleet *self, G_GNUC_UNUSED gint64 now_us)
{
	gint64 due_us = POOL_NEVER_US;

	FOR_EACH_SERVER (self, server)
		due_us = MIN(due_us, probe_due_us(self, server));
	return due_us;
}

static void probe_servers(PoolFleet *self, gint64 now_us)
{
	FOR_EACH_SERVER (self, server)
		if (now_us >= probe_due_us(self, server))
			pool_server_probe(server, now_us);
}

/* In the order in which they run. */
static const struct {
	gint64 (*due_us)(const PoolFleet *self, gint64 now_us);
	void (*run)(PoolFleet *self, gint64 now_us);
} TIMERS[] = {
	{settle_due_us, settle},
	{discover_due_us, discover},
	{close_surplus_due_us, close_surplus},
	{retry_due_us, retry_endpoints},
	{connect_due_us, connect_more},
	{give_way_due_us, give_way},
	{rotate_due_us, start_rotation},
	{probes_due_us, probe_servers},
};

void pool_fleet_tend(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	gboolean was_served = self->is_served;
	GError *failure = NULL;

	self->need = need;
	if (need != POOL_NEED_MORE) {
		self->needed_since_us = POOL_NEVER_US;
	} else {
		self->last_needed_at_us = now_us;
		self->needed_since_us = MIN(self->needed_since_us, now_us);
	}
	self->is_served = best_rank(self, now_us) != POOL_SERVER_USELESS;
	if (was_served && !self->is_served)
		self->retry_at_us = next_retry_us(self, now_us);
	choose_first(self, now_us);
	pool_discovery_take_names(&self->discovery, now_us, &failure);
	if (failure != NULL)
		set_failure(self, failure);
	finish_rotation(self, now_us);
	for (gsize i = 0; i < G_N_ELEMENTS(TIMERS); i++)
		if (now_us >= TIMERS[i].due_us(self, now_us))
			TIMERS[i].run(self, now_us);
}

gint64 pool_fleet_next_us(const PoolFleet *self, gint64 now_us)
{
	gint64 next_us = POOL_NEVER_US;

	FOR_EACH_SERVER (self, server)
		next_us = MIN(next_us, pool_server_next_us(server, now_us));
	for (gsize i = 0; i < G_N_ELEMENTS(TIMERS); i++)
		next_us = MIN(next_us, TIMERS[i].due_us(self, now_us));
	return next_us;
}

/* Draws */

static gboolean can_draw_from_first(const PoolFleet *self, guint count, gint64 now_us)
{
	return self->first != NULL && pool_server_is_idle(self->first) &&
	       count < pool_server_refused_count(self->first) &&
	       pool_server_rank(self->first, now_us) != POOL_SERVER_USELESS;
}

PoolServer *pool_fleet_choose(PoolFleet *self, gint64 now_us)
{
	if (self->first == NULL)
		return NULL;
	if (pool_server_is_idle(self->first))
		return can_draw_from_first(self, 1, now_us) ? self->first : NULL;
	if (self->need != POOL_NEED_MORE ||
	    now_us - self->needed_since_us < pool_server_patience_us(self->first, PATIENCE_US))
		return NULL;
	return find_idle(self, 1, self->first, now_us);
}

PoolServer *pool_fleet_choose_for_batch(PoolFleet *self, guint count, gint64 now_us)
{
	if (can_draw_from_first(self, count, now_us))
		return self->first;
	return find_idle(self, count, self->first, now_us);
}

gint64 pool_fleet_round_trip_us(const PoolFleet *self)
{
	return self->first != NULL ? self->first->round_trip_us : 0;
}
