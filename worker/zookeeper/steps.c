/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/steps.h"

#include <string.h>

#include "common/log.h"
#include "core/text.h"
#include "worker/zookeeper/preparation.h"
#include "worker/zookeeper/reservation.h"
#include "worker/zookeeper/securing.h"

#define PEERS_TIMEOUT_MS 1000

/* The claim */

static char *claim_json(const Registration *self)
{
	return registration_claim_json(self,
				       self->holding.held ? (gint)self->holding.worker_id : -1);
}

/* Before the first reservation nothing that others depend on was written: so the server does not
 * start, rather than to make IDs and reservations by a wrong time. */
static void check_clock(Registration *self)
{
	const RegistryClock *theirs = &self->registry.clock;
	gint64 skew_ns = self->max_clock_skew_ms * CLOCK_NS_PER_MS;
	gint64 ours_ns = system_clock_offset_ns(self->clock);
	gint64 ahead_ns =
		ours_ns > theirs->most_ns ? ours_ns - theirs->most_ns : ours_ns - theirs->least_ns;

	if (self->served || self->facts.goal != REGISTRY_CLAIM ||
	    (ours_ns >= theirs->least_ns - skew_ns && ours_ns <= theirs->most_ns + skew_ns))
		return;
	registration_fail(
		self, REGISTRY_ERROR_FATAL,
		"this machine's clock is %.3f s %s ZooKeeper's, more than %.3f s: set it right, or "
		"allow as much by --max-clock-skew",
		(gdouble)ABS(ahead_ns) / 1e9, ahead_ns > 0 ? "ahead of" : "behind",
		(gdouble)self->max_clock_skew_ms / 1e3);
}

/* Takes @path for its claim. */
static void note_claim(Registration *self, const char *path, gint64 sequence, gint64 created_ms,
		       gint64 received_ns)
{
	g_free(self->claim_path);
	self->claim_path = g_strdup(path);
	self->claim_sequence = sequence;
	self->facts.claim = CLAIM_MADE;
	self->facts.listed = FALSE;
	self->facts.chosen = FALSE;
	registration_watch_claim(self);
	log_event(LOG_CLAIM_MADE, "path=%s", path);
	self->registry.claimed_at_ms = created_ms;
	registration_note_time(self, created_ms, self->announced_ns, received_ns);
	check_clock(self);
	if (self->holding.held) /* its reservation is to show that it lives on */
		self->registry.hurry = TRUE;
}

static void announce(Registration *self)
{
	g_autofree char *claims = znode_claims(self->root, self->datacenter_id);
	g_autofree char *prefix = znode_claim_prefix(self->nonce);
	g_autofree char *path = g_strjoin("/", claims, prefix, NULL);
	g_autofree char *json = claim_json(self);

	self->announced_ns = zookeeper_session_now_ns();
	registration_await(self, zookeeper_session_create_ephemeral(self->session, path, json));
}

static void complain_of_claims(Registration *self, ZookeeperOutcome outcome, const char *reason)
{
	g_autofree char *claims = znode_claims(self->root, self->datacenter_id);

	registration_complain_of(self, claims, outcome, reason);
}

static void on_announced(Registration *self, const ZookeeperMessage *message)
{
	g_autofree char *nonce = NULL;
	const char *name;
	gint64 sequence;

	switch (message->outcome) {
	case ZOOKEEPER_OK:
		name = strrchr(message->path, '/');
		if (name != NULL && znode_claim_parse_name(name + 1, &nonce, &sequence))
			note_claim(self, message->path, sequence, message->stat.created_ms,
				   message->received_ns);
		else
			complain_of_claims(self, ZOOKEEPER_REFUSED, "its answer makes no sense");
		break;
	case ZOOKEEPER_NO_NODE:
		self->facts.prepared = FALSE;
		break;
	case ZOOKEEPER_UNSURE:
		self->facts.claim = CLAIM_UNKNOWN;
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
		complain_of_claims(self, message->outcome, message->reason);
		break;
	}
}

/* Finding and choosing */

static void look(Registration *self)
{
	/* whoever has to wait hears when a claim goes */
	gboolean watch = self->facts.goal == REGISTRY_CLAIM;
	g_autofree char *claims = znode_claims(self->root, self->datacenter_id);

	/* a claim that was made with a lost reply is to be in it */
	if (self->facts.claim == CLAIM_UNKNOWN)
		zookeeper_session_sync(self->session, claims);
	registration_drop_listing(self);
	self->listing = zookeeper_listing_new(self->session, self->root, &self->layout,
					      self->datacenter_id, watch);
	self->busy = TRUE;
}

/* What an earlier session left, or a creation that was done twice, would show this server twice. */
static void delete_stale_claims(Registration *self, const ListedClaim *own)
{
	g_autofree char *claims = znode_claims(self->root, self->datacenter_id);

	for (guint i = 0; i < self->listing->claims->len; i++) {
		const ListedClaim *claim = self->listing->claims->pdata[i];
		g_autofree char *path = g_strjoin("/", claims, claim->name, NULL);

		if (g_str_equal(claim->nonce, self->nonce) && claim != own)
			zookeeper_session_delete(self->session, path);
	}
}

/* The one that is known to be its own; of those that may be, any of this session. */
static const ListedClaim *own_claim(const Registration *self)
{
	const char *name = self->claim_path != NULL ? strrchr(self->claim_path, '/') + 1 : NULL;

	for (guint i = 0; i < self->listing->claims->len; i++) {
		const ListedClaim *claim = self->listing->claims->pdata[i];

		if (claim->session == self->session_id && g_strcmp0(claim->name, name) == 0)
			return claim;
	}
	return zookeeper_listing_find_claim(self->listing, self->nonce, self->session_id);
}

static void find_claim(Registration *self)
{
	const ListedClaim *claim = own_claim(self);
	g_autofree char *claims = znode_claims(self->root, self->datacenter_id);
	g_autofree char *path = NULL;

	delete_stale_claims(self, claim);
	if (claim == NULL) {
		self->facts.claim = CLAIM_NONE;
		return;
	}
	if (self->facts.claim == CLAIM_MADE)
		return;
	path = g_strjoin("/", claims, claim->name, NULL);
	note_claim(self, path, claim->sequence, claim->claimed_at_ms, zookeeper_session_now_ns());
}

/* The others, if there are any that say where they are. */
static GPtrArray *peers_of(const Registration *self)
{
	g_autoptr(GPtrArray) peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);

	for (guint i = 0; i < self->listing->claims->len; i++) {
		const ListedClaim *claim = self->listing->claims->pdata[i];
		g_autofree char *address = NULL;

		if (claim->record.host == NULL || g_str_equal(claim->nonce, self->nonce))
			continue;
		address = claim_record_address(&claim->record);
		g_ptr_array_add(peers, peer_new(address, claim->nonce, claim->record.worker_id));
	}
	return g_steal_pointer(&peers);
}

/* Nobody knows how far its reservations went: whoever holds one may go on, but none begins. */
static void complain_of_floor(Registration *self)
{
	g_autofree char *path = znode_floor(self->root, self->datacenter_id);

	registration_complain(self, "%s in ZooKeeper %s; so no worker ID can be claimed: %s", path,
			      self->listing->floor_damage, self->listing->floor_remedy);
}

static void choose(Registration *self)
{
	const WorkerIdWish wish = {
		.nonce = self->nonce,
		.sequence = self->claim_sequence,
		.worker_id = self->wanted_worker_id,
		.n_workers = 1u << self->layout.worker_bits,
		.now_tick = self->now_tick,
	};
	g_autofree char *holders = NULL;

	if (self->listing->floor_damage != NULL) {
		complain_of_floor(self);
		return;
	}
	self->choice = worker_id_choice_make(self->listing, &wish);
	self->facts.chosen = self->choice.found;
	if (self->facts.chosen)
		return;
	holders = worker_id_choice_describe_obstacles(self->listing, &wish, &self->layout);
	self->result.wait_until_tick = self->choice.wait_until_tick;
	self->look_again_us =
		g_get_monotonic_time() + registration_timeout_ms(self) * G_TIME_SPAN_MILLISECOND;
	if (wish.worker_id < 0)
		registration_fail(self, REGISTRY_ERROR_WAIT,
				  "no worker ID of datacenter %u is free: %s", self->datacenter_id,
				  holders);
	else
		registration_fail(self, REGISTRY_ERROR_WAIT,
				  "--worker-id %" G_GINT64_FORMAT
				  " is not free in datacenter %u: %s",
				  wish.worker_id, self->datacenter_id, holders);
}

static void on_looked(Registration *self)
{
	gboolean known = self->facts.claim == CLAIM_MADE;

	find_claim(self);
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
	const PeerCheckConfig config = {
		.clock = &self->clock->clock,
		.datacenter_id = self->datacenter_id,
		.timeout_ms = PEERS_TIMEOUT_MS,
		.max_skew_ms = self->max_clock_skew_ms,
		.done = self->registry.wake,
		.user_data = self->registry.wake_data,
	};

	self->peer_check = peer_check_new(peers_of(self), &config);
	self->busy = TRUE;
}

void zookeeper_steps_look_at_peers(Registration *self)
{
	g_auto(PeerReport) report = {0};
	const char *confirmed;

	if (!peer_check_take_report(self->peer_check, &report))
		return;
	g_clear_pointer(&self->peer_check, peer_check_free);
	registration_drop_listing(self);
	self->busy = FALSE;
	confirmed = self->facts.doubtful_till_us != 0
			    ? peer_report_confirmed(&report, &self->doubts)
			    : NULL;
	if (confirmed != NULL && self->facts.goal == REGISTRY_CLAIM && !self->served) {
		registration_fail(self, REGISTRY_ERROR_FATAL, "%s", confirmed);
		return;
	}
	self->facts.peers_checked = report.contradictions->len == 0 || confirmed != NULL;
	self->facts.doubtful_till_us =
		g_get_monotonic_time() + registration_timeout_ms(self) * G_TIME_SPAN_MILLISECOND;
	if (self->facts.peers_checked)
		self->facts.doubtful_till_us = 0;
	peer_report_clear(&self->doubts);
	self->doubts = report;
	report = (PeerReport){0};
}

/* ZooKeeper's time */

static void ask_time(Registration *self)
{
	g_autofree char *json = claim_json(self);

	registration_await(self, zookeeper_session_set(self->session, self->claim_path, json));
}

/* Nothing waits for it: whoever needs it asks again. */
static void on_no_time(Registration *self, const ZookeeperMessage *message)
{
	self->facts.wants_time = FALSE;
	registration_complain_of(self, self->claim_path, message->outcome, message->reason);
}

static void on_time(Registration *self, const ZookeeperMessage *message)
{
	if (message->outcome == ZOOKEEPER_OK)
		registration_note_time(self, message->stat.modified_ms, message->sent_ns,
				       message->received_ns);
	else if (message->outcome == ZOOKEEPER_NO_NODE)
		self->facts.claim = CLAIM_UNKNOWN;
	else if (message->outcome == ZOOKEEPER_UNSURE)
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	else
		on_no_time(self, message);
}

/* All datacenters, for somebody who asked */

static void list_datacenters(Registration *self)
{
	g_autofree char *path = znode_datacenters(self->root);

	registration_drop_listing(self);
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	self->workers = g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);
	self->workers_ns = zookeeper_session_now_ns();
	self->workers_reads = 1;
	registration_await(self, zookeeper_session_children(self->session, path, FALSE));
}

static void list_next(Registration *self)
{
	guint datacenter_id;

	if (self->datacenters->len == 0) {
		g_clear_pointer(&self->registry.workers, g_ptr_array_unref);
		self->registry.workers = g_steal_pointer(&self->workers);
		self->registry.workers_ns = self->workers_ns;
		self->registry.workers_reads = self->workers_reads;
		self->facts.wants_list = FALSE;
		return;
	}
	datacenter_id = g_array_index(self->datacenters, guint, self->datacenters->len - 1);
	g_array_set_size(self->datacenters, self->datacenters->len - 1);
	self->listing = zookeeper_listing_new(self->session, self->root, &self->layout,
					      datacenter_id, FALSE);
	self->busy = TRUE;
}

static void on_datacenters(Registration *self, const ZookeeperMessage *message)
{
	if (message->outcome != ZOOKEEPER_OK) { /* whoever asked does not wait for ever */
		self->facts.wants_list = FALSE;
		return;
	}
	g_clear_pointer(&self->datacenters, g_array_unref);
	self->datacenters = g_array_new(FALSE, FALSE, sizeof(guint));
	for (char **name = message->children; *name != NULL; name++) {
		guint datacenter_id;

		if (znode_parse_number(*name, (1u << self->layout.datacenter_bits) - 1,
				       &datacenter_id))
			g_array_append_val(self->datacenters, datacenter_id);
	}
	list_next(self);
}

static void on_datacenter_listed(Registration *self)
{
	ZookeeperOutcome outcome = self->listing->outcome;

	/* one that may not be read, or whose first server is about to come, is passed over */
	if (outcome == ZOOKEEPER_UNSURE) {
		self->facts.wants_list = FALSE;
		registration_drop_listing(self);
		return;
	}
	zookeeper_listing_add_workers(self->listing, self->workers);
	self->workers_reads += self->listing->n_reads;
	registration_drop_listing(self);
	list_next(self);
}

/* All states */

void zookeeper_steps_start(Registration *self)
{
	switch (self->state) {
	case REGISTRATION_PREPARING:
		zookeeper_preparation_start(self);
		break;
	case REGISTRATION_SECURING:
		zookeeper_securing_start(self);
		break;
	case REGISTRATION_LOOKING:
		look(self);
		break;
	case REGISTRATION_ANNOUNCING:
		announce(self);
		break;
	case REGISTRATION_CHECKING:
		check_peers(self);
		break;
	case REGISTRATION_RESERVING:
	case REGISTRATION_SETTLING:
	case REGISTRATION_EXTENDING:
	case REGISTRATION_RETURNING:
	case REGISTRATION_REPAYING:
		zookeeper_reservation_start(self);
		break;
	case REGISTRATION_TIMING:
		ask_time(self);
		break;
	case REGISTRATION_LISTING:
		list_datacenters(self);
		break;
	case REGISTRATION_CONNECTING:
	case REGISTRATION_DOUBTING:
	case REGISTRATION_PAUSING:
	case REGISTRATION_RESTING:
		break;
	}
}

void zookeeper_steps_reply(Registration *self, const ZookeeperMessage *message)
{
	self->busy = FALSE;
	switch (self->state) {
	case REGISTRATION_PREPARING:
		zookeeper_preparation_reply(self, message);
		break;
	case REGISTRATION_ANNOUNCING:
		on_announced(self, message);
		break;
	case REGISTRATION_RESERVING:
	case REGISTRATION_SETTLING:
	case REGISTRATION_EXTENDING:
	case REGISTRATION_RETURNING:
	case REGISTRATION_REPAYING:
		zookeeper_reservation_reply(self, message);
		break;
	case REGISTRATION_TIMING:
		on_time(self, message);
		break;
	case REGISTRATION_LISTING:
		on_datacenters(self, message);
		break;
	case REGISTRATION_SECURING:
	case REGISTRATION_LOOKING:
	case REGISTRATION_CONNECTING:
	case REGISTRATION_CHECKING:
	case REGISTRATION_DOUBTING:
	case REGISTRATION_PAUSING:
	case REGISTRATION_RESTING:
		g_critical("a reply while %s", registration_state_name(self->state));
		break;
	}
}

void zookeeper_steps_listed(Registration *self)
{
	const ZookeeperListing *listing = self->listing;

	self->busy = FALSE;
	if (self->state == REGISTRATION_LISTING) {
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
		complain_of_claims(self, listing->outcome, listing->reason);
		break;
	}
	registration_drop_listing(self);
}
