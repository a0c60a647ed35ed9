/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/registry-private.h"

#include <unistd.h>

#include "common/log.h"
#include "worker/zookeeper/reservation.h"
#include "worker/zookeeper/securing.h"
#include "worker/zookeeper/session-events.h"
#include "worker/zookeeper/session-opening.h"
#include "worker/zookeeper/steps.h"

/*
 * Each poll takes in what ZooKeeper has said, looks after the session, and lets the registration go
 * from state to state until it waits for something. What the keeper wants is the goal.
 */

/* For a session to be closed before the process ends, and its claim to go. */
#define CLOSE_PATIENCE_MS 2000

#define FIRST_LENGTH_MS 10000

#define MIN_PAUSE_US  (10 * G_TIME_SPAN_MILLISECOND)
#define MAX_PAUSE_US  (60 * G_TIME_SPAN_MILLISECOND)
#define LONG_PAUSE_US (500 * G_TIME_SPAN_MILLISECOND)

void registry_zookeeper_finish(RegistryZookeeper *self, GError *error)
{
	g_assert(!self->finished);
	if (self->facts.goal == GOAL_EXTEND)
		self->extension_failed = error != NULL;
	if (self->facts.goal == GOAL_HAND_BACK && error != NULL)
		zookeeper_reservation_owe(self);
	self->facts.goal = GOAL_NONE;
	self->cancelled = FALSE;
	self->finished = TRUE;
	self->result.error = error;
}

void registry_zookeeper_fail(RegistryZookeeper *self, RegistryError code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	registry_zookeeper_finish(
		self, g_error_new_valist(REGISTRY_ERROR, (gint)code, format, arguments));
	va_end(arguments);
}

void registry_zookeeper_pause(RegistryZookeeper *self, ZookeeperPause pause)
{
	gint64 length_us = LONG_PAUSE_US;

	if (pause == ZOOKEEPER_UNSURE_PAUSE && !self->facts.connected)
		return;
	if (pause == ZOOKEEPER_SHORT_PAUSE)
		length_us =
			MIN_PAUSE_US + (gint64)(g_random_double() * (MAX_PAUSE_US - MIN_PAUSE_US));
	self->facts.pause_till_us = g_get_monotonic_time() + length_us;
}

void registry_zookeeper_await(RegistryZookeeper *self, guint64 request)
{
	self->request = request;
	self->busy = TRUE;
}

void registry_zookeeper_complain(RegistryZookeeper *self, const char *format, ...)
{
	g_autofree char *text = NULL;
	g_autofree char *quoted = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	quoted = log_quote(text);
	registry_zookeeper_pause(self, ZOOKEEPER_LONG_PAUSE);
	if (self->facts.goal == GOAL_CLAIM && !self->served) {
		registry_zookeeper_fail(self, REGISTRY_ERROR_FATAL, "%s", text);
		return;
	}
	log_event(LOG_ZOOKEEPER_REFUSED, "error=%s", quoted);
	if (self->facts.goal == GOAL_EXTEND || self->facts.goal == GOAL_HAND_BACK)
		registry_zookeeper_fail(self, REGISTRY_ERROR_FAILED, "%s", text);
}

void registry_zookeeper_complain_of(RegistryZookeeper *self, const char *path,
				    ZookeeperOutcome outcome, const char *reason)
{
	if (outcome == ZOOKEEPER_NO_AUTH)
		registry_zookeeper_complain(
			self,
			"ZooKeeper does not let this server read or write %s: "
			"give the user and password that the other servers have "
			"(--zookeeper-auth)",
			path);
	else
		registry_zookeeper_complain(self, "ZooKeeper refuses %s: %s", path, reason);
}

void registry_zookeeper_note_time(RegistryZookeeper *self, gint64 time_ms, gint64 sent_ns,
				  gint64 received_ns)
{
	if (time_ms == 0)
		return;
	self->registry.clock = (RegistryClock){
		.known = TRUE,
		.least_ns = time_ms * CLOCK_NS_PER_MS - received_ns,
		/* it is cut to whole milliseconds */
		.most_ns = (time_ms + 1) * CLOCK_NS_PER_MS - sent_ns,
	};
	self->facts.wants_time = FALSE;
}

void registry_zookeeper_watch_claim(RegistryZookeeper *self)
{
	self->watch_request = zookeeper_session_exists(self->session, self->claim_path, TRUE);
}

void registry_zookeeper_drop_listing(RegistryZookeeper *self)
{
	g_clear_pointer(&self->listing, zookeeper_listing_free);
	self->facts.listed = FALSE;
}

void registry_zookeeper_lose_claim(RegistryZookeeper *self)
{
	self->facts.claim = CLAIM_UNKNOWN;
	self->facts.prepared = FALSE;
	zookeeper_reservation_doubt(self);
}

char *registry_zookeeper_claim_json(const RegistryZookeeper *self, gint worker_id)
{
	const ClaimRecord record = {
		.host = self->address->host,
		.port = self->address->port,
		.pid = getpid(),
		.version = self->version,
		.started_ms = self->started_ms,
		.worker_id = worker_id,
		.session_timeout_ms = registry_zookeeper_timeout_ms(self),
	};

	return claim_record_to_json(&record);
}

gint64 registry_zookeeper_timeout_ms(const RegistryZookeeper *self)
{
	return self->session != NULL ? zookeeper_session_timeout_ms(self->session)
				     : self->session_timeout_ms;
}

static void set_state(RegistryZookeeper *self, RegistrationState state)
{
	if (state == self->state)
		return;
	log_event(LOG_REGISTRATION, "from=%s to=%s", registration_state_name(self->state),
		  registration_state_name(state));
	self->state = state;
}

/* Goals that cannot wait for a connection, or for an answer */

static gboolean is_for_stop(const RegistryZookeeper *self)
{
	return self->registry.stop_by_us != 0 &&
	       (self->cancelled || self->facts.goal == GOAL_HAND_BACK);
}

/* Whether what is held has ended, so that there is nothing to be handed back any more. */
static gboolean is_spent(const RegistryZookeeper *self)
{
	return self->holding.held && !self->facts.unsettled &&
	       self->now_tick > self->holding.end_tick;
}

static gint64 give_up_at_us(const RegistryZookeeper *self)
{
	/* ZooKeeper may be connected, and silent */
	if (is_for_stop(self) && !is_spent(self))
		return self->registry.stop_by_us;
	if (self->facts.connected)
		return G_MAXINT64;
	switch (self->facts.goal) {
	case GOAL_CLAIM: /* before it has served; later it holds out */
		if (self->served)
			return G_MAXINT64;
		return MAX(self->goal_since_us, self->unconnected_since_us) +
		       self->connect_timeout_ms * G_TIME_SPAN_MILLISECOND;
	case GOAL_EXTEND:
	case GOAL_HAND_BACK:
		return self->goal_since_us;
	case GOAL_NONE:
		break;
	}
	return G_MAXINT64;
}

static void give_up(RegistryZookeeper *self)
{
	g_autofree char *why = zookeeper_session_opening_why_not(self);

	if (self->facts.goal == GOAL_CLAIM)
		registry_zookeeper_fail(self, REGISTRY_ERROR_FATAL,
					"no connection to ZooKeeper at %s within %" G_GINT64_FORMAT
					" ms%s%s: is it running, and is the address right?",
					self->servers, self->connect_timeout_ms,
					why != NULL ? ": " : "", why != NULL ? why : "");
	else
		registry_zookeeper_fail(
			self, REGISTRY_ERROR_FAILED, "no %s ZooKeeper at %s%s",
			self->facts.connected ? "answer from" : "connection to", self->servers,
			is_for_stop(self) ? "; the claim goes when the session ends" : "");
}

/* Whether a cancelled goal can be let go: nothing that was written is left in doubt, unless there
 * is nobody who could tell. */
static gboolean may_cancel(const RegistryZookeeper *self)
{
	if (!self->facts.connected || self->facts.now_us >= give_up_at_us(self))
		return TRUE;
	return !self->facts.unsettled && self->state != REGISTRATION_RESERVING &&
	       self->state != REGISTRATION_EXTENDING;
}

static void look_after_goal(RegistryZookeeper *self)
{
	if (self->facts.goal == GOAL_NONE)
		return;
	if (self->cancelled && may_cancel(self)) {
		registry_zookeeper_fail(self, REGISTRY_ERROR_FAILED, "the server stops");
		self->facts.chosen = FALSE;
	} else if (self->facts.now_us >= give_up_at_us(self)) {
		give_up(self);
	}
}

/* The keeper hears of it at once, whatever it wants. */
static void report_loss(RegistryZookeeper *self)
{
	g_autofree char *why = NULL;

	if (self->lost_why == NULL || self->finished)
		return;
	why = g_steal_pointer(&self->lost_why);
	/* of a server that goes on it is owed */
	if (self->facts.goal == GOAL_HAND_BACK && !is_for_stop(self))
		registry_zookeeper_fail(self, REGISTRY_ERROR_FAILED, "%s", why);
	else
		registry_zookeeper_fail(self, REGISTRY_ERROR_LOST, "%s", why);
}

static gboolean waits(RegistrationState state)
{
	return state == REGISTRATION_CONNECTING || state == REGISTRATION_PAUSING ||
	       state == REGISTRATION_DOUBTING || state == REGISTRATION_RESTING;
}

static void go_on(RegistryZookeeper *self)
{
	while (!self->busy) {
		zookeeper_reservation_look(self);
		set_state(self, zookeeper_plan_next(&self->facts));
		if (waits(self->state))
			return;
		zookeeper_steps_start(self);
	}
}

static gint64 look_again_at_us(const RegistryZookeeper *self)
{
	gint64 at_us = give_up_at_us(self);

	if (self->lost_why != NULL)
		return self->facts.now_us;
	at_us = MIN(at_us, zookeeper_session_opening_at_us(self));
	at_us = MIN(at_us, zookeeper_session_events_tell_at_us(self));
	if (self->look_again_us != 0)
		at_us = MIN(at_us, self->look_again_us);
	if (self->state == REGISTRATION_PAUSING)
		at_us = MIN(at_us, self->facts.pause_till_us);
	if (self->state == REGISTRATION_RESTING && self->facts.repay_at_us != 0)
		at_us = MIN(at_us, self->facts.repay_at_us);
	if (self->state == REGISTRATION_DOUBTING)
		at_us = MIN(at_us, self->facts.doubtful_till_us);
	return at_us;
}

static gboolean registry_zookeeper_poll(Registry *registry, gint64 now_tick,
					RegistryResult *out_result)
{
	RegistryZookeeper *self = (RegistryZookeeper *)registry;

	self->now_tick = now_tick;
	self->facts.now_us = g_get_monotonic_time();
	if (self->goal_since_us == 0) /* nothing was wanted yet */
		return FALSE;
	zookeeper_session_events_take(self);
	report_loss(self);
	zookeeper_session_events_look_after(self);
	look_after_goal(self);
	go_on(self);
	look_after_goal(self);
	if (self->look_again_us != 0 && self->facts.now_us >= self->look_again_us) {
		self->look_again_us = 0;
		self->registry.hurry = TRUE;
	}
	self->registry.reachable = self->facts.connected;
	self->registry.poll_at_us = look_again_at_us(self);
	if (!self->finished)
		return FALSE;
	self->finished = FALSE;
	*out_result = self->result;
	self->result = (RegistryResult){0};
	return TRUE;
}

static void set_goal(RegistryZookeeper *self, RegistrationGoal goal)
{
	g_assert(self->facts.goal == GOAL_NONE && !self->finished);
	self->facts.goal = goal;
	self->look_again_us = 0;
	self->goal_since_us = g_get_monotonic_time();
	self->result = (RegistryResult){0};
}

static void registry_zookeeper_claim(Registry *registry, gint64 length_ticks)
{
	RegistryZookeeper *self = (RegistryZookeeper *)registry;

	set_goal(self, GOAL_CLAIM);
	self->length_ticks = length_ticks;
	self->n_passed_over = 0;
	self->facts.listed = FALSE;
	self->facts.chosen = FALSE;
}

static void registry_zookeeper_extend(Registry *registry, gint64 end_tick)
{
	RegistryZookeeper *self = (RegistryZookeeper *)registry;

	set_goal(self, GOAL_EXTEND);
	self->wanted_end_tick = end_tick;
}

static void registry_zookeeper_hand_back(Registry *registry, gint64 last_tick)
{
	RegistryZookeeper *self = (RegistryZookeeper *)registry;

	set_goal(self, GOAL_HAND_BACK);
	self->last_tick = last_tick;
}

static void registry_zookeeper_cancel(Registry *registry)
{
	RegistryZookeeper *self = (RegistryZookeeper *)registry;

	self->cancelled = self->facts.goal != GOAL_NONE;
}

static void registry_zookeeper_ask_clock(Registry *registry)
{
	((RegistryZookeeper *)registry)->facts.wants_time = TRUE;
}

static void registry_zookeeper_list(Registry *registry)
{
	((RegistryZookeeper *)registry)->facts.wants_list = TRUE;
}

static void registry_zookeeper_free(Registry *registry)
{
	RegistryZookeeper *self = (RegistryZookeeper *)registry;

	g_clear_pointer(&self->peer_check, peer_check_free);
	g_clear_pointer(&self->listing, zookeeper_listing_free);
	g_clear_pointer(&self->guard, zookeeper_guard_free);
	g_clear_pointer(&self->missing, g_ptr_array_unref);
	zookeeper_session_opening_drop(self);
	if (self->session != NULL)
		zookeeper_session_close(self->session, CLOSE_PATIENCE_MS);
	g_clear_pointer(&self->datacenters, g_array_unref);
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	g_clear_pointer(&self->registry.workers, g_ptr_array_unref);
	if (self->finished)
		g_clear_error(&self->result.error);
	address_free(self->address);
	g_free(self->claim_path);
	peer_report_clear(&self->doubts);
	g_free(self->lost_why);
	g_strfreev(self->addresses);
	g_free(self->unknown);
	g_free(self->servers);
	g_free(self->root);
	g_free(self->auth);
	g_free(self->nonce);
	g_free(self->version);
	g_free(self);
}

static const RegistryOps REGISTRY_ZOOKEEPER_OPS = {
	.claim = registry_zookeeper_claim,
	.extend = registry_zookeeper_extend,
	.hand_back = registry_zookeeper_hand_back,
	.poll = registry_zookeeper_poll,
	.cancel = registry_zookeeper_cancel,
	.ask_clock = registry_zookeeper_ask_clock,
	.list = registry_zookeeper_list,
	.free = registry_zookeeper_free,
};

Registry *registry_zookeeper_new(const RegistryZookeeperConfig *config)
{
	RegistryZookeeper *self = g_new0(RegistryZookeeper, 1);

	self->registry = (Registry){
		.ops = &REGISTRY_ZOOKEEPER_OPS,
		.first_length_ms = MIN(FIRST_LENGTH_MS, config->max_length_ms),
		.max_length_ms = config->max_length_ms,
		.extend_when_idle = TRUE,
		.poll_at_us = G_MAXINT64,
	};
	self->servers = g_strdup(config->hosts->servers);
	self->root = g_strdup(config->hosts->root);
	self->auth = g_strdup(config->auth);
	self->nonce = g_strdup(config->nonce);
	self->version = g_strdup(config->version);
	self->address = address_copy(config->address);
	self->layout = *config->layout;
	self->clock = config->clock;
	self->datacenter_id = config->datacenter_id;
	self->wanted_worker_id = config->worker_id;
	self->session_timeout_ms = config->session_timeout_ms;
	self->connect_timeout_ms = config->connect_timeout_ms;
	self->max_clock_skew_ms = config->max_clock_skew_ms;
	self->started_ms = clock_now_ms(&config->clock->clock);
	self->state = REGISTRATION_CONNECTING;
	self->facts.claim = CLAIM_NONE; /* nobody else has this nonce */
	self->facts.peers_checked = config->skip_sanity_checks;
	return &self->registry;
}
