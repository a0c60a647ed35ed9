/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/step.h"

#include <string.h>

#include "common/log.h"
#include "worker/registration/reservation.h"

#define PEERS_TIMEOUT_MS   1000
#define MAX_CLOCK_PEERS    16
#define CLOCKS_INTERVAL_US (30 * G_USEC_PER_SEC)
/* The largest accepted difference between clocks. As a number of nanoseconds, it fits in 64
 * bits. */
#define MAX_SKEW_MS        (G_MAXINT64 / CLOCK_NS_PER_MS)

/* PREPARING: before a server claims anything, the store must contain the same layout, the expected
 * registry ID, limits that are not lower than this server's, and the datacenter. Missing records
 * are created one after the other: a datacenter's floor before its reservations, so that every
 * datacenter with reservations has a floor. */

static void read_record(Registration *self, PreparationStep step, const char *key)
{
	/* the read of the floor must be fresh: a raised floor means that history may have been
	 * lost */
	guint64 request = self->store->ops->read(self->store, key, step == PREPARATION_FLOOR);

	self->preparation.step = step;
	registration_begin_wait(self, request);
}

void step_start_preparing(Registration *self)
{
	read_record(self, PREPARATION_LAYOUT, self->keys.layout);
}

/* Requests the next missing record, after the answer for the previous one. If several requests were
 * open, a reconnect could drop one of them. */
static void make_next_record(Registration *self)
{
	StoreWrite write = {.version = STORE_NONE, .data = ""};
	g_autofree char *json = NULL, *new_id = NULL;
	const char *id = self->registry_id != NULL ? self->registry_id : self->config.registry_id;
	const GPtrArray *missing = self->preparation.missing;
	/* if an ID is added to an existing registry, its history is unknown */
	gboolean is_new = missing->len > 0 &&
			  g_str_equal(missing->pdata[missing->len - 1], self->keys.layout);
	const ZnodeHistory unknown = znode_history_of(*self->history.text != '\0' ? "unknown" : "");

	if (self->preparation.n_made == self->preparation.missing->len) {
		/* created by this server or by another; read it again */
		step_start_preparing(self);
		return;
	}
	write.key = self->preparation.missing->pdata[self->preparation.n_made];
	if (g_str_equal(write.key, self->keys.layout))
		write.data = json = znode_layout_to_json(&self->config.layout);
	else if (g_str_equal(write.key, self->keys.registry))
		write.data = json =
			znode_registry_to_json(id != NULL ? id : (new_id = g_uuid_string_random()),
					       is_new ? &self->history : &unknown);
	else if (g_str_equal(write.key, self->keys.floor))
		/* In another history, the datacenter may have existed in what was lost. The floor
		 * is then raised when it is read. */
		write.data = json = znode_floor_to_json(
			&(ZnodeFloor){.history = self->preparation.registry_history});
	self->preparation.step = PREPARATION_MAKING;
	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

/* Begins to create the records with @keys. @with_parents: first create the parents of the first
 * key */
static void make_records(Registration *self, const char *const keys[], gboolean with_parents)
{
	GPtrArray *missing =
		with_parents ? znode_parents(keys[0]) : g_ptr_array_new_with_free_func(g_free);

	g_clear_pointer(&self->preparation.missing, g_ptr_array_unref);
	self->preparation.missing = missing;
	self->preparation.n_made = 0;
	self->preparation.n_parents = missing->len;
	for (guint i = 0; keys[i] != NULL; i++)
		g_ptr_array_add(missing, g_strdup(keys[i]));
	make_next_record(self);
}

static void take_made_record(Registration *self, const StoreMessage *answer)
{
	gboolean exists = answer->outcome == STORE_OK || answer->outcome == STORE_CONFLICT;
	gboolean is_parent = self->preparation.n_made < self->preparation.n_parents;
	const char *key = self->preparation.missing->pdata[self->preparation.n_made];

	/* the last record of a registry or a datacenter, which no other server has created */
	if (answer->outcome == STORE_OK && g_str_equal(key, self->keys.layout))
		self->has_created_registry = TRUE;
	/* Warn that the datacenter is new, because its ID can be a typing error. In a registry that
	 * this server has created, each datacenter is new. */
	if (answer->outcome == STORE_OK && g_str_equal(key, self->keys.reservations) &&
	    !self->has_created_registry) {
		g_autofree char *path = g_path_get_dirname(self->keys.reservations);

		log_event(LOG_DATACENTER_CREATED,
			  log_number("datacenter_id", self->config.datacenter_id),
			  log_text("path", path),
			  log_text("remedy", "if this is not a new datacenter, stop the server and "
					     "correct --datacenter-id"));
	}
	/* a parent may already exist even if this server has no permission to create it */
	if (exists || is_parent) {
		self->preparation.n_made++;
		make_next_record(self);
	} else if (answer->outcome == STORE_ABSENT && self->preparation.n_parents == 0) {
		step_start_preparing(self); /* the parents were deleted after they were read */
	} else if (answer->outcome == STORE_ABSENT) {
		registration_complain(self,
				      "cannot create %s in %s; create it, with its parents, or "
				      "%s",
				      self->config.root, self->store->name,
				      self->store->access_remedy);
	} else {
		registration_complain_of(self, self->config.root, answer->outcome, answer->reason);
	}
}

static void check_layout(Registration *self, const StoreRecord *record)
{
	g_autofree char *theirs = NULL;
	g_autofree char *ours = layout_to_string(&self->config.layout);
	g_autoptr(GError) error = NULL;
	Layout layout;

	if (znode_layout_from_json(record->data, record->length, &layout, &error)) {
		if (layout_equal(&layout, &self->config.layout)) {
			read_record(self, PREPARATION_REGISTRY, self->keys.registry);
			return;
		}
		theirs = layout_to_string(&layout);
	}
	registration_complain(
		self,
		"%s in %s %s%s, but this server's layout is %s; use that layout, or "
		"%s for separate IDs",
		self->keys.layout, self->store->name, theirs != NULL ? "is " : "does not parse: ",
		theirs != NULL ? theirs : error->message, ours, self->store->root_option);
}

/* Compares the registry's ID with the ID on earlier connections, or with the configured one.
 * @record: (nullable): %NULL if there is no ID; a registry of an earlier version then gets one */
static void check_registry_id(Registration *self, const StoreRecord *record)
{
	const char *const registry[] = {self->keys.registry, NULL};
	g_autoptr(GError) error = NULL;
	g_autofree char *id = NULL;

	if (record == NULL && self->registry_id == NULL && self->config.registry_id != NULL) {
		registration_complain(self,
				      "the registry at %s in %s has no ID, but --registry-id is "
				      "%s; check %s; if it is right, restore the ID as in "
				      "docs/how-to/backup.md",
				      self->config.root, self->store->name,
				      self->config.registry_id, self->store->option);
		return;
	}
	if (record == NULL) {
		make_records(self, registry, FALSE);
		return;
	}
	id = znode_registry_from_json(record->data, record->length, &error);
	if (id == NULL) {
		registration_complain(self,
				      "%s in %s does not parse: %s; restore the ID as in "
				      "docs/how-to/backup.md",
				      self->keys.registry, self->store->name, error->message);
	} else if (self->registry_id != NULL && !g_str_equal(id, self->registry_id)) {
		registration_complain(
			self,
			"the registry at %s in %s is a different one: its ID is now %s, and was "
			"%s; see docs/how-to/backup.md: restore the old ID, or restart the server "
			"to use the new registry",
			self->config.root, self->store->name, id, self->registry_id);
	} else if (self->config.registry_id != NULL && !g_str_equal(id, self->config.registry_id)) {
		registration_complain(self,
				      "the ID of the registry at %s in %s is %s, but --registry-id "
				      "is %s; check %s",
				      self->config.root, self->store->name, id,
				      self->config.registry_id, self->store->option);
	} else {
		if (self->registry_id == NULL)
			self->registry_id = g_steal_pointer(&id);
		self->report.registry_id = self->registry_id;
		self->preparation.registry_history =
			znode_registry_history(record->data, record->length);
		read_record(self, PREPARATION_LIMITS, self->keys.limits);
	}
}

/* Continues without valid limits. Only claims need them; a held reservation can be extended without
 * them. */
static void continue_without_limits(Registration *self, const char *fault)
{
	g_autofree char *text =
		g_strdup_printf("%s in %s cannot be used (%s), so no worker ID can be claimed; let "
				"all servers read and write it, or delete it, so that each server "
				"adds its own limits when it connects",
				self->keys.limits, self->store->name, fault);

	if (!self->reservation.is_held) {
		registration_complain(self, "%s", text);
		return;
	}
	log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", text));
	self->preparation.limits = (ZnodeLimits){0};
	read_record(self, PREPARATION_RESERVATIONS, self->keys.reservations);
}

/* Raises the limits to those of this server, if they are lower or missing. @record: (nullable) */
static void check_limits(Registration *self, const StoreRecord *record)
{
	gint64 skew_ms = self->config.max_clock_skew_ms;
	gint64 reservation_ms = self->registry.max_length_ms;
	StoreWrite write = {.key = self->keys.limits, .version = STORE_NONE};
	g_autoptr(GError) error = NULL;
	g_autofree char *json = NULL;
	ZnodeLimits limits = {0};

	if (record != NULL &&
	    !znode_limits_from_json(record->data, record->length, &limits, &error)) {
		continue_without_limits(self, error->message);
		return;
	}
	if (record != NULL && limits.max_clock_skew_ms >= skew_ms &&
	    limits.reservation_ms >= reservation_ms) {
		self->preparation.limits = limits;
		read_record(self, PREPARATION_RESERVATIONS, self->keys.reservations);
		return;
	}
	limits.max_clock_skew_ms = MAX(limits.max_clock_skew_ms, skew_ms);
	limits.reservation_ms = MAX(limits.reservation_ms, reservation_ms);
	json = znode_limits_to_json(&limits);
	write.data = json;
	if (record != NULL)
		write.version = record->version;
	self->preparation.step = PREPARATION_RAISING;
	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

/* A floor of another history: servers of a lost history may have claimed worker IDs and extended
 * reservations, of which this store knows nothing. Nothing can be claimed or extended before the
 * floor is raised and belongs to this history, because each commit requires the floor that was read
 * here. All servers that connect do this; the version of the floor decides which one raises it. */

static void commit_floor(Registration *self, PreparationStep step, gint32 version)
{
	g_autofree char *json = znode_floor_to_json(&self->preparation.floor);
	const StoreWrite write = {.key = self->keys.floor, .version = version, .data = json};

	self->preparation.step = step;
	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

static void time_floor(Registration *self, const Floor *floor)
{
	if (self->preparation.limits.reservation_ms == 0) {
		registration_complain(self,
				      "%s in %s is from another history of %s, and without valid "
				      "limits it cannot be raised; run snowflakectl registry "
				      "quarantine --even-if-servers-live",
				      self->keys.floor, self->store->name, self->store->name);
		return;
	}
	self->preparation.floor = (ZnodeFloor){
		.tick = floor->tick,
		.clock_tick = floor->clock_tick,
		.history = floor->history,
	};
	commit_floor(self, PREPARATION_TIMING_FLOOR, floor->version);
}

/* Raises the floor by the store's time. If the store's clock differs from this server's, it is
 * unknown which of them is wrong, and the floor could be too low. */
static void raise_floor(Registration *self, const StoreMessage *answer)
{
	const StoreRecord *written = answer->records->pdata[0];
	const ZnodeHistory before = self->preparation.floor.history;
	gint64 skew_ns = self->config.max_clock_skew_ms * CLOCK_NS_PER_MS;
	g_autofree char *until = NULL;
	gint64 ahead_ns;
	ZnodeFloor least;

	registration_note_time(self, written->modified_ms, answer->sent_ns, answer->received_ns);
	ahead_ns = registry_clock_ahead_ns(&self->report.clock,
					   system_clock_offset_ns(self->config.clock));
	if (!self->report.clock.known || ABS(ahead_ns) > skew_ns ||
	    !floor_after_loss(&self->config.layout, written->modified_ms, &self->preparation.limits,
			      &least)) {
		registration_complain(self,
				      "the floor of datacenter %u cannot be raised for another "
				      "history of %s, because this machine's clock is %.3f s "
				      "%s %s's; correct the wrong clock",
				      self->config.datacenter_id, self->store->name,
				      (gdouble)ABS(ahead_ns) / 1e9,
				      ahead_ns > 0 ? "ahead of" : "behind", self->store->name);
		return;
	}
	self->preparation.floor = floor_raise(&self->preparation.floor, &least, &self->history);
	until = layout_tick_text(&self->config.layout, self->preparation.floor.tick);
	log_event(LOG_HISTORY_CHANGED, log_number("datacenter_id", self->config.datacenter_id),
		  log_text("from", before.text), log_text("to", self->history.text),
		  log_text("until", until),
		  log_text("meaning", "commits may be lost, so no worker ID is claimed until then; "
				      "servers with a worker ID continue"));
	commit_floor(self, PREPARATION_RAISING_FLOOR, written->version);
}

/* Handles the answer to a step of PREPARING. @record: (nullable): the record; %NULL if it is
 * missing, or if the step reads no record */
static void take_prepared(Registration *self, const StoreMessage *answer, const StoreRecord *record)
{
	/* the ID first: each registry with a layout has one, unless an earlier version created
	 * it */
	const char *const registry[] = {self->keys.registry, self->keys.layout, NULL};
	const char *const claims[] = {self->keys.claims, NULL};
	const char *const datacenter[] = {self->keys.floor, self->keys.claims,
					  self->keys.reservations, NULL};
	g_auto(Floor) floor = {0};

	switch (self->preparation.step) {
	case PREPARATION_LAYOUT:
		if (record != NULL)
			check_layout(self, record);
		else if (self->config.create_registry)
			make_records(self, registry, TRUE);
		else /* the root may be a typo, and a second registry would issue the same IDs */
			registration_complain(
				self,
				"%s has no registry at %s; check %s, or, for a new registry, run "
				"snowflakectl registry init or use --create-registry",
				self->store->name, self->config.root, self->store->option);
		break;
	case PREPARATION_REGISTRY:
		check_registry_id(self, record);
		break;
	case PREPARATION_LIMITS:
		check_limits(self, record);
		break;
	/* this server has raised the limits, or another one whose limits may be lower, so read
	 * them again */
	case PREPARATION_RAISING:
		if (answer->outcome == STORE_ABSENT)
			step_start_preparing(self);
		else
			read_record(self, PREPARATION_LIMITS, self->keys.limits);
		break;
	case PREPARATION_RESERVATIONS: /* the last record of a datacenter to be created */
		if (record == NULL)
			make_records(self, datacenter, TRUE);
		else
			read_record(self, PREPARATION_CLAIMS, self->keys.claims);
		break;
	/* Reservations exist, so the parents exist. Create only the parent of the claim records.
	 * Never create a floor here: if it is missing, an operator has deleted it. */
	case PREPARATION_CLAIMS:
		if (record == NULL)
			make_records(self, claims, FALSE);
		else
			read_record(self, PREPARATION_FLOOR, self->keys.floor);
		break;
	case PREPARATION_FLOOR: /* a missing or damaged floor only prevents claims */
		floor_read(&floor, record, &self->config.layout);
		if (floor.damage == NULL && !znode_history_equal(&floor.history, &self->history)) {
			time_floor(self, &floor);
			break;
		}
		self->facts.prepared = TRUE;
		/* check the ACLs again, because other clients may have created records since, even
		 * without an ACL */
		self->facts.acls_checked = FALSE;
		reservation_check_floor(self, floor.damage == NULL ? &floor : NULL);
		break;
	/* read it again, also if another server has raised it */
	case PREPARATION_TIMING_FLOOR:
		if (answer->outcome == STORE_OK)
			raise_floor(self, answer);
		else
			read_record(self, PREPARATION_FLOOR, self->keys.floor);
		break;
	case PREPARATION_RAISING_FLOOR:
		read_record(self, PREPARATION_FLOOR, self->keys.floor);
		break;
	case PREPARATION_MAKING:
		take_made_record(self, answer);
		break;
	}
}

void step_take_preparation_answer(Registration *self, const StoreMessage *answer)
{
	PreparationStep step = self->preparation.step;

	switch (answer->outcome) {
	case STORE_OK:
		take_prepared(self, answer,
			      answer->records->len > 0 ? answer->records->pdata[0] : NULL);
		break;
	case STORE_ABSENT:
	case STORE_CONFLICT:
		take_prepared(self, answer, NULL);
		break;
	case STORE_UNSURE: /* the step starts again */
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case STORE_DENIED:
	case STORE_REFUSED:
		if (step == PREPARATION_MAKING)
			take_made_record(self, answer);
		else if (step == PREPARATION_LIMITS || step == PREPARATION_RAISING)
			continue_without_limits(self, answer->reason);
		else
			registration_complain_of(self, self->config.root, answer->outcome,
						 answer->reason);
		break;
	}
}

/* CHECKING_ACLS: with a password, checks that clients without it cannot write to the records that
 * servers share. */

void step_start_checking_acls(Registration *self)
{
	guint64 request = self->store->ops->check_access(self->store, self->config.datacenter_id);

	if (request != 0)
		registration_begin_wait(self, request);
	else
		self->facts.acls_checked = TRUE;
}

void step_take_acls(Registration *self, const StoreMessage *answer)
{
	g_autofree char *remedy = NULL;

	if (answer->is_open) {
		remedy = self->store->ops->describe_remedy(self->store, answer->key);
		registration_complain(
			self,
			"anyone can write %s in %s, so --zookeeper-auth does not protect it; %s",
			answer->key, self->store->name, remedy);
	} else if (answer->outcome == STORE_OK) {
		self->facts.acls_checked = TRUE;
	} else if (answer->outcome == STORE_UNSURE) {
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	} else {
		registration_complain_of(self, answer->key, answer->outcome, answer->reason);
	}
}

/* CREATING_CLAIM: creates the claim record, which is ephemeral and shows that this server is alive.
 */

/* Records that @key is the claim record of this server. */
static void note_claim(Registration *self, const char *key, gint64 order, gint64 created_ms,
		       gint64 received_ns)
{
	const RegistryClock *theirs = &self->report.clock;
	gint64 skew_ns = self->config.max_clock_skew_ms * CLOCK_NS_PER_MS;
	gint64 ahead_ns;

	g_free(self->claim.key);
	self->claim.key = g_strdup(key);
	self->claim.order = order;
	self->facts.claim = CLAIM_MADE;
	/* read the datacenter again: only a reading that contains this record is usable, and the
	 * choice depends on the order of the record */
	registration_forget_datacenter(self);
	self->store->ops->watch(self->store, key);
	log_event(LOG_CLAIM_MADE, log_text("path", key),
		  log_text("registry_id", self->registry_id));
	self->report.claimed_at_ms = created_ms;
	registration_note_time(self, created_ms, self->claim.creation_sent_ns, received_ns);
	/* before the first reservation, compare the clocks: a server with a wrong clock does not
	 * start, so it makes no reservation and issues no IDs with that clock */
	ahead_ns = registry_clock_ahead_ns(theirs, system_clock_offset_ns(self->config.clock));
	if (!self->has_served && self->facts.operation == REGISTRY_CLAIM &&
	    !(theirs->known && ABS(ahead_ns) <= skew_ns))
		registration_fail(
			self, REGISTRY_ERROR_FATAL,
			"this machine's clock is %.3f s %s %s's; the limit is %.3f s; correct "
			"the clock, or raise --max-clock-skew",
			(gdouble)ABS(ahead_ns) / 1e9, ahead_ns > 0 ? "ahead of" : "behind",
			self->store->name, (gdouble)self->config.max_clock_skew_ms / 1e3);
	/* extend now, because the commit confirms that the reservation and this record exist
	 * together */
	if (self->reservation.is_held)
		self->report.retry_now = TRUE;
}

void step_start_creating_claim(Registration *self)
{
	g_autofree char *prefix = znode_claim_prefix(self->config.nonce);
	g_autofree char *key = g_strjoin("/", self->keys.claims, prefix, NULL);
	g_autofree char *json = registration_claim_json(self, -1);
	const StoreWrite write = {
		.key = key,
		.version = STORE_NONE,
		.data = json,
		.is_ephemeral = TRUE,
	};

	self->claim.creation_sent_ns = clock_boottime_ns();
	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

void step_take_created_claim(Registration *self, const StoreMessage *answer)
{
	const StoreRecord *made;
	const char *name;
	g_autofree char *nonce = NULL;

	switch (answer->outcome) {
	case STORE_OK:
		made = answer->records->pdata[0];
		name = strrchr(made->key, '/');
		nonce = name != NULL ? znode_claim_nonce(name + 1) : NULL;
		if (nonce != NULL)
			note_claim(self, made->key, made->order, made->created_ms,
				   answer->received_ns);
		else
			registration_complain_of(self, self->keys.claims, STORE_REFUSED,
						 "invalid answer");
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

/* READING_TIME: reads the store's clock from the time of a write to the claim record. */

void step_start_reading_time(Registration *self)
{
	g_autofree char *json = registration_claim_json(self, -1);
	const StoreWrite write = {.key = self->claim.key, .version = STORE_ANY, .data = json};

	registration_begin_wait(self, self->store->ops->commit(self->store, &write, 1));
}

void step_take_time(Registration *self, const StoreMessage *answer)
{
	if (answer->outcome == STORE_OK) {
		const StoreRecord *written = answer->records->pdata[0];

		registration_note_time(self, written->modified_ms, answer->sent_ns,
				       answer->received_ns);
	} else if (answer->outcome == STORE_ABSENT) {
		self->facts.claim = CLAIM_UNKNOWN;
	} else if (answer->outcome == STORE_UNSURE) {
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		/* no state waits for the time, so do not repeat the request; the keeper makes it
		 * again */
	} else {
		self->facts.wants_time = FALSE;
		registration_complain_of(self, self->claim.key, answer->outcome, answer->reason);
	}
}

/* READING_DATACENTER: reads the floor, the claim records and the reservations of the datacenter.
 * Finds the claim record of this server, and then chooses a worker ID to reserve. */

static void drop_datacenter(Registration *self)
{
	for (guint i = 0; i < N_DATACENTER_REQUESTS; i++) {
		if (self->datacenter.requests[i] != 0)
			self->store->ops->drop(self->store, self->datacenter.requests[i]);
		self->datacenter.requests[i] = 0;
	}
	g_clear_pointer(&self->datacenter.listing, datacenter_listing_free);
	self->facts.datacenter_was_read = FALSE;
}

static void request_datacenter(Registration *self, guint datacenter_id, gboolean fresh,
			       gboolean watch)
{
	g_autofree char *claims =
		znode_in_datacenter(self->config.root, datacenter_id, ZNODES_CLAIMS);
	g_autofree char *reservations =
		znode_in_datacenter(self->config.root, datacenter_id, ZNODES_RESERVATIONS);
	g_autofree char *floor =
		znode_in_datacenter(self->config.root, datacenter_id, ZNODES_FLOOR);
	const StoreOps *ops = self->store->ops;

	drop_datacenter(self);
	self->datacenter.listing = datacenter_listing_new(&self->config.layout, datacenter_id);
	self->datacenter.outcome = STORE_OK;
	self->datacenter.requests[DATACENTER_CLAIMS] = ops->list(self->store, claims, fresh, watch);
	self->datacenter.requests[DATACENTER_RESERVATIONS] =
		ops->list(self->store, reservations, FALSE, FALSE);
	/* read the floor after the reservations, so that it is found if there is any reservation */
	self->datacenter.requests[DATACENTER_FLOOR] = ops->read(self->store, floor, FALSE);
	registration_begin_wait(self, 0);
}

void step_start_reading_datacenter(Registration *self)
{
	/* if it is unknown whether the claim record was created, the reading must be fresh, so that
	 * the record is found if it exists; the watch notifies a waiting server when a claim record
	 * is created or deleted */
	request_datacenter(self, self->config.datacenter_id, self->facts.claim == CLAIM_UNKNOWN,
			   self->facts.operation == REGISTRY_CLAIM);
}

/* Returns the known claim record of this server, or else any of its claim records in this session.
 */
static const ListedClaim *find_own_claim(const Registration *self)
{
	const char *name = self->claim.key != NULL ? strrchr(self->claim.key, '/') + 1 : NULL;
	const GPtrArray *claims = self->datacenter.listing->claims;
	const ListedClaim *own = NULL;

	for (guint i = 0; i < claims->len; i++) {
		const ListedClaim *claim = claims->pdata[i];

		if (claim->is_own && g_strcmp0(claim->name, name) == 0)
			return claim;
		if (own == NULL && claim->is_own && g_str_equal(claim->nonce, self->config.nonce))
			own = claim;
	}
	return own;
}

/* Returns the peers that can be called. Embedded nodes accept no calls. */
static GPtrArray *find_peers(const Registration *self)
{
	GPtrArray *peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);

	for (guint i = 0; i < self->datacenter.listing->claims->len; i++) {
		const ListedClaim *claim = self->datacenter.listing->claims->pdata[i];
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
	const DatacenterListing *listing = self->datacenter.listing;
	g_autofree char *refused = NULL;

	if (!log_shows(LOG_WORKER_ID_CHOSEN))
		return;
	/* if a specific worker ID was wanted and chosen, there was no obstacle */
	refused = wish->worker_id < 0
			  ? worker_id_choice_describe_obstacles(listing, wish, &self->config.layout)
			  : NULL;
	log_event(LOG_WORKER_ID_CHOSEN, log_number("worker_id", self->choice.worker_id),
		  log_number("wanted", wish->worker_id), log_number("preferred", wish->preferred),
		  log_number("claims", listing->claims->len),
		  log_number("reservations", listing->reservations->len),
		  log_number("lost_race", wish->lost_race),
		  log_number("passed_over", wish->n_skipped_records), log_text("refused", refused));
}

static void choose_worker_id(Registration *self)
{
	const DatacenterListing *listing = self->datacenter.listing;
	const WorkerIdWish wish = {
		.nonce = self->config.nonce,
		.order = self->claim.order,
		.worker_id = self->config.worker_id,
		/* a record that was skipped must not be chosen again */
		.preferred = self->operation.n_skipped_records > 0
				     ? -1
				     : self->config.preferred_worker_id,
		.lost_race = self->operation.lost_race,
		.n_skipped_records = self->operation.n_skipped_records,
		.n_workers = 1u << self->config.layout.worker_bits,
		.now_tick = self->now_tick,
	};
	g_autofree char *obstacles = NULL;

	/* Without the floor, this server does not know which ticks may already be used, so it
	 * claims nothing. Servers with a lease continue. */
	if (listing->floor.damage != NULL) {
		registration_complain(self, "%s in %s %s, so no worker ID can be claimed; %s",
				      self->keys.floor, self->store->name, listing->floor.damage,
				      listing->floor.remedy);
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

static void use_own_datacenter(Registration *self)
{
	const GPtrArray *claims = self->datacenter.listing->claims;
	const ListedClaim *own = find_own_claim(self);

	/* delete claim records of an earlier session, or of a repeated creation, because they would
	 * show this server twice */
	for (guint i = 0; i < claims->len; i++) {
		const ListedClaim *claim = claims->pdata[i];
		g_autofree char *key = g_strjoin("/", self->keys.claims, claim->name, NULL);

		if (g_str_equal(claim->nonce, self->config.nonce) && claim != own)
			self->store->ops->erase(self->store, key);
	}
	if (own == NULL) {
		self->facts.claim = CLAIM_NONE;
		return;
	}
	if (self->facts.claim != CLAIM_MADE) {
		g_autofree char *key = g_strjoin("/", self->keys.claims, own->name, NULL);

		note_claim(self, key, own->order, own->claimed_at_ms, clock_boottime_ns());
		return;
	}
	if (self->facts.operation != REGISTRY_CLAIM)
		return;
	self->facts.datacenter_was_read = TRUE;
	if (!self->facts.peers_checked) {
		g_autoptr(GPtrArray) peers = find_peers(self);

		self->facts.peers_checked = peers->len == 0;
	}
	if (self->facts.peers_checked)
		choose_worker_id(self);
}

/* CHECKING_PEERS: asks the peers for their worker IDs and clocks, before the first claim. */

/* @peers: (transfer full) (element-type Peer) */
static PeerCheck *ask_peers(Registration *self, GPtrArray *peers, gboolean quiet)
{
	PeerCheckConfig config = {
		.clock = &self->config.clock->clock,
		.datacenter_id = self->config.datacenter_id,
		.timeout_ms = PEERS_TIMEOUT_MS,
		.max_skew_ms = self->config.max_clock_skew_ms,
		.quiet = quiet,
		.done = self->registry.wake,
		.user_data = self->registry.wake_data,
	};

	for (guint i = 0; i < peers->len && self->peers.tls == NULL; i++)
		if (address_text_is_tls(((const Peer *)peers->pdata[i])->address))
			self->peers.tls = tls_client_new(&self->config.tls, NULL);
	config.tls = self->peers.tls;
	return peer_check_new(peers, &config);
}

void step_start_checking_peers(Registration *self)
{
	self->peers.check = ask_peers(self, find_peers(self), FALSE);
	registration_begin_wait(self, 0);
}

void step_take_peers(Registration *self)
{
	g_auto(PeerReport) report = {0};
	const char *confirmed;

	if (self->peers.check == NULL || !peer_check_take_report(self->peers.check, &report))
		return;
	g_clear_pointer(&self->peers.check, peer_check_free);
	step_note_clocks(self, &report);
	drop_datacenter(self);
	registration_end_wait(self);
	confirmed = self->facts.recheck_peers_at_us != 0
			    ? peer_report_confirmed(&report, &self->peers.earlier)
			    : NULL;
	if (confirmed != NULL && self->facts.operation == REGISTRY_CLAIM && !self->has_served) {
		registration_fail(self, REGISTRY_ERROR_FATAL, "%s", confirmed);
		return;
	}
	/* a server that has served before does not stop because of a confirmed contradiction */
	self->facts.peers_checked = report.contradictions->len == 0 || confirmed != NULL;
	self->facts.recheck_peers_at_us =
		self->facts.peers_checked
			? 0
			: g_get_monotonic_time() +
				  self->store->ops->session_timeout_ms(self->store) *
					  G_TIME_SPAN_MILLISECOND;
	peer_report_clear(&self->peers.earlier);
	self->peers.earlier = report;
	report = (PeerReport){0};
}

void step_request_clocks(Registration *self)
{
	GPtrArray *peers;

	if (self->peers.clocks != NULL || self->facts.now_us < self->peers.clocks_due_at_us)
		return;
	self->peers.clocks_due_at_us = self->facts.now_us + CLOCKS_INTERVAL_US;
	peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);
	for (guint i = 0; i < self->report.list->workers->len; i++) {
		const SnowflakeClientWorker *worker = self->report.list->workers->pdata[i];

		if (worker->datacenter_id == (gint)self->config.datacenter_id &&
		    *worker->address != '\0' && !g_str_equal(worker->nonce, self->config.nonce))
			g_ptr_array_add(
				peers, peer_new(worker->address, worker->nonce, worker->worker_id));
	}
	while (peers->len > MAX_CLOCK_PEERS)
		g_ptr_array_remove_index_fast(peers,
					      (guint)g_random_int_range(0, (gint32)peers->len));
	if (peers->len > 0) {
		self->peers.clocks = ask_peers(self, peers, TRUE);
	} else {
		g_ptr_array_unref(peers);
		self->report.peers = (RegistryPeers){0};
	}
}

void step_take_clocks(Registration *self)
{
	g_auto(PeerReport) report = {0};

	if (self->peers.clocks == NULL || !peer_check_take_report(self->peers.clocks, &report))
		return;
	g_clear_pointer(&self->peers.clocks, peer_check_free);
	step_note_clocks(self, &report);
}

void step_note_clocks(Registration *self, const PeerReport *report)
{
	self->report.peers = (RegistryPeers){
		.known = report->clocks_known,
		.ahead_ns = CLAMP(report->furthest_ms, -MAX_SKEW_MS, MAX_SKEW_MS) * CLOCK_NS_PER_MS,
	};
}

/* LISTING_WORKERS: lists the workers of all datacenters, one after the other, for a client's
 * request. */

static void drop_workers(Registration *self)
{
	g_clear_pointer(&self->workers.datacenters, g_array_unref);
	g_clear_pointer(&self->workers.list, worker_list_free);
}

/* Ends the list, successfully or not, so that the client does not wait indefinitely. */
static void end_workers(Registration *self)
{
	self->facts.wants_list = FALSE;
	drop_workers(self);
}

static void request_next_datacenter(Registration *self)
{
	GArray *datacenters = self->workers.datacenters;

	if (datacenters->len > 0) {
		request_datacenter(self, g_array_index(datacenters, guint, datacenters->len - 1),
				   FALSE, FALSE);
		return;
	}
	worker_list_free(self->report.list);
	self->report.list = g_steal_pointer(&self->workers.list);
	end_workers(self);
	step_request_clocks(self);
}

void step_start_listing_workers(Registration *self)
{
	g_autofree char *datacenters = NULL;

	drop_datacenter(self);
	/* a postponed list continues with the current datacenter */
	if (self->workers.datacenters != NULL) {
		request_next_datacenter(self);
		return;
	}
	drop_workers(self);
	datacenters = znode_in_root(self->config.root, ZNODES_DATACENTERS);
	self->workers.list = worker_list_new();
	self->workers.list->read_at_ns = clock_boottime_ns();
	registration_begin_wait(self,
				self->store->ops->list(self->store, datacenters, FALSE, FALSE));
}

void step_postpone_workers(Registration *self)
{
	if (self->step.state != REGISTRATION_LISTING_WORKERS)
		return;
	drop_datacenter(self);
	registration_end_wait(self);
}

void step_take_datacenter_ids(Registration *self, const StoreMessage *answer)
{
	if (answer->outcome != STORE_OK) {
		end_workers(self);
		return;
	}
	self->workers.list->n_reads = 1 + answer->records->len;
	self->workers.datacenters = g_array_new(FALSE, FALSE, sizeof(guint));
	for (guint i = 0; i < answer->records->len; i++) {
		const StoreRecord *record = answer->records->pdata[i];
		guint datacenter_id;

		if (znode_parse_number(strrchr(record->key, '/') + 1,
				       (1u << self->config.layout.datacenter_bits) - 1,
				       &datacenter_id))
			g_array_append_val(self->workers.datacenters, datacenter_id);
	}
	request_next_datacenter(self);
}

static void add_datacenter_to_workers(Registration *self)
{
	const DatacenterListing *listing = self->datacenter.listing;
	WorkerList *list = self->workers.list;

	if (self->datacenter.outcome == STORE_UNSURE) {
		end_workers(self);
		drop_datacenter(self);
		return;
	}
	/* a datacenter that this server may not read, or whose first server is just starting,
	 * contributes nothing */
	datacenter_listing_add_workers(listing, list->workers);
	/* otherwise it is unknown which worker IDs are held */
	if (self->datacenter.outcome == STORE_OK)
		datacenter_listing_add_quarantined(listing, self->now_tick, list->quarantined);
	list->n_reads += N_DATACENTER_REQUESTS + listing->claims->len + listing->reservations->len;
	g_array_set_size(self->workers.datacenters, self->workers.datacenters->len - 1);
	drop_datacenter(self);
	request_next_datacenter(self);
}

/* Uses the data of a datacenter after all requests for it have been answered. */
static void take_datacenter(Registration *self)
{
	registration_end_wait(self);
	datacenter_listing_sort(self->datacenter.listing);
	if (self->step.state == REGISTRATION_LISTING_WORKERS) {
		add_datacenter_to_workers(self);
		return;
	}
	switch (self->datacenter.outcome) {
	case STORE_OK:
		use_own_datacenter(self);
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
		registration_complain_of(self, self->keys.claims, self->datacenter.outcome,
					 self->datacenter.reason);
		break;
	}
	drop_datacenter(self);
}

/* Returns: %FALSE if the answer is not to a request that reads a datacenter */
gboolean step_take_datacenter_answer(Registration *self, const StoreMessage *answer)
{
	static const StoreRecord UNREADABLE = {.key = (char *)"floor"};
	DatacenterListing *listing = self->datacenter.listing;
	gboolean is_finished = TRUE;
	guint which = 0;

	while (which < N_DATACENTER_REQUESTS && self->datacenter.requests[which] != answer->request)
		which++;
	if (which == N_DATACENTER_REQUESTS)
		return FALSE;
	registration_note_error(self, answer);
	self->datacenter.requests[which] = 0;
	/* a missing or unreadable floor matters only to a claim */
	if (which == DATACENTER_FLOOR && answer->outcome == STORE_ABSENT) {
		datacenter_listing_set_floor(listing, NULL);
	} else if (which == DATACENTER_FLOOR && answer->outcome == STORE_DENIED) {
		datacenter_listing_set_floor(listing, &UNREADABLE);
	} else if (answer->outcome != STORE_OK) {
		if (self->datacenter.outcome == STORE_OK) {
			self->datacenter.outcome = answer->outcome;
			self->datacenter.reason = answer->reason;
		}
	} else {
		for (guint i = 0; i < answer->records->len; i++) {
			const StoreRecord *record = answer->records->pdata[i];

			if (which == DATACENTER_CLAIMS)
				datacenter_listing_add_claim(listing, record);
			else if (which == DATACENTER_RESERVATIONS)
				datacenter_listing_add_reservation(listing, record);
			else
				datacenter_listing_set_floor(listing, record);
		}
	}
	for (guint i = 0; i < N_DATACENTER_REQUESTS; i++)
		is_finished = is_finished && self->datacenter.requests[i] == 0;
	if (is_finished)
		take_datacenter(self);
	return TRUE;
}

void step_drop_readings(Registration *self)
{
	drop_datacenter(self);
	drop_workers(self);
}

void step_clear(Registration *self)
{
	g_clear_pointer(&self->peers.check, peer_check_free);
	g_clear_pointer(&self->peers.clocks, peer_check_free);
	peer_report_clear(&self->peers.earlier);
	tls_client_unref(self->peers.tls);
	step_drop_readings(self);
	g_clear_pointer(&self->preparation.missing, g_ptr_array_unref);
	g_free(self->claim.key);
}
