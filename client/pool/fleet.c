/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/fleet.h"

#include "client/worker-conflict.h"
#include "common/worker-kind.h"

#define WANTED_SERVERS   2 /* the first server and a spare */
/* how long to wait at the start until all tried servers have answered */
#define SETTLE_US        100000
/* another server is also used when more IDs have been needed for this long */
#define PATIENCE_US      5000
#define PROBE_US         500000 /* time between two probes of a server */
/* time between two probes if the pool is watched and no IDs are taken */
#define WATCH_US         2000000
/* a surplus server is closed when no more IDs have been needed for this long */
#define EASE_US          2000000
#define REPLACE_US       1000000 /* maximum time until a lost server is replaced */
#define UNFIT_BACKOFF_US 200000
/* backoff of an endpoint whose server is already connected through another one */
#define TWIN_BACKOFF_US  60000000
/* number of backoffs to end at a time while no server is fit */
#define RETRY_ENDPOINTS  8
#define RETRY_US         250000 /* pause after these backoffs were ended */
#define RETRY_SPREAD_US  500000
/* number of connections that are kept while no server is fit */
#define KEPT_SERVERS     2
#define ROTATE_US        60000000 /* time between two rotations */
#define ROTATE_SPREAD_US 60000000
#define EXCLUDED_MINUTES 10 /* exclusion of a server whose IDs are not unique */
/* maximum age of another server's report in a comparison; an older one may be that of a server that
 * has ended, and whose worker ID another server has got */
#define RECENT_US        WATCH_US
#define MAX_SEEN_RUNS    16384 /* number of stored runs, or more if the last reply has more */

/* IDs of recent replies */

static const SnowflakeClientIdRun *run_at(const GArray *runs, guint index)
{
	return &g_array_index(runs, SnowflakeClientIdRun, index);
}

static gint64 last_id_of(const SnowflakeClientIdRun *run)
{
	return run->first + (run->count - 1);
}

static void remove_oldest_reply(PoolSeen *self)
{
	self->n_runs -= self->replies[self->oldest].runs->len;
	g_clear_pointer(&self->replies[self->oldest].runs, g_array_unref);
	g_clear_pointer(&self->replies[self->oldest].server, g_free);
	self->oldest = (self->oldest + 1) % POOL_SEEN_REPLIES;
	self->count--;
}

/* Both arrays are increasing. Returns: %FALSE if they have no ID in common */
static gboolean find_common_id(const GArray *runs, const GArray *others, gint64 *out_id)
{
	for (guint i = 0, j = 0; i < runs->len && j < others->len;) {
		const SnowflakeClientIdRun *one = run_at(runs, i);
		const SnowflakeClientIdRun *other = run_at(others, j);

		if (last_id_of(one) < other->first) {
			i++;
		} else if (last_id_of(other) < one->first) {
			j++;
		} else {
			*out_id = MAX(one->first, other->first);
			return TRUE;
		}
	}
	return FALSE;
}

/* Returns: (nullable): the server that has already sent one of the IDs in @runs. @runs: increasing
 * @out_id: (out): this ID; untouched if there is none */
static const char *find_seen(const PoolSeen *self, const GArray *runs, gint64 *out_id)
{
	gint64 first = run_at(runs, 0)->first;
	gint64 last = last_id_of(run_at(runs, runs->len - 1));

	for (guint i = 0; i < self->count; i++) {
		guint at = (self->oldest + i) % POOL_SEEN_REPLIES;

		if (self->replies[at].first <= last && self->replies[at].last >= first &&
		    find_common_id(runs, self->replies[at].runs, out_id))
			return self->replies[at].server;
	}
	return NULL;
}

static void remember_reply(PoolSeen *self, const char *server, const GArray *runs)
{
	guint at;

	while (self->count == POOL_SEEN_REPLIES ||
	       (self->count > 0 && self->n_runs + runs->len > MAX_SEEN_RUNS))
		remove_oldest_reply(self);
	at = (self->oldest + self->count) % POOL_SEEN_REPLIES;
	self->replies[at].first = run_at(runs, 0)->first;
	self->replies[at].last = last_id_of(run_at(runs, runs->len - 1));
	self->replies[at].runs =
		g_array_sized_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun), runs->len);
	g_array_append_vals(self->replies[at].runs, runs->data, runs->len);
	self->replies[at].server = g_strdup(server);
	self->n_runs += runs->len;
	self->count++;
}

/* The fleet */

static gint64 next_retry_us(PoolFleet *self, gint64 now_us)
{
	return now_us + RETRY_US + pool_endpoints_random(self->endpoints, RETRY_SPREAD_US);
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
	self->rotate_at_us =
		now_us + ROTATE_US + pool_endpoints_random(self->endpoints, ROTATE_SPREAD_US);
}

void pool_fleet_clear(PoolFleet *self)
{
	FOR_EACH_SERVER (self, server)
		pool_server_free(server);
	pool_discovery_clear(&self->discovery);
	while (self->seen.count > 0)
		remove_oldest_reply(&self->seen);
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

static gint best_rank(const PoolFleet *self, gint64 now_us)
{
	gint best = POOL_SERVER_USELESS;

	FOR_EACH_SERVER (self, server)
		best = MIN(best, pool_server_rank(server, now_us));
	return best;
}

/* Returns: the longest round trip of a server that counts as near, among servers of this rank: 1.5
 * times the shortest one; POOL_NEVER_US if there are no such servers */
static gint64 near_us(const PoolFleet *self, gint rank, gint64 now_us)
{
	gint64 best_us = POOL_NEVER_US;

	FOR_EACH_SERVER (self, server)
		if (pool_server_rank(server, now_us) == rank)
			best_us = MIN(best_us, server->round_trip_us);
	return best_us != POOL_NEVER_US ? best_us + best_us / 2 : POOL_NEVER_US;
}

static gboolean can_draw(const PoolServer *server, guint count, gint64 now_us)
{
	return pool_server_is_idle(server) &&
	       count < batch_limits_offer(&server->limits, CLIENT_RESULT_RUNS).refused_count &&
	       pool_server_rank(server, now_us) != POOL_SERVER_USELESS;
}

static PoolServer *find_idle(const PoolFleet *self, guint count, const PoolServer *except,
			     gint64 now_us)
{
	FOR_EACH_SERVER (self, server)
		if (server != except && can_draw(server, count, now_us))
			return server;
	return NULL;
}

gboolean pool_fleet_is_listing(const PoolFleet *self)
{
	FOR_EACH_SERVER (self, server)
		if (server->connection->state == CLIENT_CONNECTION_CALLING &&
		    server->call.result == CLIENT_RESULT_WORKERS)
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

/* If any server is fit, chooses the first server at random from the best servers that are about as
 * near as the nearest. This does not count as a failover, because the previous first server did not
 * fail. */
static void redraw_first(PoolFleet *self, gint64 now_us)
{
	gint wanted = best_rank(self, now_us);
	gint64 limit_us = near_us(self, wanted, now_us);
	PoolServer *drawn = self->first;
	guint seen = 0;

	if (wanted == POOL_SERVER_USELESS)
		return;
	FOR_EACH_SERVER (self, server)
		if (pool_server_rank(server, now_us) == wanted &&
		    server->round_trip_us <= limit_us &&
		    pool_endpoints_random(self->endpoints, ++seen) == 0)
			drawn = server;
	self->first = drawn;
}

/* Events */

static void forget_server(PoolFleet *self, PoolServer **server)
{
	if (*server == self->candidate)
		self->candidate = NULL;
	pool_endpoints_set_linked(self->endpoints, (*server)->endpoint, FALSE);
	g_clear_pointer(server, pool_server_free);
}

/* Closes the connection, and starts the backoff. When a server dies, all its clients notice it at
 * the same time, but must not all connect to other servers at the same time. A server that never
 * answered is replaced without a pause, because the failed attempt has already taken time. */
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

/* @sender: (nullable): the server that sent the same ID before, or issues the same IDs */
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
	pool_endpoints_exclude(self->endpoints, (*server)->endpoint,
			       now_us + EXCLUDED_MINUTES * G_TIME_SPAN_MINUTE);
	drop_server(self, server, now_us, 0);
}

static gboolean is_relay(const PoolServer *server)
{
	return server->worker != NULL && g_str_equal(server->worker->kind, WORKER_KIND_RELAY);
}

/* If two servers send the same ID, either may be wrong. The later one is excluded, which suffices
 * for this pool to hand out each ID once.
 * Returns: %FALSE if the IDs must not be handed out; the connection is then closed */
static gboolean accept_ids(PoolFleet *self, PoolServer **server, const GArray *runs, gint64 now_us)
{
	PoolEndpoint *endpoint = (*server)->endpoint;
	gint64 first = run_at(runs, 0)->first;
	gint64 id;
	const char *sender = find_seen(&self->seen, runs, &id);
	/* IDs from a relay may decrease, because its prefetched IDs are older than those of a
	 * batch */
	gboolean goes_back = !is_relay(*server) && first <= endpoint->last_id;
	g_autofree char *why = NULL;

	if (sender != NULL) {
		why = g_strdup_printf("sent ID %" G_GINT64_FORMAT
				      ", which %s had sent before: the IDs are not unique; "
				      "excluded for %d minutes",
				      id, sender, EXCLUDED_MINUTES);
		exclude_for_proof(self, server, why, sender, now_us);
	} else if (goes_back && endpoint->has_gone_back) {
		why = g_strdup_printf(
			"sent ID %" G_GINT64_FORMAT " after ID %" G_GINT64_FORMAT
			": its IDs decreased on two connections; excluded for %d minutes",
			first, endpoint->last_id, EXCLUDED_MINUTES);
		exclude_for_proof(self, server, why, NULL, now_us);
	} else if (goes_back) {
		/* a single occurrence proves nothing, because the server may have got another
		 * worker ID; on the next connection, it reports its nonce and worker ID before any
		 * draw */
		endpoint->has_gone_back = TRUE;
		why = g_strdup_printf("ID %" G_GINT64_FORMAT " after ID %" G_GINT64_FORMAT, first,
				      endpoint->last_id);
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, why);
		drop_server(self, server, now_us, 0);
	} else {
		endpoint->last_id = last_id_of(run_at(runs, runs->len - 1));
		endpoint->has_gone_back = FALSE;
		endpoint->last_datacenter_id = endpoint->datacenter_id;
		endpoint->last_worker_id = endpoint->worker_id;
		remember_reply(&self->seen, endpoint->text, runs);
		g_clear_error(&self->failure);
		return TRUE;
	}
	return FALSE;
}

/* The server that reports later is excluded, as in accept_ids().
 * Returns: %FALSE if the server issues the same IDs as another one; the connection is then closed
 */
static gboolean accept_worker(PoolFleet *self, PoolServer **server, gint64 now_us)
{
	FOR_EACH_SERVER (self, other) {
		gboolean is_recent = other != *server && other->worker != NULL &&
				     now_us - other->answered_at_us <= RECENT_US;
		g_autofree char *conflict =
			is_recent ? worker_conflict_describe((*server)->worker, other->worker,
							     other->endpoint->text)
				  : NULL;
		g_autofree char *why = NULL;

		if (conflict == NULL)
			continue;
		why = g_strdup_printf("%s; excluded for %d minutes", conflict, EXCLUDED_MINUTES);
		exclude_for_proof(self, server, why, other->endpoint->text, now_us);
		return FALSE;
	}
	return TRUE;
}

static void handle_probe(PoolFleet *self, PoolServer **server, gint64 now_us)
{
	const SnowflakeClientWorker *worker = (*server)->worker;
	PoolEndpoint *endpoint = (*server)->endpoint;
	const char *nonce = worker != NULL && *worker->nonce != '\0' ? worker->nonce : NULL;
	gint64 excluded_until_us =
		nonce != NULL ? pool_endpoints_excluded_until_us(self->endpoints, nonce) : 0;
	gboolean has_twin = FALSE; /* this is a connection to the same process under another name */
	const char *why = NULL;
	gint64 backoff_us = 0;

	if (excluded_until_us > now_us) {
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
				   "excluded: the same process was excluded at another address, "
				   "because its IDs are not unique");
		pool_endpoints_exclude(self->endpoints, endpoint, excluded_until_us);
		drop_server(self, server, now_us, 0);
		return;
	}
	if (worker != NULL && !accept_worker(self, server, now_us))
		return;
	FOR_EACH_SERVER (self, other)
		has_twin |= other != *server && nonce != NULL && other->worker != NULL &&
			    g_str_equal(other->worker->nonce, nonce);
	/* a second connection to the same server does not help if the server dies */
	if (*server != self->first && has_twin) {
		backoff_us = TWIN_BACKOFF_US;
	} else if (nonce != NULL && g_strcmp0(nonce, self->config->own_nonce) == 0) {
		why = "this address is the relay itself; remove it from --relay";
		backoff_us = TWIN_BACKOFF_US;
	} else if ((*server)->fitness == POOL_SERVER_UNFIT) {
		why = is_relay(*server) ? "it is a relay that reaches no server"
					: "it has no worker ID";
		backoff_us = UNFIT_BACKOFF_US;
	}
	if (why != NULL)
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE, why);
	if (backoff_us > 0) {
		drop_server(self, server, now_us, backoff_us);
		return;
	}
	/* the server's refusal of the draw is more informative */
	if ((*server)->fitness == POOL_SERVER_WAITING && self->failure == NULL)
		set_server_failure(self, endpoint, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
				   "it waits for its clock to catch up");
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

static void close_server(PoolFleet *self, const PoolServer *server)
{
	for (guint i = 0; i < POOL_FLEET_MAX_SERVERS; i++)
		if (self->servers[i] == server)
			forget_server(self, &self->servers[i]);
}

static void connect_to(PoolFleet *self, PoolServer **server, PoolEndpoint *endpoint, gint64 now_us)
{
	GError *failure = NULL;

	*server = pool_server_new(endpoint, self->config->tls, now_us, &failure);
	if (*server != NULL) {
		pool_endpoints_set_linked(self->endpoints, endpoint, TRUE);
		return;
	}
	g_prefix_error(&failure, "%s: ", endpoint->text);
	set_failure(self, failure);
	pool_endpoints_back_off(self->endpoints, endpoint, now_us, 0);
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

/* Timers. Each of the following functions returns when its timer is due; POOL_NEVER_US if it is not
 * due until something else changes. With @runs, it first does what is due. */

/* At the start, chooses the first server again, from all tried servers, because the current one is
 * only the first that answered. */
static gint64 settle(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 due_us = self->is_settled ? POOL_NEVER_US : self->settle_at_us;

	if (runs && now_us >= due_us) {
		self->is_settled = TRUE;
		redraw_first(self, now_us);
	}
	return due_us;
}

/* Endpoints are not needed while no IDs are taken. But a watched pool without enough servers needs
 * them, because the servers that it knows may be gone for good. */
static gint64 discover_endpoints(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gboolean lacks_server = !self->is_served || count_servers(self) < WANTED_SERVERS;
	gboolean is_needed = self->need != POOL_NEED_NONE || (self->is_watched && lacks_server);
	gint64 due_us =
		pool_discovery_next_us(&self->discovery, is_needed, best_rank(self, now_us) == 0);

	if (!runs || now_us < due_us)
		return due_us;
	/* request one list at a time, so that silent servers do not keep all servers busy */
	if (pool_fleet_is_listing(self))
		pool_discovery_put_off(&self->discovery, FALSE, now_us);
	else if (self->config->discover && pool_fleet_list(self, now_us))
		pool_discovery_put_off(&self->discovery, TRUE, now_us);
	else
		pool_discovery_resolve(&self->discovery, now_us);
	return due_us;
}

/* Closes the farthest spare server. If all are about as near, closes a random one; otherwise all
 * pools that started at the same time would keep the same server. */
static gint64 close_surplus(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 due_us = self->last_needed_at_us + EASE_US;
	PoolServer *farthest = NULL;
	PoolServer *drawn = NULL;
	gint64 limit_us;
	guint seen = 0;

	if (count_servers(self) <= wanted_servers(self, now_us))
		return POOL_NEVER_US;
	FOR_EACH_SERVER (self, server) {
		if (!is_spare(self, server))
			continue;
		if (farthest == NULL || server->round_trip_us > farthest->round_trip_us)
			farthest = server;
		if (runs && now_us >= due_us && pool_endpoints_random(self->endpoints, ++seen) == 0)
			drawn = server;
	}
	if (farthest == NULL)
		return POOL_NEVER_US;
	if (drawn != NULL) {
		limit_us = near_us(self, best_rank(self, now_us), now_us);
		close_server(self, farthest->round_trip_us > limit_us ? farthest : drawn);
	}
	return due_us;
}

/* While no server is fit, ends backoffs early. All backoffs are long after a fleet was unreachable
 * for a long time; ending some early finds the fleet soon after it returns. */
static gint64 end_backoffs(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 due_us = self->retry_at_us;

	if (self->is_served || pool_endpoints_next_us(self->endpoints) == POOL_NEVER_US)
		return POOL_NEVER_US;
	if (!runs || now_us < due_us)
		return due_us;
	for (guint i = 0; i < RETRY_ENDPOINTS; i++)
		if (!pool_endpoints_end_a_backoff(self->endpoints, now_us))
			break;
	self->retry_at_us = next_retry_us(self, now_us);
	return due_us;
}

/* Replaces a lost server: immediately if no server is fit, and soon if more IDs are needed. */
static gint64 connect_servers(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 due_us = self->is_served ? self->replace_at_us : 0;

	if (count_servers(self) >= wanted_servers(self, now_us))
		return POOL_NEVER_US;
	if (self->needed_since_us != POOL_NEVER_US)
		due_us = MIN(due_us, self->needed_since_us + PATIENCE_US);
	due_us = MAX(due_us, pool_endpoints_next_us(self->endpoints));
	if (!runs || now_us < due_us)
		return due_us;
	for (guint i = 0; i < POOL_FLEET_MAX_SERVERS; i++) {
		PoolEndpoint *endpoint;

		if (count_servers(self) >= wanted_servers(self, now_us))
			break;
		if (self->servers[i] != NULL)
			continue;
		endpoint = pool_endpoints_draw(self->endpoints, now_us);
		if (endpoint == NULL)
			break;
		connect_to(self, &self->servers[i], endpoint, now_us);
	}
	return due_us;
}

/* While no server is fit and some endpoints have not been tried yet, servers that never answer or
 * that refuse must not occupy all connections. Only the first few may use their full time limit. */
static gint64 replace_useless_servers(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 due_us = POOL_NEVER_US;

	if (self->is_served || count_servers(self) < POOL_FLEET_MAX_SERVERS)
		return POOL_NEVER_US;
	for (guint i = KEPT_SERVERS; i < POOL_FLEET_MAX_SERVERS; i++) {
		PoolServer **server = &self->servers[i];
		gint64 gives_way_us = pool_server_gives_way_us(*server);

		if (pool_endpoints_next_us(self->endpoints) != 0)
			break;
		due_us = MIN(due_us, gives_way_us);
		if (!runs || now_us < gives_way_us)
			continue;
		if ((*server)->fitness == POOL_SERVER_UNKNOWN)
			set_server_failure(
				self, (*server)->endpoint, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
				"no answer within " G_STRINGIFY(POOL_SERVER_GIVE_WAY_MS) " ms");
		drop_server(self, server, now_us, 0);
		connect_to(self, server, pool_endpoints_draw(self->endpoints, 0), now_us);
		if (*server == NULL)
			break;
	}
	return due_us;
}

/* From time to time, another server replaces the spare one. Otherwise no pool would use a server
 * that has returned, and a server with many pools would keep all of them. */
static gint64 begin_rotation(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 due_us = MAX(self->rotate_at_us, pool_endpoints_next_us(self->endpoints));
	guint unused = 0;

	if (!self->is_settled || self->candidate != NULL || count_servers(self) != WANTED_SERVERS)
		return POOL_NEVER_US;
	if (!runs || now_us < due_us)
		return due_us;
	while (self->servers[unused] != NULL)
		unused++;
	connect_to(self, &self->servers[unused], pool_endpoints_draw(self->endpoints, now_us),
		   now_us);
	self->candidate = self->servers[unused];
	self->rotate_at_us =
		now_us + ROTATE_US + pool_endpoints_random(self->endpoints, ROTATE_SPREAD_US);
	return due_us;
}

/* A server with a long round trip is probed less often, so that it has time for draws. */
static gint64 probe_servers(PoolFleet *self, gint64 now_us, gboolean runs)
{
	gint64 first_us = POOL_NEVER_US;

	FOR_EACH_SERVER (self, server) {
		gint64 due_us = POOL_NEVER_US;

		if (!pool_server_is_idle(server))
			continue;
		if (server->probed_at_us == 0)
			due_us = 0;
		else if (self->need != POOL_NEED_NONE)
			due_us = server->answered_at_us + pool_server_patience_us(server, PROBE_US);
		else if (self->is_watched)
			due_us = server->answered_at_us + WATCH_US;
		if (runs && now_us >= due_us)
			pool_server_probe(server, now_us);
		first_us = MIN(first_us, due_us);
	}
	return first_us;
}

/* The timers, in the order in which they run. */
static gint64 (*const TIMERS[])(PoolFleet *self, gint64 now_us, gboolean runs) = {
	settle,          discover_endpoints,      close_surplus,  end_backoffs,
	connect_servers, replace_useless_servers, begin_rotation, probe_servers,
};

/* Tending */

/* Ends a rotation when the candidate has answered. Chooses the first server again, so that the load
 * is balanced. Closes one server: not the first one, and the candidate only if it is worse. */
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

void pool_fleet_tend(PoolFleet *self, PoolNeed need, gint64 now_us)
{
	gboolean was_served = self->is_served;
	gint best = best_rank(self, now_us);
	GError *failure = NULL;

	self->need = need;
	if (need != POOL_NEED_MORE) {
		self->needed_since_us = POOL_NEVER_US;
	} else {
		self->last_needed_at_us = now_us;
		self->needed_since_us = MIN(self->needed_since_us, now_us);
	}
	self->is_served = best != POOL_SERVER_USELESS;
	if (was_served && !self->is_served)
		self->retry_at_us = next_retry_us(self, now_us);
	/* replace the first with a better server */
	if (self->is_served &&
	    (self->first == NULL || pool_server_rank(self->first, now_us) > best)) {
		self->failovers += self->first != NULL || self->has_lost_first;
		self->has_lost_first = FALSE;
		redraw_first(self, now_us);
	}
	pool_discovery_take_names(&self->discovery, now_us, &failure);
	if (failure != NULL)
		set_failure(self, failure);
	finish_rotation(self, now_us);
	for (gsize i = 0; i < G_N_ELEMENTS(TIMERS); i++)
		TIMERS[i](self, now_us, TRUE);
}

gint64 pool_fleet_next_us(PoolFleet *self, gint64 now_us)
{
	gint64 next_us = POOL_NEVER_US;

	FOR_EACH_SERVER (self, server)
		next_us = MIN(next_us, pool_server_next_us(server, now_us));
	for (gsize i = 0; i < G_N_ELEMENTS(TIMERS); i++)
		next_us = MIN(next_us, TIMERS[i](self, now_us, FALSE));
	return next_us;
}

/* Draws */

PoolServer *pool_fleet_choose(PoolFleet *self, gint64 now_us)
{
	if (self->first == NULL)
		return NULL;
	if (pool_server_is_idle(self->first))
		return can_draw(self->first, 1, now_us) ? self->first : NULL;
	if (self->need != POOL_NEED_MORE ||
	    now_us - self->needed_since_us < pool_server_patience_us(self->first, PATIENCE_US))
		return NULL;
	return find_idle(self, 1, self->first, now_us);
}

PoolServer *pool_fleet_choose_for_batch(PoolFleet *self, guint count, gint64 now_us)
{
	if (self->first != NULL && can_draw(self->first, count, now_us))
		return self->first;
	return find_idle(self, count, self->first, now_us);
}
