/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/registry.h"

#include "common/log.h"
#include "worker/zookeeper/reservation.h"
#include "worker/zookeeper/session-events.h"
#include "worker/zookeeper/session-opening.h"
#include "worker/zookeeper/states.h"

/*
 * Each poll takes in what ZooKeeper has said, looks after the session, and lets the registration go
 * from state to state until it waits for something. What the keeper wants is the goal.
 */

/* For a session to be closed before the process ends, and its claim to go. */
#define CLOSE_PATIENCE_MS 2000

#define FIRST_LENGTH_MS 10000

static void set_state(Registration *self, RegistrationState state)
{
	if (state == self->step.state)
		return;
	log_event(LOG_REGISTRATION, log_text("from", registration_state_name(self->step.state)),
		  log_text("to", registration_state_name(state)));
	self->step.state = state;
}

/* Goals that cannot wait for a connection, or for an answer */

static gboolean is_for_stop(const Registration *self)
{
	return self->registry.stop_by_us != 0 &&
	       (self->goal.cancelled || self->facts.goal == REGISTRY_HAND_BACK);
}

/* Whether what is held has ended, so that there is nothing to be handed back any more. */
static gboolean is_spent(const Registration *self)
{
	return self->holding.held && !self->facts.unsettled &&
	       self->now_tick > self->holding.end_tick;
}

static gint64 give_up_at_us(const Registration *self)
{
	/* ZooKeeper may be connected, and silent */
	if (is_for_stop(self) && !is_spent(self))
		return self->registry.stop_by_us;
	if (self->facts.connected)
		return G_MAXINT64;
	switch (self->facts.goal) {
	case REGISTRY_CLAIM: /* before it has served; later it holds out */
		if (self->goal.served)
			return G_MAXINT64;
		return MAX(self->goal.since_us, self->connection.lost_us) +
		       self->config.connect_timeout_ms * G_TIME_SPAN_MILLISECOND;
	case REGISTRY_EXTEND:
	case REGISTRY_HAND_BACK:
		return self->goal.since_us;
	case REGISTRY_NONE:
		break;
	}
	return G_MAXINT64;
}

/* Fails the claim as soon as it is known why there is no connection. */
static void fail_to_connect(Registration *self)
{
	g_autofree char *why = NULL;

	if (!zookeeper_session_opening_find_why_not(self, &why))
		return;
	registration_fail(self, REGISTRY_ERROR_FATAL,
			  "no connection to ZooKeeper at %s within %" G_GINT64_FORMAT " ms: %s",
			  self->config.servers, self->config.connect_timeout_ms,
			  why != NULL ? why : "is it running, and is the address right?");
}

static void give_up(Registration *self)
{
	if (self->facts.goal == REGISTRY_CLAIM) /* the server has not served, and ends */
		fail_to_connect(self);
	else
		registration_fail(self, REGISTRY_ERROR_FAILED, "no %s ZooKeeper at %s%s",
				  self->facts.connected ? "answer from" : "connection to",
				  self->config.servers,
				  is_for_stop(self) ? "; the claim goes when the session ends"
						    : "");
}

/* Whether a cancelled goal can be let go: nothing that was written is left in doubt, unless there
 * is nobody who could tell. */
static gboolean may_cancel(const Registration *self)
{
	if (!self->facts.connected || self->facts.now_us >= give_up_at_us(self))
		return TRUE;
	return !self->facts.unsettled && self->step.state != REGISTRATION_RESERVING &&
	       self->step.state != REGISTRATION_EXTENDING;
}

static void look_after_goal(Registration *self)
{
	if (self->facts.goal != REGISTRY_CLAIM || self->facts.connected)
		zookeeper_session_opening_drop_why_not(self);
	if (self->facts.goal == REGISTRY_NONE)
		return;
	if (self->goal.cancelled && may_cancel(self)) {
		registration_fail(self, REGISTRY_ERROR_FAILED, "the server stops");
		self->facts.chosen = FALSE;
	} else if (self->facts.now_us >= give_up_at_us(self)) {
		give_up(self);
	}
}

/* The keeper hears of it at once, whatever it wants. */
static void report_loss(Registration *self)
{
	g_autofree char *why = NULL;

	if (self->lost_why == NULL || self->goal.finished)
		return;
	why = g_steal_pointer(&self->lost_why);
	/* of a server that goes on it is owed */
	if (self->facts.goal == REGISTRY_HAND_BACK && !is_for_stop(self))
		registration_fail(self, REGISTRY_ERROR_FAILED, "%s", why);
	else
		registration_fail(self, REGISTRY_ERROR_LOST, "%s", why);
}

static void go_on(Registration *self)
{
	gboolean started = TRUE;

	while (started && !self->step.busy) {
		zookeeper_reservation_look(self);
		set_state(self, zookeeper_plan_next(&self->facts));
		started = zookeeper_states_start(self);
	}
}

static gint64 look_again_at_us(const Registration *self)
{
	/* the probe wakes the keeper when it is known why there is no connection */
	gint64 at_us = self->opening.probe == NULL ? give_up_at_us(self) : G_MAXINT64;

	if (self->lost_why != NULL)
		return self->facts.now_us;
	at_us = MIN(at_us, zookeeper_session_opening_at_us(self));
	at_us = MIN(at_us, zookeeper_session_events_tell_at_us(self));
	if (self->goal.look_again_us != 0)
		at_us = MIN(at_us, self->goal.look_again_us);
	if (self->step.state == REGISTRATION_PAUSING)
		at_us = MIN(at_us, self->facts.pause_till_us);
	if (self->step.state == REGISTRATION_RESTING && self->facts.repay_at_us != 0)
		at_us = MIN(at_us, self->facts.repay_at_us);
	if (self->step.state == REGISTRATION_DOUBTING)
		at_us = MIN(at_us, self->facts.doubtful_till_us);
	return at_us;
}

static KeeperSession session_of(const Registration *self)
{
	if (self->facts.connected)
		return KEEPER_SESSION_CONNECTED;
	return self->connection.lost_us != 0 ? KEEPER_SESSION_LOST : KEEPER_SESSION_CONNECTING;
}

static gboolean zookeeper_registry_poll(Registry *registry, gint64 now_tick,
					RegistryResult *out_result)
{
	Registration *self = (Registration *)registry;

	self->now_tick = now_tick;
	self->facts.now_us = g_get_monotonic_time();
	if (self->goal.since_us == 0) /* nothing was wanted yet */
		return FALSE;
	zookeeper_session_events_take(self);
	report_loss(self);
	zookeeper_session_events_look_after(self);
	if (self->facts.goal != REGISTRY_NONE)
		zookeeper_states_put_off_list(self);
	look_after_goal(self);
	go_on(self);
	look_after_goal(self);
	if (self->goal.look_again_us != 0 && self->facts.now_us >= self->goal.look_again_us) {
		self->goal.look_again_us = 0;
		self->registry.retry_now = TRUE;
	}
	self->registry.reachable = self->facts.connected;
	self->registry.session = session_of(self);
	self->registry.poll_at_us = look_again_at_us(self);
	if (!self->goal.finished)
		return FALSE;
	self->goal.finished = FALSE;
	*out_result = self->goal.result;
	self->goal.result = (RegistryResult){0};
	return TRUE;
}

static void set_goal(Registration *self, RegistryOperation goal)
{
	g_assert(self->facts.goal == REGISTRY_NONE && !self->goal.finished);
	self->facts.goal = goal;
	self->goal.look_again_us = 0;
	self->goal.since_us = g_get_monotonic_time();
	self->goal.result = (RegistryResult){0};
}

static void zookeeper_registry_claim(Registry *registry, gint64 length_ticks)
{
	Registration *self = (Registration *)registry;

	set_goal(self, REGISTRY_CLAIM);
	self->goal.length_ticks = length_ticks;
	self->goal.n_passed_over = 0;
	self->goal.lost_race = FALSE;
	registration_look_anew(self);
}

static void zookeeper_registry_extend(Registry *registry, gint64 end_tick)
{
	Registration *self = (Registration *)registry;

	set_goal(self, REGISTRY_EXTEND);
	self->goal.end_tick = end_tick;
}

static void zookeeper_registry_hand_back(Registry *registry, gint64 last_tick)
{
	Registration *self = (Registration *)registry;

	set_goal(self, REGISTRY_HAND_BACK);
	self->goal.last_tick = last_tick;
}

static void zookeeper_registry_cancel(Registry *registry)
{
	Registration *self = (Registration *)registry;

	self->goal.cancelled = self->facts.goal != REGISTRY_NONE;
}

static void zookeeper_registry_ask_clock(Registry *registry)
{
	((Registration *)registry)->facts.wants_time = TRUE;
}

static void zookeeper_registry_list(Registry *registry)
{
	((Registration *)registry)->facts.wants_list = TRUE;
}

static void zookeeper_registry_free(Registry *registry)
{
	Registration *self = (Registration *)registry;

	g_clear_pointer(&self->peers.check, peer_check_free);
	g_clear_pointer(&self->peers.clocks, peer_check_free);
	g_clear_pointer(&self->listing, zookeeper_listing_free);
	g_clear_pointer(&self->guard, zookeeper_guard_free);
	g_clear_pointer(&self->preparation.missing, g_ptr_array_unref);
	zookeeper_session_opening_drop(self);
	zookeeper_session_opening_drop_why_not(self);
	if (self->session != NULL)
		zookeeper_session_close(self->session, CLOSE_PATIENCE_MS);
	g_clear_pointer(&self->list.datacenters, g_array_unref);
	g_clear_pointer(&self->list.workers, g_ptr_array_unref);
	g_clear_pointer(&self->list.quarantined, g_ptr_array_unref);
	g_clear_pointer(&self->registry.workers, g_ptr_array_unref);
	g_clear_pointer(&self->registry.quarantined, g_ptr_array_unref);
	if (self->goal.finished)
		g_clear_error(&self->goal.result.error);
	g_free(self->config.program);
	tls_names_clear(&self->config.tls);
	tls_client_unref(self->peers.tls);
	g_free(self->config.host);
	g_free(self->config.name);
	g_free(self->claim.path);
	peer_report_clear(&self->peers.earlier);
	g_free(self->lost_why);
	g_free(self->registry.hindrance);
	g_strfreev(self->opening.addresses);
	g_free(self->opening.unknown);
	g_free(self->paths.layout);
	g_free(self->paths.limits);
	g_free(self->paths.floor);
	g_free(self->paths.claims);
	g_free(self->paths.reservations);
	g_free(self->config.servers);
	g_free(self->config.certificates);
	g_free(self->config.root);
	g_free(self->config.auth);
	g_free(self->config.nonce);
	g_free(self->config.version);
	g_free(self);
}

static const RegistryOps ZOOKEEPER_REGISTRY_OPS = {
	.claim = zookeeper_registry_claim,
	.extend = zookeeper_registry_extend,
	.hand_back = zookeeper_registry_hand_back,
	.poll = zookeeper_registry_poll,
	.cancel = zookeeper_registry_cancel,
	.ask_clock = zookeeper_registry_ask_clock,
	.list = zookeeper_registry_list,
	.free = zookeeper_registry_free,
};

/* Who it is, as its claim and its records have it. */
static void set_identity(Registration *self, const ZookeeperRegistryConfig *config)
{
	const Address *address = config->address;

	self->config.program = address == NULL ? g_strdup(config->program) : NULL;
	self->config.host = g_strdup(address != NULL ? address->host : config->host);
	self->config.port = address != NULL ? address->port : 0;
	self->config.is_tls = address != NULL && address->is_tls;
	self->config.name = address != NULL ? g_strdup(address->text)
					    : g_strconcat(config->program, "@", config->host, NULL);
}

Registry *zookeeper_registry_new(const ZookeeperRegistryConfig *config)
{
	Registration *self = g_new0(Registration, 1);
	const char *root = config->hosts->root;

	self->registry = (Registry){
		.ops = &ZOOKEEPER_REGISTRY_OPS,
		.first_length_ms = MIN(FIRST_LENGTH_MS, config->max_length_ms),
		.max_length_ms = config->max_length_ms,
		.extend_when_idle = TRUE,
		.session = KEEPER_SESSION_CONNECTING,
		.poll_at_us = G_MAXINT64,
	};
	self->config.servers = g_strdup(config->hosts->servers);
	/* or it would speak without */
	g_assert(!config->hosts->is_tls || config->hosts->certificates != NULL);
	self->config.certificates = g_strdup(config->hosts->certificates);
	self->config.root = g_strdup(root);
	self->config.auth = g_strdup(config->auth);
	self->config.nonce = g_strdup(config->nonce);
	self->config.version = g_strdup(config->version);
	set_identity(self, config);
	self->config.tls = tls_names_copy(&config->tls);
	self->config.layout = *config->layout;
	self->config.clock = config->clock;
	self->config.datacenter_id = config->datacenter_id;
	self->config.worker_id = config->worker_id;
	self->config.preferred_worker_id = config->preferred_worker_id;
	self->config.session_timeout_ms = config->session_timeout_ms;
	self->config.connect_timeout_ms = config->connect_timeout_ms;
	self->config.max_clock_skew_ms = config->max_clock_skew_ms;
	self->config.started_ms = clock_now_ms(&config->clock->clock);
	self->paths.layout = znode_layout(root);
	self->paths.limits = znode_limits(root);
	self->paths.floor = znode_floor(root, config->datacenter_id);
	self->paths.claims = znode_claims(root, config->datacenter_id);
	self->paths.reservations = znode_reservations(root, config->datacenter_id);
	self->step.state = REGISTRATION_CONNECTING;
	self->facts.claim = CLAIM_NONE; /* nobody else has this nonce */
	self->facts.peers_checked = config->skip_sanity_checks;
	return &self->registry;
}
