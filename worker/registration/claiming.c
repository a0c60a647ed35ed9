/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/claiming.h"

#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/zookeeper/znodes.h"
#include "worker/clock-discipline.h"
#include "worker/registration/peer-clocks.h"

#define PEERS_TIMEOUT_MS 1000

/* The claim */

char *claiming_claim_json(const Registration *self, gint worker_id)
{
	const ClaimRecord record = {
		.program = self->config.program,
		.host = self->config.host,
		.port = self->config.port,
		.is_tls = self->config.is_tls,
		.pid = getpid(),
		.version = self->config.version,
		.started_ms = self->config.started_ms,
		.worker_id = worker_id,
		.session_timeout_ms = self->store->ops->lapse_ms(self->store),
	};

	return claim_record_to_json(&record);
}

void claiming_lose_claim(Registration *self)
{
	self->facts.claim = CLAIM_UNKNOWN;
	self->facts.prepared = FALSE;
	registration_read_again(self);
}

/* Before the first reservation nothing that others depend on was written. So the server does not
 * start, rather than make IDs and reservations by a wrong clock. */
static void check_clock(Registration *self)
{
	const RegistryClock *theirs = &self->report.clock;
	gint64 skew_ns = self->config.max_clock_skew_ms * CLOCK_NS_PER_MS;
	gint64 ahead_ns =
		clock_discipline_ahead_ns(theirs, system_clock_offset_ns(self->config.clock));

	if (self->goal.served || self->facts.goal != REGISTRY_CLAIM ||
	    (theirs->known && ABS(ahead_ns) <= skew_ns))
		return;
	registration_fail(
		self, REGISTRY_ERROR_FATAL,
		"this machine's clock is %.3f s %s ZooKeeper's, more than %.3f s: set it right, or "
		"allow as much by --max-clock-skew",
		(gdouble)ABS(ahead_ns) / 1e9, ahead_ns > 0 ? "ahead of" : "behind",
		(gdouble)self->config.max_clock_skew_ms / 1e3);
}

/* Takes the record @key for its claim. */
static void note_claim(Registration *self, const char *key, gint64 order, gint64 created_ms,
		       gint64 received_ns)
{
	g_free(self->claim.key);
	self->claim.key = g_strdup(key);
	self->claim.order = order;
	self->facts.claim = CLAIM_MADE;
	registration_forget_listing(self);
	self->store->ops->watch(self->store, key);
	log_event(LOG_CLAIM_MADE, log_text("path", key));
	self->report.claimed_at_ms = created_ms;
	registration_note_time(self, created_ms, self->claim.announced_ns, received_ns);
	check_clock(self);
	if (self->holding.held) /* its reservation is to show that it lives on */
		self->report.retry_now = TRUE;
}

/* Its data, with the worker ID that it holds. */
static char *claim_json(const Registration *self)
{
	return claiming_claim_json(self, self->holding.held ? (gint)self->holding.worker_id : -1);
}

void claiming_announce(Registration *self)
{
	g_autofree char *prefix = znode_claim_prefix(self->config.nonce);
	g_autofree char *key = g_strjoin("/", self->keys.claims, prefix, NULL);
	g_autofree char *json = claim_json(self);
	const StoreWrite write = {
		.key = key,
		.version = STORE_NONE,
		.data = json,
		.is_mortal = TRUE,
	};

	self->claim.announced_ns = clock_boottime_ns();
	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

void claiming_take_announced(Registration *self, const StoreMessage *answer)
{
	const StoreRecord *made;
	const char *name;

	switch (answer->outcome) {
	case STORE_OK:
		made = answer->records->pdata[0];
		name = strrchr(made->key, '/');
		if (name != NULL && znode_is_claim(name + 1))
			note_claim(self, made->key, made->order, made->created_ms,
				   answer->received_ns);
		else
			registration_complain_of(self, self->keys.claims, STORE_REFUSED,
						 "its answer makes no sense");
		break;
	case STORE_ABSENT:
		self->facts.prepared = FALSE;
		break;
	case STORE_UNSURE:
		self->facts.claim = CLAIM_UNKNOWN;
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case STORE_CONFLICT:
	case STORE_DENIED:
	case STORE_REFUSED:
		registration_complain_of(self, self->keys.claims, answer->outcome, answer->reason);
		break;
	}
}

/* Deletes the claims of an earlier session, or of a creation that took place twice: they would show
 * this server twice. */
static void erase_stale_claims(Registration *self, const ListedClaim *own)
{
	const GPtrArray *claims = self->listing.found->claims;

	for (guint i = 0; i < claims->len; i++) {
		const ListedClaim *claim = claims->pdata[i];
		g_autofree char *key = g_strjoin("/", self->keys.claims, claim->name, NULL);

		if (g_str_equal(claim->nonce, self->config.nonce) && claim != own)
			self->store->ops->erase(self->store, key);
	}
}

/* The one that is known to be its own; of those that may be, any of this session. */
static const ListedClaim *find_own_claim(const Registration *self)
{
	const char *name = self->claim.key != NULL ? strrchr(self->claim.key, '/') + 1 : NULL;
	const GPtrArray *claims = self->listing.found->claims;

	for (guint i = 0; i < claims->len; i++) {
		const ListedClaim *claim = claims->pdata[i];

		if (claim->is_own && g_strcmp0(claim->name, name) == 0)
			return claim;
	}
	return datacenter_listing_find_claim(self->listing.found, self->config.nonce, TRUE);
}

/* Finds its own claim in the listing, or learns that there is none. */
static void find_claim_again(Registration *self)
{
	const ListedClaim *claim = find_own_claim(self);
	g_autofree char *key = NULL;

	erase_stale_claims(self, claim);
	if (claim == NULL) {
		self->facts.claim = CLAIM_NONE;
		return;
	}
	if (self->facts.claim == CLAIM_MADE)
		return;
	key = g_strjoin("/", self->keys.claims, claim->name, NULL);
	note_claim(self, key, claim->order, claim->claimed_at_ms, clock_boottime_ns());
}

void claiming_request_time(Registration *self)
{
	g_autofree char *json = claim_json(self);
	const StoreWrite write = {.key = self->claim.key, .version = STORE_ANY, .data = json};

	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

void claiming_take_time(Registration *self, const StoreMessage *answer)
{
	if (answer->outcome == STORE_OK) {
		const StoreRecord *written = answer->records->pdata[0];

		registration_note_time(self, written->modified_ms, answer->sent_ns,
				       answer->received_ns);
	} else if (answer->outcome == STORE_ABSENT) {
		self->facts.claim = CLAIM_UNKNOWN;
	} else if (answer->outcome == STORE_UNSURE) {
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	} else { /* nothing waits for it: it is requested again */
		self->facts.wants_time = FALSE;
		registration_complain_of(self, self->claim.key, answer->outcome, answer->reason);
	}
}

/* Listing a datacenter */

void claiming_drop_listing(Registration *self)
{
	for (guint i = 0; i < N_LISTING_REQUESTS; i++) {
		if (self->listing.requests[i] != 0)
			self->store->ops->drop(self->store, self->listing.requests[i]);
		self->listing.requests[i] = 0;
	}
	g_clear_pointer(&self->listing.found, datacenter_listing_free);
	self->facts.listed = FALSE;
}

static void begin_listing(Registration *self, guint datacenter_id, gboolean fresh, gboolean watch)
{
	g_autofree char *claims = znode_claims(self->config.root, datacenter_id);
	g_autofree char *reservations = znode_reservations(self->config.root, datacenter_id);
	g_autofree char *floor = znode_floor(self->config.root, datacenter_id);
	const StoreOps *ops = self->store->ops;

	claiming_drop_listing(self);
	self->listing.found = datacenter_listing_new(&self->config.layout, datacenter_id);
	self->listing.outcome = STORE_OK;
	self->listing.requests[LISTING_CLAIMS] = ops->list(self->store, claims, fresh, watch);
	self->listing.requests[LISTING_RESERVATIONS] =
		ops->list(self->store, reservations, FALSE, FALSE);
	/* after the reservations: where those are, it was before */
	self->listing.requests[LISTING_FLOOR] = ops->read(self->store, floor, FALSE);
	registration_begin_wait(self, 0);
}

void claiming_list_datacenter(Registration *self)
{
	/* a claim that was made with a lost reply is to be in it; a server that has to wait is told
	 * when a claim goes */
	begin_listing(self, self->config.datacenter_id, self->facts.claim == CLAIM_UNKNOWN,
		      self->facts.goal == REGISTRY_CLAIM);
}

/* The other servers, if there are any that say where they are: embedded nodes take no calls. */
static GPtrArray *find_peers(const Registration *self)
{
	GPtrArray *peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);

	for (guint i = 0; i < self->listing.found->claims->len; i++) {
		const ListedClaim *claim = self->listing.found->claims->pdata[i];
		g_autofree char *address = NULL;

		if (claim->record.host == NULL || claim->record.program != NULL ||
		    g_str_equal(claim->nonce, self->config.nonce))
			continue;
		address = claim_record_address(&claim->record);
		g_ptr_array_add(peers, peer_new(address, claim->nonce, claim->record.worker_id));
	}
	return peers;
}

static void log_chosen(const Registration *self, const WorkerIdWish *wish)
{
	const DatacenterListing *listing = self->listing.found;
	g_autofree char *refused = NULL;

	if (!log_shows(LOG_WORKER_ID_CHOSEN))
		return;
	/* nothing was in the way of the only one that was wanted */
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

static void choose_worker_id(Registration *self)
{
	const DatacenterListing *listing = self->listing.found;
	const WorkerIdWish wish = {
		.nonce = self->config.nonce,
		.order = self->claim.order,
		.worker_id = self->config.worker_id,
		/* what was passed over is not to be met again */
		.preferred = self->goal.n_passed_over > 0 ? -1 : self->config.preferred_worker_id,
		.lost_race = self->goal.lost_race,
		.n_passed_over = self->goal.n_passed_over,
		.n_workers = 1u << self->config.layout.worker_bits,
		.now_tick = self->now_tick,
	};
	g_autofree char *obstacles = NULL;

	/* nobody knows how far its reservations went: a holder goes on, but none begins */
	if (listing->floor.damage != NULL) {
		registration_complain(
			self, "%s in ZooKeeper %s; so no worker ID can be claimed: %s",
			self->keys.floor, listing->floor.damage, listing->floor.remedy);
		return;
	}
	self->choice = worker_id_choice_make(listing, &wish);
	self->facts.chosen = self->choice.found;
	if (self->facts.chosen) {
		log_chosen(self, &wish);
		return;
	}
	obstacles = worker_id_choice_describe_obstacles(listing, &wish, &self->config.layout);
	registration_retry_claim_at(self, self->choice.wait_until_tick);
	if (wish.worker_id < 0)
		registration_fail(self, REGISTRY_ERROR_WAIT,
				  "no worker ID of datacenter %u is free: %s",
				  self->config.datacenter_id, obstacles);
	else
		registration_fail(self, REGISTRY_ERROR_WAIT,
				  "--worker-id %" G_GINT64_FORMAT
				  " is not free in datacenter %u: %s",
				  wish.worker_id, self->config.datacenter_id, obstacles);
}

static void take_looked(Registration *self)
{
	gboolean known = self->facts.claim == CLAIM_MADE;

	find_claim_again(self);
	if (!known || self->facts.claim != CLAIM_MADE || self->facts.goal != REGISTRY_CLAIM)
		return;
	self->facts.listed = TRUE;
	if (!self->facts.peers_checked) {
		g_autoptr(GPtrArray) peers = find_peers(self);

		self->facts.peers_checked = peers->len == 0;
	}
	if (self->facts.peers_checked)
		choose_worker_id(self);
}

/* Sanity checks */

void claiming_check_peers(Registration *self)
{
	GPtrArray *peers = find_peers(self);
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
	registration_begin_wait(self, 0);
}

void claiming_take_peers(Registration *self)
{
	g_auto(PeerReport) report = {0};
	const char *confirmed;

	if (self->peers.check == NULL || !peer_check_take_report(self->peers.check, &report))
		return;
	g_clear_pointer(&self->peers.check, peer_check_free);
	peer_clocks_note(self, &report);
	claiming_drop_listing(self);
	registration_end_wait(self);
	confirmed = self->facts.doubtful_till_us != 0
			    ? peer_report_confirmed(&report, &self->peers.earlier)
			    : NULL;
	if (confirmed != NULL && self->facts.goal == REGISTRY_CLAIM && !self->goal.served) {
		registration_fail(self, REGISTRY_ERROR_FATAL, "%s", confirmed);
		return;
	}
	self->facts.peers_checked = report.contradictions->len == 0 || confirmed != NULL;
	self->facts.doubtful_till_us =
		self->facts.peers_checked
			? 0
			: g_get_monotonic_time() +
				  self->store->ops->lapse_ms(self->store) * G_TIME_SPAN_MILLISECOND;
	peer_report_clear(&self->peers.earlier);
	self->peers.earlier = report;
	report = (PeerReport){0};
}

/* All datacenters, for a client that asked */

void claiming_drop_list(Registration *self)
{
	g_clear_pointer(&self->list.datacenters, g_array_unref);
	g_clear_pointer(&self->list.found, worker_list_free);
}

/* The client that asked does not wait for ever. */
static void give_up_list(Registration *self)
{
	self->facts.wants_list = FALSE;
	claiming_drop_list(self);
}

static void list_next_datacenter(Registration *self)
{
	GArray *datacenters = self->list.datacenters;

	if (datacenters->len > 0) {
		begin_listing(self, g_array_index(datacenters, guint, datacenters->len - 1), FALSE,
			      FALSE);
		return;
	}
	worker_list_free(self->report.list);
	self->report.list = g_steal_pointer(&self->list.found);
	give_up_list(self);
	peer_clocks_request(self);
}

void claiming_list_workers(Registration *self)
{
	g_autofree char *datacenters = NULL;

	claiming_drop_listing(self);
	/* where it was put off, it goes on with the datacenter that was being read */
	if (self->list.datacenters != NULL) {
		list_next_datacenter(self);
		return;
	}
	claiming_drop_list(self);
	datacenters = znode_datacenters(self->config.root);
	self->list.found = worker_list_new();
	self->list.found->read_at_ns = clock_boottime_ns();
	registration_begin_wait(self,
				self->store->ops->list(self->store, datacenters, FALSE, FALSE));
}

void claiming_take_datacenters(Registration *self, const StoreMessage *answer)
{
	if (answer->outcome != STORE_OK) {
		give_up_list(self);
		return;
	}
	self->list.found->n_reads = 1 + answer->records->len;
	self->list.datacenters = g_array_new(FALSE, FALSE, sizeof(guint));
	for (guint i = 0; i < answer->records->len; i++) {
		const StoreRecord *record = answer->records->pdata[i];
		guint datacenter_id;

		if (znode_parse_number(strrchr(record->key, '/') + 1,
				       (1u << self->config.layout.datacenter_bits) - 1,
				       &datacenter_id))
			g_array_append_val(self->list.datacenters, datacenter_id);
	}
	list_next_datacenter(self);
}

static void take_datacenter_listed(Registration *self)
{
	const DatacenterListing *found = self->listing.found;
	WorkerList *list = self->list.found;

	/* one that may not be read, or whose first server is about to come, is passed over */
	if (self->listing.outcome == STORE_UNSURE) {
		give_up_list(self);
		claiming_drop_listing(self);
		return;
	}
	datacenter_listing_add_workers(found, list->workers);
	if (self->listing.outcome == STORE_OK) /* else nobody knows what is held */
		datacenter_listing_add_quarantined(found, self->now_tick, list->quarantined);
	list->n_reads += N_LISTING_REQUESTS + found->claims->len + found->reservations->len;
	g_array_set_size(self->list.datacenters, self->list.datacenters->len - 1);
	claiming_drop_listing(self);
	list_next_datacenter(self);
}

static void take_listed(Registration *self)
{
	registration_end_wait(self);
	datacenter_listing_sort(self->listing.found);
	if (self->step.state == REGISTRATION_LISTING) {
		take_datacenter_listed(self);
		return;
	}
	switch (self->listing.outcome) {
	case STORE_OK:
		take_looked(self);
		return;
	case STORE_ABSENT:
		self->facts.prepared = FALSE;
		break;
	case STORE_UNSURE:
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case STORE_CONFLICT:
	case STORE_DENIED:
	case STORE_REFUSED:
		registration_complain_of(self, self->keys.claims, self->listing.outcome,
					 self->listing.reason);
		break;
	}
	claiming_drop_listing(self);
}

/* A floor that is missing or may not be read matters to a claim, and to nothing else. */
static void take_listed_floor(Registration *self, const StoreMessage *answer)
{
	static const StoreRecord unreadable = {.key = (char *)"floor"};
	const StoreRecord *read = NULL;

	if (answer->outcome == STORE_OK)
		read = answer->records->pdata[0];
	else if (answer->outcome == STORE_DENIED)
		read = &unreadable;
	datacenter_listing_set_floor(self->listing.found, read);
}

gboolean claiming_take_listing(Registration *self, const StoreMessage *answer)
{
	gboolean is_finished = TRUE;
	guint which = 0;

	while (which < N_LISTING_REQUESTS && self->listing.requests[which] != answer->request)
		which++;
	if (which == N_LISTING_REQUESTS)
		return FALSE;
	registration_note_error(self, answer);
	self->listing.requests[which] = 0;
	if (which == LISTING_FLOOR &&
	    (answer->outcome == STORE_ABSENT || answer->outcome == STORE_DENIED ||
	     answer->outcome == STORE_OK)) {
		take_listed_floor(self, answer);
	} else if (answer->outcome != STORE_OK) {
		if (self->listing.outcome == STORE_OK) {
			self->listing.outcome = answer->outcome;
			self->listing.reason = answer->reason;
		}
	} else {
		for (guint i = 0; i < answer->records->len; i++)
			if (which == LISTING_CLAIMS)
				datacenter_listing_add_claim(self->listing.found,
							     answer->records->pdata[i]);
			else
				datacenter_listing_add_reservation(self->listing.found,
								   answer->records->pdata[i]);
	}
	for (guint i = 0; i < N_LISTING_REQUESTS; i++)
		is_finished = is_finished && self->listing.requests[i] == 0;
	if (is_finished)
		take_listed(self);
	return TRUE;
}
