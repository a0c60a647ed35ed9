/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/states.h"

#include "common/log.h"
#include "worker/zookeeper/claim.h"
#include "worker/zookeeper/peer-clocks.h"
#include "worker/zookeeper/preparation.h"
#include "worker/zookeeper/reservation.h"
#include "worker/zookeeper/securing.h"

#define PEERS_TIMEOUT_MS 1000

/* Finding and choosing */

/* There is none, so nothing is decided by one. */
static void drop_listing(Registration *self)
{
	g_clear_pointer(&self->listing, zookeeper_listing_free);
	self->facts.listed = FALSE;
}

static void look(Registration *self)
{
	/* whoever has to wait hears when a claim goes */
	gboolean watch = self->facts.goal == REGISTRY_CLAIM;

	/* a claim that was made with a lost reply is to be in it */
	if (self->facts.claim == CLAIM_UNKNOWN)
		zookeeper_session_sync(self->session, self->paths.claims);
	drop_listing(self);
	self->listing =
		zookeeper_listing_new(self->session, self->config.root, &self->config.layout,
				      self->config.datacenter_id, watch);
	registration_await(self, 0);
}

/* The other servers, if there are any that say where they are: who is embedded takes no calls. */
static GPtrArray *peers_of(const Registration *self)
{
	g_autoptr(GPtrArray) peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);

	for (guint i = 0; i < self->listing->claims->len; i++) {
		const ListedClaim *claim = self->listing->claims->pdata[i];
		g_autofree char *address = NULL;

		if (claim->record.host == NULL || claim->record.program != NULL ||
		    g_str_equal(claim->nonce, self->config.nonce))
			continue;
		address = claim_record_address(&claim->record);
		g_ptr_array_add(peers, peer_new(address, claim->nonce, claim->record.worker_id));
	}
	return g_steal_pointer(&peers);
}

/* Nobody knows how far its reservations went: whoever holds one may go on, but none begins. */
static void complain_of_floor(Registration *self)
{
	registration_complain(self, "%s in ZooKeeper %s; so no worker ID can be claimed: %s",
			      self->paths.floor, self->listing->floor_damage,
			      self->listing->floor_remedy);
}

static void log_chosen(const Registration *self, const WorkerIdWish *wish)
{
	const ZookeeperListing *listing = self->listing;
	g_autofree char *refused = NULL;

	if (!log_shows(LOG_WORKER_ID_CHOSEN))
		return;
	/* of the only one that was wanted nothing was in the way */
	refused = wish->worker_id < 0
			  ? worker_id_choice_describe_obstacles(listing, wish, &self->config.layout)
			  : NULL;
	log_event(LOG_WORKER_ID_CHOSEN, log_number("worker_id", self->choice.worker_id),
		  log_number("wanted", wish->worker_id), log_number("preferred", wish->preferred),
		  log_number("claims", listing->claims->len),
		  log_number("reservations", listing->reservations->len),
		  log_number("lost_race", wish->lost_race),
		  log_number("passed_over", wish->n_passed_over), log_text("refused", refused));
}

static void choose(Registration *self)
{
	const WorkerIdWish wish = {
		.nonce = self->config.nonce,
		.sequence = self->claim.sequence,
		.worker_id = self->config.worker_id,
		/* what was passed over is not to be met again */
		.preferred = self->goal.n_passed_over > 0 ? -1 : self->config.preferred_worker_id,
		.lost_race = self->goal.lost_race,
		.n_passed_over = self->goal.n_passed_over,
		.n_workers = 1u << self->config.layout.worker_bits,
		.now_tick = self->now_tick,
	};
	g_autofree char *holders = NULL;

	if (self->listing->floor_damage != NULL) {
		complain_of_floor(self);
		return;
	}
	self->choice = worker_id_choice_make(self->listing, &wish);
	self->facts.chosen = self->choice.found;
	if (self->facts.chosen) {
		log_chosen(self, &wish);
		return;
	}
	holders = worker_id_choice_describe_obstacles(self->listing, &wish, &self->config.layout);
	registration_try_again_at(self, self->choice.wait_until_tick);
	if (wish.worker_id < 0)
		registration_fail(self, REGISTRY_ERROR_WAIT,
				  "no worker ID of datacenter %u is free: %s",
				  self->config.datacenter_id, holders);
	else
		registration_fail(self, REGISTRY_ERROR_WAIT,
				  "--worker-id %" G_GINT64_FORMAT
				  " is not free in datacenter %u: %s",
				  wish.worker_id, self->config.datacenter_id, holders);
}

static void on_looked(Registration *self)
{
	gboolean known = self->facts.claim == CLAIM_MADE;

	zookeeper_claim_find(self);
	if (!known || self->facts.claim != CLAIM_MADE || self->facts.goal != REGISTRY_CLAIM)
		return;
	self->facts.listed = TRUE;
	if (!self->facts.peers_checked) {
		g_autoptr(GPtrArray) peers = peers_of(self);

		self->facts.peers_checked = peers->len == 0;
	}
	if (self->facts.peers_checked)
		choose(self);
}

static void check_peers(Registration *self)
{
	GPtrArray *peers = peers_of(self);
	const PeerCheckConfig config = {
		.clock = &self->config.clock->clock,
		.datacenter_id = self->config.datacenter_id,
		.timeout_ms = PEERS_TIMEOUT_MS,
		.max_skew_ms = self->config.max_clock_skew_ms,
		.tls = registration_tls(self, peers),
		.done = self->registry.wake,
		.user_data = self->registry.wake_data,
	};

	self->peers.check = peer_check_new(peers, &config);
	registration_await(self, 0);
}

void zookeeper_states_look_at_peers(Registration *self)
{
	g_auto(PeerReport) report = {0};
	const char *confirmed;

	if (!peer_check_take_report(self->peers.check, &report))
		return;
	g_clear_pointer(&self->peers.check, peer_check_free);
	zookeeper_peer_clocks_note(self, &report);
	drop_listing(self);
	registration_resume(self);
	confirmed = self->facts.doubtful_till_us != 0
			    ? peer_report_confirmed(&report, &self->peers.earlier)
			    : NULL;
	if (confirmed != NULL && self->facts.goal == REGISTRY_CLAIM && !self->goal.served) {
		registration_fail(self, REGISTRY_ERROR_FATAL, "%s", confirmed);
		return;
	}
	self->facts.peers_checked = report.contradictions->len == 0 || confirmed != NULL;
	self->facts.doubtful_till_us =
		g_get_monotonic_time() +
		registration_session_timeout_ms(self) * G_TIME_SPAN_MILLISECOND;
	if (self->facts.peers_checked)
		self->facts.doubtful_till_us = 0;
	peer_report_clear(&self->peers.earlier);
	self->peers.earlier = report;
	report = (PeerReport){0};
}

/* All datacenters, for somebody who asked */

static void drop_list(Registration *self)
{
	g_clear_pointer(&self->list.datacenters, g_array_unref);
	g_clear_pointer(&self->list.found, worker_list_free);
}

/* Whoever asked does not wait for ever. */
static void give_up_list(Registration *self)
{
	self->facts.wants_list = FALSE;
	drop_list(self);
}

static void list_datacenters(Registration *self)
{
	g_autofree char *path = znode_datacenters(self->config.root);

	drop_list(self);
	self->list.found = worker_list_new();
	self->list.found->read_at_ns = clock_boottime_ns();
	self->list.found->n_reads = 1;
	registration_await(self, zookeeper_session_children(self->session, path, FALSE));
}

static void finish_list(Registration *self)
{
	worker_list_free(self->report.list);
	self->report.list = g_steal_pointer(&self->list.found);
	self->facts.wants_list = FALSE;
	drop_list(self);
	zookeeper_peer_clocks_ask(self);
}

static void list_next(Registration *self)
{
	guint datacenter_id;

	if (self->list.datacenters->len == 0) {
		finish_list(self);
		return;
	}
	datacenter_id =
		g_array_index(self->list.datacenters, guint, self->list.datacenters->len - 1);
	self->listing = zookeeper_listing_new(self->session, self->config.root,
					      &self->config.layout, datacenter_id, FALSE);
	registration_await(self, 0);
}

static void on_datacenters(Registration *self, const ZookeeperMessage *message)
{
	if (message->outcome != ZOOKEEPER_OK) {
		give_up_list(self);
		return;
	}
	self->list.datacenters = g_array_new(FALSE, FALSE, sizeof(guint));
	for (char **name = message->children; *name != NULL; name++) {
		guint datacenter_id;

		if (znode_parse_number(*name, (1u << self->config.layout.datacenter_bits) - 1,
				       &datacenter_id))
			g_array_append_val(self->list.datacenters, datacenter_id);
	}
	list_next(self);
}

static void on_datacenter_listed(Registration *self)
{
	ZookeeperOutcome outcome = self->listing->outcome;

	/* one that may not be read, or whose first server is about to come, is passed over */
	if (outcome == ZOOKEEPER_UNSURE) {
		give_up_list(self);
		drop_listing(self);
		return;
	}
	zookeeper_listing_add_workers(self->listing, self->list.found->workers);
	if (outcome == ZOOKEEPER_OK) /* else nobody knows what is held */
		zookeeper_listing_add_quarantined(self->listing, self->now_tick,
						  self->list.found->quarantined);
	self->list.found->n_reads += self->listing->n_reads;
	g_array_set_size(self->list.datacenters, self->list.datacenters->len - 1);
	drop_listing(self);
	list_next(self);
}

/* Where it was put off, it goes on with the datacenter that was being read. */
static void list(Registration *self)
{
	drop_listing(self);
	if (self->list.datacenters != NULL)
		list_next(self);
	else
		list_datacenters(self);
}

void zookeeper_states_put_off_list(Registration *self)
{
	if (self->step.state != REGISTRATION_LISTING)
		return;
	drop_listing(self);
	registration_resume(self);
}

/* All states */

/* What is done in a state, and with the reply that it waits for. The others wait for the facts. */
static const struct {
	void (*start)(Registration *self);
	void (*reply)(Registration *self, const ZookeeperMessage *message);
} STATES[N_REGISTRATION_STATES] = {
	[REGISTRATION_PREPARING] = {zookeeper_preparation_start, zookeeper_preparation_reply},
	[REGISTRATION_SECURING] = {zookeeper_securing_start, NULL},
	[REGISTRATION_LOOKING] = {look, NULL},
	[REGISTRATION_ANNOUNCING] = {zookeeper_claim_announce, zookeeper_claim_on_announced},
	[REGISTRATION_CHECKING] = {check_peers, NULL},
	[REGISTRATION_RESERVING] = {zookeeper_reservation_reserve,
				    zookeeper_reservation_on_written},
	[REGISTRATION_SETTLING] = {zookeeper_reservation_settle, zookeeper_reservation_on_settled},
	[REGISTRATION_EXTENDING] = {zookeeper_reservation_extend, zookeeper_reservation_on_written},
	[REGISTRATION_RETURNING] = {zookeeper_reservation_hand_back,
				    zookeeper_reservation_on_written},
	[REGISTRATION_TIMING] = {zookeeper_claim_ask_time, zookeeper_claim_on_time},
	[REGISTRATION_LISTING] = {list, on_datacenters},
};

gboolean zookeeper_states_start(Registration *self)
{
	if (STATES[self->step.state].start == NULL)
		return FALSE;
	STATES[self->step.state].start(self);
	return TRUE;
}

void zookeeper_states_reply(Registration *self, const ZookeeperMessage *message)
{
	registration_resume(self);
	if (STATES[self->step.state].reply != NULL)
		STATES[self->step.state].reply(self, message);
	else
		g_critical("a reply while %s", registration_state_name(self->step.state));
}

void zookeeper_states_listed(Registration *self)
{
	const ZookeeperListing *listing = self->listing;

	registration_resume(self);
	if (self->step.state == REGISTRATION_LISTING) {
		on_datacenter_listed(self);
		return;
	}
	switch (listing->outcome) {
	case ZOOKEEPER_OK:
		on_looked(self);
		return;
	case ZOOKEEPER_NO_NODE:
		self->facts.prepared = FALSE;
		break;
	case ZOOKEEPER_UNSURE:
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
		registration_complain_of(self, self->paths.claims, listing->outcome,
					 listing->reason);
		break;
	}
	drop_listing(self);
}

void zookeeper_states_abandon(Registration *self)
{
	const ZookeeperMessage unsure = {
		.type = ZOOKEEPER_REPLY,
		.outcome = ZOOKEEPER_UNSURE,
		.reason = "the session is gone",
	};

	drop_listing(self);
	drop_list(self);
	g_clear_pointer(&self->access, zookeeper_access_check_free);
	if (self->step.request != 0)
		zookeeper_states_reply(self, &unsure);
	else if (self->peers.check == NULL) /* that goes on without a session */
		registration_resume(self);
}
