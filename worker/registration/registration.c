/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/registration.h"

#include <unistd.h>

#include "common/log.h"
#include "worker/registration/reservation.h"
#include "worker/registration/step.h"

/* Each poll takes the messages of the store, and changes the state of the registration until it
 * must wait. */

/* Time limit for closing the session before the process exits. Closing it deletes the claim
 * record. */
#define CLOSE_TIMEOUT_MS 2000

#define FIRST_LENGTH_MS 10000

/* length of a silence after which its reason is determined */
#define MIN_SILENCE_US    (3 * G_TIME_SPAN_SECOND)
/* time between two reports that the store is silent */
#define REPORT_SILENCE_US G_TIME_SPAN_MINUTE
#define UNKNOWN_REASON    "is it running, and is the address right?"

/* Steps */

/* The functions that begin the step of a state and handle its answer. The other states have no
 * step: they wait for a connection, for a point in time or for the keeper.
 * step_take_datacenter_answer() handles answers in READING_DATACENTER, and datacenters in
 * LISTING_WORKERS; step_take_peers() handles answers in CHECKING_PEERS. */
static const struct {
	void (*start)(Registration *self);
	void (*take)(Registration *self, const StoreMessage *answer);
} STEPS[N_REGISTRATION_STATES] = {
	[REGISTRATION_PREPARING] = {step_start_preparing, step_take_preparation_answer},
	[REGISTRATION_CHECKING_ACLS] = {step_start_checking_acls, step_take_acls},
	[REGISTRATION_READING_DATACENTER] = {step_start_reading_datacenter, NULL},
	[REGISTRATION_CREATING_CLAIM] = {step_start_creating_claim, step_take_created_claim},
	[REGISTRATION_CHECKING_PEERS] = {step_start_checking_peers, NULL},
	[REGISTRATION_RESERVING] = {reservation_reserve, reservation_take_written},
	[REGISTRATION_SETTLING] = {reservation_settle, reservation_take_settled},
	[REGISTRATION_EXTENDING] = {reservation_extend, reservation_take_written},
	[REGISTRATION_RELEASING] = {reservation_release, reservation_take_written},
	[REGISTRATION_READING_TIME] = {step_start_reading_time, step_take_time},
	[REGISTRATION_LISTING_WORKERS] = {step_start_listing_workers, step_take_datacenter_ids},
};

/* Handles an answer of the store, if the current step waits for it. */
static void take_answer(Registration *self, const StoreMessage *answer)
{
	if (step_take_datacenter_answer(self, answer) || answer->request != self->step.request)
		return;
	registration_note_error(self, answer);
	registration_end_wait(self);
	if (STEPS[self->step.state].take != NULL)
		STEPS[self->step.state].take(self, answer);
	else
		g_critical("an answer while %s", registration_state_name(self->step.state));
}

/* Ends the current step, which will get no answer, as if the answer were UNSURE. So a state that
 * was writing a reservation sets facts.unsettled, and the record is read next. */
static void abandon_step(Registration *self)
{
	const StoreMessage unsure = {
		.event = STORE_ANSWER,
		.request = self->step.request,
		.outcome = STORE_UNSURE,
		.reason = "the session has ended",
	};

	step_drop_readings(self);
	if (self->step.request != 0)
		take_answer(self, &unsure);
	else if (self->peers.check == NULL) /* the check of the peers needs no session */
		registration_end_wait(self);
}

/* Returns whether a claim has ended with WAIT and has not been retried yet. */
static gboolean claim_waits(const Registration *self)
{
	return self->operation.retry_claim_at_us != 0;
}

/* Events of the store. Facts that become unknown with the loss of a connection are determined again
 * on the next one. For the reservation, facts.unsettled means that its record must be read:
 *
 * - After a write that was not answered, its UNSURE answer or abandon_step() sets it, and the
 * content of the record shows whether the write took place.
 * - After a reconnect without an open write, reservation_check_is_read() sets it, and the record
 * must be what this server has written. */

static void note_down(Registration *self)
{
	if (self->facts.connected)
		self->silence.down_at_us = self->facts.now_us;
	self->facts.connected = FALSE;
	self->facts.chosen = FALSE;
	self->lost_at_us = self->facts.now_us;
}

static void note_session_end(Registration *self)
{
	if (self->facts.connected)
		note_down(self);
	/* also if the connection was lost before, because the choice belongs to the old session */
	self->facts.chosen = FALSE;
	if (self->claim.creation_sent_ns != 0)
		self->facts.claim = CLAIM_UNKNOWN; /* the old record may still exist */
	abandon_step(self);
}

static void take_message(Registration *self, const StoreMessage *message)
{
	switch (message->event) {
	case STORE_UP:
		abandon_step(self);
		self->history = znode_history_of(message->history);
		self->facts.connected = TRUE;
		/* an operator may have deleted everything, and servers with a different layout may
		 * have created it again */
		self->facts.prepared = FALSE;
		self->facts.acls_checked = FALSE;
		self->facts.pause_ends_at_us = 0;
		registration_forget_record(self);
		/* retry now: an extension may have failed because there was no connection, or a
		 * claim may be waiting without a watch in the new session */
		if (self->extension_failed || claim_waits(self))
			self->report.retry_now = TRUE;
		break;
	case STORE_DOWN:
		note_down(self);
		break;
	case STORE_STILL_DOWN:
		registration_forget_open_errors(self);
		break;
	case STORE_SESSION_EXPIRED:
		note_session_end(self);
		/* the session was lost now, even if its connection had been lost before */
		self->lost_at_us = self->facts.now_us;
		break;
	case STORE_SESSION_REPLACED:
		note_session_end(self);
		break;
	case STORE_AUTH_FAILED:
		note_session_end(self);
		registration_complain(self, "cannot use %s at %s: %s", self->store->name,
				      self->config.servers, message->text);
		break;
	case STORE_CHANGED:
		self->report.retry_now = self->report.retry_now || claim_waits(self);
		break;
	case STORE_GONE:
		if (g_strcmp0(message->key, self->claim.key) == 0)
			registration_lose_claim(self);
		break;
	case STORE_ANSWER:
		take_answer(self, message);
		break;
	}
}

/* Operations that cannot wait for a connection or an answer */

static gboolean is_for_stop(const Registration *self)
{
	return self->stop_by_us != 0 &&
	       (self->operation.cancelled || self->facts.operation == REGISTRY_RELEASE);
}

static gint64 give_up_at_us(const Registration *self)
{
	/* a reservation that has ended need not be released */
	gboolean has_ended = self->reservation.is_held && !self->facts.unsettled &&
			     self->now_tick > self->reservation.end_tick;

	/* the store may be connected but not answering */
	if (is_for_stop(self) && !has_ended)
		return self->stop_by_us;
	if (self->facts.connected)
		return G_MAXINT64;
	switch (self->facts.operation) {
	case REGISTRY_CLAIM: /* only a server that has never served gives up */
		if (self->has_served)
			return G_MAXINT64;
		return MAX(self->operation.began_at_us, self->lost_at_us) +
		       self->config.connect_timeout_ms * G_TIME_SPAN_MILLISECOND;
	case REGISTRY_EXTEND:
	case REGISTRY_RELEASE:
		return self->operation.began_at_us;
	case REGISTRY_NONE:
		break;
	}
	return G_MAXINT64;
}

/* Returns: (transfer full) (nullable): why there is no connection; NULL if the store does not know
 * it yet. */
static char *find_why_down(Registration *self)
{
	char *why = NULL;

	self->finding_why_down = !self->store->ops->find_why_down(self->store, &why);
	if (self->finding_why_down)
		return NULL;
	self->store->ops->forget_why_down(self->store);
	return why != NULL ? why : g_strdup(UNKNOWN_REASON);
}

static void check_operation(Registration *self)
{
	gboolean is_late = self->facts.now_us >= give_up_at_us(self);
	gboolean is_writing = self->facts.unsettled || self->step.state == REGISTRATION_RESERVING ||
			      self->step.state == REGISTRATION_EXTENDING;
	g_autofree char *why = NULL;

	if (self->facts.connected) {
		self->store->ops->forget_why_down(self->store);
		self->finding_why_down = FALSE;
	}
	if (self->facts.operation == REGISTRY_NONE)
		return;
	/* a cancelled operation ends when the outcome of its write is known, or cannot be
	 * determined */
	if (self->operation.cancelled && (!self->facts.connected || is_late || !is_writing)) {
		registration_fail(self, REGISTRY_ERROR_FAILED, "the server stops");
		self->facts.chosen = FALSE;
	} else if (is_late && self->facts.operation != REGISTRY_CLAIM) {
		registration_fail(self, REGISTRY_ERROR_FAILED, "no %s %s at %s%s",
				  self->facts.connected ? "answer from" : "connection to",
				  self->store->name, self->config.servers,
				  is_for_stop(self) ? "; the claim ends with the session" : "");
	} else if (is_late && (why = find_why_down(self)) != NULL) {
		/* the server has never served, and ends as soon as the reason is known */
		registration_fail(self, REGISTRY_ERROR_FATAL,
				  "no connection to %s at %s within %" G_GINT64_FORMAT " ms: %s",
				  self->store->name, self->config.servers,
				  self->config.connect_timeout_ms, why);
	}
}

/* Determines why the store is silent, and logs the reason once per REPORT_SILENCE_US. A claim that
 * is about to fail does this itself. */
static void explain_silence(Registration *self)
{
	gint64 heard_at_us = self->store->heard_at_us;
	g_autofree char *error = NULL;
	char *why;

	if (self->silence.began_at_us == 0 || heard_at_us > self->silence.began_at_us) {
		self->silence.began_at_us = heard_at_us > 0 ? heard_at_us : self->facts.now_us;
		if (self->silence.down_at_us == 0)
			self->silence.down_at_us = self->facts.now_us;
		self->silence.report_at_us = self->silence.began_at_us + MIN_SILENCE_US;
		g_clear_pointer(&self->silence.why, g_free);
	}
	if (self->facts.connected || self->facts.now_us < self->silence.report_at_us ||
	    (self->facts.operation == REGISTRY_CLAIM && self->facts.now_us >= give_up_at_us(self)))
		return;
	why = find_why_down(self);
	if (why == NULL)
		return;
	self->silence.report_at_us = self->facts.now_us + REPORT_SILENCE_US;
	g_free(self->silence.why);
	self->silence.why = why;
	error = g_strdup_printf("no connection to %s at %s: %s", self->store->name,
				self->config.servers, why);
	log_event(LOG_ZOOKEEPER_UNREACHABLE, log_text("error", error));
}

/* Returns (nullable): a message that there is no connection, since when, and why if that is
 * known. Valid until the next call. */
static const char *describe_silence(Registration *self)
{
	const char *why = self->silence.why;
	gint64 down_us = self->facts.now_us - self->silence.down_at_us;

	g_clear_pointer(&self->silence.text, g_free);
	if (!self->facts.connected && self->silence.down_at_us != 0)
		self->silence.text = g_strdup_printf(
			"no connection to %s at %s for %" G_GINT64_FORMAT " ms%s%s",
			self->store->name, self->config.servers, down_us / G_TIME_SPAN_MILLISECOND,
			why != NULL ? ": " : "", why != NULL ? why : "");
	return self->silence.text;
}

/* The keeper's calls */

static gint64 next_poll_at_us(const Registration *self)
{
	gint64 at_us = give_up_at_us(self);

	/* the store wakes the keeper when it knows why there is no connection */
	if (self->finding_why_down && at_us <= self->facts.now_us)
		at_us = G_MAXINT64;
	if (!self->finding_why_down && !self->facts.connected)
		at_us = MIN(at_us, self->silence.report_at_us);

	if (self->lost_why != NULL)
		return self->facts.now_us;
	at_us = MIN(at_us, self->store->ops->due_at_us(self->store));
	if (claim_waits(self))
		at_us = MIN(at_us, self->operation.retry_claim_at_us);
	if (self->step.state == REGISTRATION_PAUSING)
		at_us = MIN(at_us, self->facts.pause_ends_at_us);
	if (self->step.state == REGISTRATION_WAITING_TO_RECHECK_PEERS)
		at_us = MIN(at_us, self->facts.recheck_peers_at_us);
	return at_us;
}

static void take_events(Registration *self)
{
	StoreMessage *next;

	while ((next = self->store->ops->take(self->store)) != NULL) {
		g_autoptr(StoreMessage) message = next;

		take_message(self, message);
	}
	step_take_peers(self);
	step_take_clocks(self);
	/* report a loss at once, regardless of the operation */
	if (self->lost_why != NULL && !self->operation.result_is_ready) {
		g_autofree char *why = g_steal_pointer(&self->lost_why);

		registration_fail(self, REGISTRY_ERROR_LOST, "%s", why);
	}
}

/* Begins steps until an answer is awaited, or the state has no step. */
static void run_steps(Registration *self)
{
	while (!self->step.busy) {
		RegistrationState next;

		reservation_check_is_read(self);
		next = registration_plan_next(&self->facts);
		if (next != self->step.state)
			log_event(LOG_REGISTRATION,
				  log_text("from", registration_state_name(self->step.state)),
				  log_text("to", registration_state_name(next)));
		self->step.state = next;
		if (STEPS[next].start == NULL)
			return;
		STEPS[next].start(self);
	}
}

static gboolean registry_poll(Registry *registry, gint64 now_tick, gint64 stop_by_us,
			      RegistryReport *out_report)
{
	Registration *self = (Registration *)registry;
	gboolean has_ended;

	self->now_tick = now_tick;
	self->stop_by_us = stop_by_us;
	self->facts.now_us = g_get_monotonic_time();
	self->report.poll_at_us = G_MAXINT64;
	if (self->has_begun) {
		take_events(self);
		if (self->facts.operation != REGISTRY_NONE)
			step_postpone_workers(self);
		check_operation(self);
		run_steps(self);
		check_operation(self);
		explain_silence(self);
		if (claim_waits(self) && self->facts.now_us >= self->operation.retry_claim_at_us) {
			self->operation.retry_claim_at_us = 0;
			self->report.retry_now = TRUE;
		}
		self->report.poll_at_us = next_poll_at_us(self);
	}
	self->report.is_reachable = self->facts.connected;
	self->report.session = self->facts.connected   ? REGISTRY_SESSION_CONNECTED
			       : self->lost_at_us != 0 ? REGISTRY_SESSION_LOST
						       : REGISTRY_SESSION_CONNECTING;
	self->report.hindrance = self->hindrance != NULL ? self->hindrance : describe_silence(self);
	self->report.heard_at_us = self->store->heard_at_us;
	*out_report = self->report;
	self->report.list = NULL;
	self->report.retry_now = FALSE;
	has_ended = self->operation.result_is_ready;
	if (has_ended) {
		out_report->result = self->operation.result;
		self->operation.result_is_ready = FALSE;
		self->operation.result = (RegistryResult){0};
	}
	return has_ended;
}

static void registry_begin(Registry *registry, RegistryOperation operation, gint64 ticks)
{
	Registration *self = (Registration *)registry;

	g_assert(self->facts.operation == REGISTRY_NONE && !self->operation.result_is_ready);
	self->facts.operation = operation;
	self->has_begun = TRUE;
	self->operation.ticks = ticks;
	self->operation.retry_claim_at_us = 0;
	self->operation.began_at_us = g_get_monotonic_time();
	self->operation.result = (RegistryResult){0};
	if (operation != REGISTRY_CLAIM)
		return;
	self->store->wake = registry->wake;
	self->store->wake_data = registry->wake_data;
	self->operation.n_skipped_records = 0;
	self->operation.lost_race = FALSE;
	registration_forget_datacenter(self);
}

static void registry_cancel(Registry *registry)
{
	Registration *self = (Registration *)registry;

	self->operation.cancelled = self->facts.operation != REGISTRY_NONE;
}

static void registry_ask_clock(Registry *registry)
{
	((Registration *)registry)->facts.wants_time = TRUE;
}

static void registry_list(Registry *registry)
{
	((Registration *)registry)->facts.wants_list = TRUE;
}

static void registry_free(Registry *registry)
{
	Registration *self = (Registration *)registry;

	step_clear(self);
	self->store->ops->close(self->store, CLOSE_TIMEOUT_MS);
	worker_list_free(self->report.list);
	if (self->operation.result_is_ready)
		g_clear_error(&self->operation.result.error);
	g_free(self->hindrance);
	g_free(self->silence.why);
	g_free(self->silence.text);
	g_free(self->lost_why);
	g_free(self->registry_id);
	g_free(self->keys.registry);
	g_free(self->keys.layout);
	g_free(self->keys.limits);
	g_free(self->keys.floor);
	g_free(self->keys.claims);
	g_free(self->keys.reservations);
	g_free(self->config.servers);
	g_free(self->config.root);
	g_free(self->config.nonce);
	g_free(self->config.name);
	g_free(self->config.registry_id);
	claim_record_clear(&self->config.claim);
	tls_names_clear(&self->config.tls);
	g_free(self);
}

Registry *registration_new(Store *store, const RegistrationConfig *config)
{
	static const RegistryOps OPS = {
		.begin = registry_begin,
		.poll = registry_poll,
		.cancel = registry_cancel,
		.ask_clock = registry_ask_clock,
		.list = registry_list,
		.free = registry_free,
	};
	Registration *self = g_new0(Registration, 1);
	const Address *address = config->address;
	const char *root = config->root;

	self->registry = (Registry){
		.ops = &OPS,
		.first_length_ms = MIN(FIRST_LENGTH_MS, config->max_length_ms),
		.max_length_ms = config->max_length_ms,
		.extend_when_idle = TRUE,
		.first_report = {.session = REGISTRY_SESSION_CONNECTING, .poll_at_us = G_MAXINT64},
	};
	self->store = store;
	self->config.servers = g_strdup(config->servers);
	self->config.root = g_strdup(root);
	self->config.nonce = g_strdup(config->nonce);
	self->config.claim = (ClaimRecord){
		.program = address == NULL ? g_strdup(config->program) : NULL,
		.host = g_strdup(address != NULL ? address->host : config->host),
		.port = address != NULL ? address->port : 0,
		.is_tls = address != NULL && address->is_tls,
		.pid = getpid(),
		.version = g_strdup(config->version),
		.started_ms = clock_now_ms(&config->clock->clock),
	};
	self->config.name = address != NULL ? g_strdup(address->text)
					    : g_strconcat(config->program, "@", config->host, NULL);
	self->config.tls = tls_names_copy(&config->tls);
	self->config.layout = *config->layout;
	self->config.clock = config->clock;
	self->config.datacenter_id = config->datacenter_id;
	self->config.worker_id = config->worker_id;
	self->config.preferred_worker_id = config->preferred_worker_id;
	self->config.connect_timeout_ms = config->connect_timeout_ms;
	self->config.max_clock_skew_ms = config->max_clock_skew_ms;
	self->config.registry_id = g_strdup(config->registry_id);
	self->config.create_registry = config->create_registry;
	self->keys.registry = znode_in_root(root, ZNODES_REGISTRY);
	self->keys.layout = znode_in_root(root, ZNODES_LAYOUT);
	self->keys.limits = znode_in_root(root, ZNODES_LIMITS);
	self->keys.floor = znode_in_datacenter(root, config->datacenter_id, ZNODES_FLOOR);
	self->keys.claims = znode_in_datacenter(root, config->datacenter_id, ZNODES_CLAIMS);
	self->keys.reservations =
		znode_in_datacenter(root, config->datacenter_id, ZNODES_RESERVATIONS);
	self->step.state = REGISTRATION_CONNECTING;
	/* there can be no claim record yet, because no other server has this nonce */
	self->facts.claim = CLAIM_NONE;
	self->facts.peers_checked = config->skip_sanity_checks;
	return &self->registry;
}
