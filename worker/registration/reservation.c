/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/reservation.h"

#include "common/log.h"

static char *reservation_key(const Registration *self, guint worker_id)
{
	return znode_reservation(self->config.root, self->config.datacenter_id, worker_id);
}

/* Returns the owner that the attempt writes; "" for a release. */
static const char *owner_of_attempt(const Registration *self)
{
	return self->attempt.operation == REGISTRY_RELEASE ? "" : self->config.nonce;
}

/* Writing */

/* The parts of a commit, in order. A release has no claim. */
typedef enum { PART_CLAIM, PART_RESERVATION, PART_FLOOR } CommitPart;

/* Commits the attempt, together with a write to the claim record. @claim: the data of the claim
 * record; NULL for a release. The commit fails if the floor's version has changed since the attempt
 * read it. The order of the parts is that of CommitPart. */
static void commit_attempt(Registration *self, const StoreWrite *claim)
{
	const OwnReservation *wanted = &self->attempt.wanted;
	const ReservationRecord record = {
		.end_tick = wanted->end_tick,
		.owner = (char *)owner_of_attempt(self),
		.address = self->config.name,
	};
	g_autofree char *key = reservation_key(self, wanted->worker_id);
	g_autofree char *json = reservation_record_to_json(&record);
	StoreWrite writes[STORE_MAX_WRITES];
	guint n = 0;

	if (claim != NULL)
		writes[n++] = *claim;
	writes[n++] = (StoreWrite){
		.key = key,
		.version = self->attempt.read_version,
		.data = json,
	};
	if (wanted->floor_version >= 0)
		writes[n++] =
			(StoreWrite){.key = self->keys.floor, .version = wanted->floor_version};
	registration_begin_wait(self, self->store->ops->commit(self->store, writes, n));
}

/* Returns the part of the commit that failed. */
static CommitPart failed_part(const Registration *self, const StoreMessage *answer)
{
	CommitPart first =
		self->attempt.operation == REGISTRY_RELEASE ? PART_RESERVATION : PART_CLAIM;

	return (CommitPart)(first + answer->failed);
}

void reservation_reserve(Registration *self)
{
	const WorkerIdChoice *choice = &self->choice;
	g_autofree char *claim = NULL;

	if (self->now_tick < choice->first_tick) { /* the clock was set back after the choice */
		registration_forget_datacenter(self);
		return;
	}
	claim = registration_claim_json(self, (gint)choice->worker_id);
	self->attempt = (Attempt){
		.operation = REGISTRY_CLAIM,
		.read_version = choice->version,
		.read_end_tick = choice->end_tick,
		.wanted =
			{
				.is_held = TRUE,
				.claim_number = ++self->last_claim_number,
				.worker_id = choice->worker_id,
				.first_tick = choice->first_tick,
				.floor_version = choice->floor_version,
				.end_tick = MIN(self->now_tick + self->operation.ticks,
						layout_max_tick(&self->config.layout)),
			},
	};
	/* also write the worker ID to the claim record, so that the commit fails if the record is
	 * gone */
	commit_attempt(self, &(StoreWrite){
				     .key = self->claim.key,
				     .version = STORE_ANY,
				     .data = claim,
			     });
}

static Attempt attempt_on(const OwnReservation *reservation, RegistryOperation operation)
{
	return (Attempt){
		.operation = operation,
		.read_version = reservation->version,
		.read_end_tick = reservation->end_tick,
		.wanted = *reservation,
	};
}

void reservation_extend(Registration *self)
{
	self->attempt = attempt_on(&self->reservation, REGISTRY_EXTEND);
	self->attempt.wanted.end_tick = CLAMP(self->operation.ticks, self->reservation.end_tick,
					      layout_max_tick(&self->config.layout));
	commit_attempt(self, &(StoreWrite){.key = self->claim.key, .version = STORE_ANY});
}

void reservation_release(Registration *self)
{
	const OwnReservation *held = &self->reservation;

	self->attempt = attempt_on(held, REGISTRY_RELEASE);
	self->attempt.wanted.is_held = FALSE;
	/* publish_lease() in keeper.c can move the lease's first tick beyond the end, to keep IDs
	 * increasing. Such a lease issues no IDs, but is retired with a tick after the end, so the
	 * end must not be raised. */
	self->attempt.wanted.end_tick =
		MIN(MAX(held->first_tick - 1, self->operation.ticks), held->end_tick);
	commit_attempt(self, NULL);
}

/* Outcomes of a write */

/* Returns FALSE if the reservation was released or lost after the write was sent, so that the
 * outcome of the write must be ignored. */
static gboolean attempt_is_current(const Registration *self)
{
	return self->attempt.operation == REGISTRY_CLAIM ||
	       (self->reservation.is_held &&
		self->reservation.claim_number == self->attempt.wanted.claim_number);
}

static void hold_attempt(Registration *self)
{
	self->reservation = self->attempt.wanted;
	self->reservation.version = registration_plan_next_version(self->attempt.read_version);
	self->facts.chosen = FALSE;
}

/* Records that the attempt took place, and ends the keeper's operation if it waits for this. */
static void note_written(Registration *self)
{
	hold_attempt(self);
	/* if not, the keeper has given up the operation, but the reservation is held */
	if (self->facts.operation == self->attempt.operation)
		registration_succeed(self);
}

/* Handles the loss of the held reservation, or of the record that a claim has tried to write. A
 * claim then reads the datacenter again, and makes a new choice. @why: (transfer full) */
static void note_lost(Registration *self, char *why)
{
	registration_forget_datacenter(self);
	if (!self->reservation.is_held) {
		g_free(why);
		return;
	}
	self->reservation.is_held = FALSE;
	/* prepare again, because the next claim needs valid limits and a floor, which a held
	 * reservation does not need */
	self->facts.prepared = FALSE;
	g_free(self->lost_why);
	self->lost_why = why;
}

/* Tries again after a change of a record or version on which the attempt is based. */
static void try_again(Registration *self)
{
	if (self->attempt.operation == REGISTRY_CLAIM) {
		registration_forget_datacenter(self);
		registration_pause(self, REGISTRATION_SHORT_PAUSE);
	} else { /* read the record, because only its content shows the outcome */
		self->attempt.refused = TRUE;
		self->facts.unsettled = TRUE;
	}
}

/* Handles the refusal of the store to read or write a record. */
static void complain_of_record(Registration *self, const StoreMessage *answer)
{
	const Attempt *attempt = &self->attempt;
	gboolean is_read = self->facts.unsettled;
	gint64 end_tick = is_read ? attempt->wanted.end_tick : attempt->read_end_tick;
	g_autofree char *key = NULL;

	/* the loss of the reservation has been reported, and no operation waits for it, so leave
	 * the unreadable record alone until its reservation ends */
	if (!attempt_is_current(self)) {
		self->facts.unsettled = FALSE;
		return;
	}
	if (!is_read && failed_part(self, answer) == PART_CLAIM)
		key = g_strdup(self->claim.key);
	else if (!is_read && failed_part(self, answer) == PART_FLOOR)
		key = g_strdup(self->keys.floor);
	else
		key = reservation_key(self, attempt->wanted.worker_id);

	/* the reservation has ended, and can neither be read nor extended, so claim another one */
	if (self->now_tick > end_tick && (is_read || attempt->operation == REGISTRY_EXTEND)) {
		self->facts.unsettled = FALSE;
		note_lost(self, g_strdup_printf("%s has ended, and %s denies access to it: %s", key,
						self->store->name, answer->reason));
		return;
	}
	/* skip this record, because this server may have permission to write others */
	if (!is_read && attempt->operation == REGISTRY_CLAIM && self->config.worker_id < 0 &&
	    ++self->operation.n_skipped_records < 1u << self->config.layout.worker_bits) {
		g_autofree char *text = g_strdup_printf("%s is ignored: %s", key, answer->reason);

		log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", text));
		try_again(self);
		return;
	}
	registration_complain_of(self, key, answer->outcome, answer->reason);
}

/* Handles a commit that failed because a record was written or deleted by another client since it
 * was read. */
static void take_conflict(Registration *self, const StoreMessage *answer)
{
	const Attempt *attempt = &self->attempt;

	if (failed_part(self, answer) == PART_CLAIM) {
		registration_lose_claim(self);
		return;
	}
	if (failed_part(self, answer) == PART_FLOOR) {
		/* read the floor again, because it was raised or deleted */
		self->facts.prepared = FALSE;
		/* do not retry the release; the worker ID stays quarantined until the reservation
		 * ends */
		if (attempt->operation == REGISTRY_RELEASE &&
		    self->facts.operation == REGISTRY_RELEASE) {
			registration_fail(self, REGISTRY_ERROR_FAILED,
					  "the floor of datacenter %u has changed",
					  self->config.datacenter_id);
			return;
		}
	} else if (attempt->operation == REGISTRY_CLAIM) {
		self->operation.lost_race = TRUE;
	}
	try_again(self);
}

void reservation_take_written(Registration *self, const StoreMessage *answer)
{
	const Attempt *attempt = &self->attempt;

	switch (answer->outcome) {
	case STORE_OK:
		if (answer->records->len > 0) {
			const StoreRecord *written = answer->records->pdata[0];

			registration_note_time(self, written->modified_ms, answer->sent_ns,
					       answer->received_ns);
		}
		if (!attempt_is_current(self))
			break;
		/* A successful claim also proves the record's content. Another write counts only if
		 * the record was read before on this connection; if not, the store may have been
		 * restored, and the version may match by chance. */
		self->connection.record_was_read =
			self->connection.record_was_read || attempt->operation == REGISTRY_CLAIM;
		self->connection.record_was_written = self->connection.record_was_read;
		note_written(self);
		break;
	case STORE_UNSURE:
		self->facts.unsettled = TRUE;
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		if (attempt->operation == REGISTRY_EXTEND &&
		    self->facts.operation == REGISTRY_EXTEND)
			registration_fail(self, REGISTRY_ERROR_FAILED, "%s", answer->reason);
		break;
	case STORE_ABSENT:
	case STORE_CONFLICT:
		take_conflict(self, answer);
		break;
	case STORE_DENIED:
	case STORE_REFUSED:
		complain_of_record(self, answer);
		break;
	}
}

/* Settling: the content of the record shows whether the attempt took place. */

void reservation_check_is_read(Registration *self)
{
	if (!self->reservation.is_held || self->connection.record_was_read || self->facts.unsettled)
		return;
	/* this attempt writes nothing, so treat it as refused */
	self->attempt = attempt_on(&self->reservation, REGISTRY_NONE);
	self->attempt.refused = TRUE;
	self->facts.unsettled = TRUE;
}

void reservation_settle(Registration *self)
{
	g_autofree char *key = reservation_key(self, self->attempt.wanted.worker_id);

	registration_begin_wait(self, self->store->ops->read(self->store, key, TRUE));
}

/* @record: (nullable). Returns: (transfer full): why the reservation is lost */
static char *describe_loss(const Registration *self, const ReservationRecord *record,
			   gint32 version)
{
	g_autofree char *path = reservation_key(self, self->attempt.wanted.worker_id);

	if (record == NULL)
		return g_strdup_printf(
			"%s is missing or damaged; was it deleted or edited by hand?", path);
	if (g_str_equal(record->owner, self->config.nonce))
		return g_strdup_printf("%s has version %d, which this server did not write (its "
				       "own was %d): %s %s restored from a backup, or this process "
				       "copied? See snowflakectl registry quarantine",
				       path, version, self->reservation.version,
				       *self->history.text != '\0'
					       ? "has the history changed in a failover, or was"
					       : "was",
				       self->store->name);
	if (*record->owner == '\0')
		return g_strdup_printf("%s has no owner now; was it edited by hand?", path);
	return g_strdup_printf("%s now belongs to %s (owner %s)", path, record->address,
			       record->owner);
}

/* Decides the outcome of the attempt. @record: (nullable): the current record; %NULL if it is gone,
 * or does not parse */
static void settle_attempt(Registration *self, const ReservationRecord *record, gint32 version)
{
	const Attempt *attempt = &self->attempt;
	const RegistrationWrite write = {
		.read_version = attempt->read_version,
		.read_end_tick = attempt->read_end_tick,
		.read_owner = attempt->operation == REGISTRY_CLAIM ? NULL : self->config.nonce,
		.owner = owner_of_attempt(self),
		.end_tick = attempt->wanted.end_tick,
		.refused = attempt->refused,
	};

	self->facts.unsettled = FALSE;
	if (!attempt_is_current(self))
		return;
	self->connection.record_was_read = TRUE;
	switch (registration_plan_settle(&write, record, version)) {
	case SETTLED_WRITTEN:
		/* Part of the reservation has already passed, so ask the keeper to extend it now.
		 * If the reply to an extension was lost, the extension has already failed from the
		 * keeper's point of view; the next one continues from this version and this end. */
		self->report.retry_now = TRUE;
		if (attempt->operation == REGISTRY_EXTEND)
			hold_attempt(self);
		else
			note_written(self);
		break;
	case SETTLED_NOT:
		/* The write can still take place after this read (S4 in store.h). That is safe. In
		 * that case, the next write, which requires the version that was read, fails, and
		 * the record is read again; its version is unexpected, so the lease is dropped.
		 * After a claim, the worker ID is not chosen again before the end that the late
		 * write has reserved. With ZooKeeper, this is rare: the read is made after a sync
		 * on the new connection, and ZooKeeper refuses late requests of a session that has
		 * moved to another server. If the session has ended, its claim record is gone, and
		 * the commit of a claim or an extension fails. */
		/* the keeper's operation continues from here, unless the keeper has given it up */
		registration_forget_datacenter(self);
		break;
	case SETTLED_LOST:
		note_lost(self, describe_loss(self, record, version));
		break;
	}
}

void reservation_take_settled(Registration *self, const StoreMessage *answer)
{
	g_auto(ReservationRecord) record = {0};
	const StoreRecord *read;

	switch (answer->outcome) {
	case STORE_OK:
		read = answer->records->pdata[0];
		if (reservation_record_from_json(read->data, read->length, &record, NULL))
			settle_attempt(self, &record, read->version);
		else
			settle_attempt(self, NULL, STORE_NONE);
		break;
	case STORE_ABSENT:
		settle_attempt(self, NULL, STORE_NONE);
		break;
	case STORE_UNSURE: /* the outcome stays unknown, and the record is read again */
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case STORE_CONFLICT:
	case STORE_DENIED:
	case STORE_REFUSED:
		complain_of_record(self, answer);
		break;
	}
}

void reservation_check_floor(Registration *self, const Floor *floor)
{
	g_autofree char *until = NULL;

	if (!self->reservation.is_held)
		return;
	/* do not rely on the record's version, which can match by chance after a restore */
	if (floor == NULL || floor_allows_keeping(floor, self->reservation.end_tick,
						  self->connection.record_was_written)) {
		self->reservation.floor_version = floor != NULL ? floor->version : -1;
		return;
	}
	until = layout_tick_text(&self->config.layout, floor->tick);
	note_lost(self,
		  g_strdup_printf(
			  "datacenter %u was quarantined until %s %s, and the reservation may have "
			  "ended before the quarantine: the lost data may have assigned "
			  "worker ID %u to another server",
			  self->config.datacenter_id, until, floor_cause(floor),
			  self->reservation.worker_id));
}
