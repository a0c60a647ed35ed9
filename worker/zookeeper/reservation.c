/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/reservation.h"

#include "common/log.h"
#include "worker/zookeeper/claim.h"

static char *reservation_path(const Registration *self, guint worker_id)
{
	return znode_reservation(self->config.root, self->config.datacenter_id, worker_id);
}

/* The owner that the attempt writes: nobody's, when it hands back. */
static const char *owner_of(const Registration *self)
{
	return self->attempt.goal == REGISTRY_HAND_BACK ? "" : self->config.nonce;
}

static char *record_json(const Registration *self)
{
	const ReservationRecord record = {
		.end_tick = self->attempt.wanted.end_tick,
		.owner = (char *)owner_of(self),
		.address = self->config.name,
	};

	return reservation_record_to_json(&record);
}

/* Commits the attempt, after @claim if there is such a write. It fails if the floor is not the one
 * that it rests on. */
static void commit(Registration *self, const ZookeeperWrite *claim)
{
	const HeldReservation *wanted = &self->attempt.wanted;
	g_autofree char *path = reservation_path(self, wanted->worker_id);
	g_autofree char *json = record_json(self);
	ZookeeperWrite writes[ZOOKEEPER_MAX_WRITES];
	guint n = 0;

	if (claim != NULL)
		writes[n++] = *claim;
	writes[n++] = (ZookeeperWrite){
		.type = self->attempt.read_version < 0 ? ZOOKEEPER_CREATE : ZOOKEEPER_SET,
		.path = path,
		.data = json,
		.version = self->attempt.read_version,
	};
	if (wanted->floor_version >= 0)
		writes[n++] = (ZookeeperWrite){.type = ZOOKEEPER_CHECK,
					       .path = self->paths.floor,
					       .version = wanted->floor_version};
	registration_await(self, zookeeper_session_commit(self->session, writes, n));
}

/* Which of its writes failed. */
static gboolean failed_at_claim(const Registration *self, const ZookeeperMessage *message)
{
	return self->attempt.goal != REGISTRY_HAND_BACK && message->failed == 0;
}

static gboolean failed_at_floor(const Registration *self, const ZookeeperMessage *message)
{
	return message->failed == (self->attempt.goal == REGISTRY_HAND_BACK ? 1 : 2);
}

void zookeeper_reservation_reserve(Registration *self)
{
	const WorkerIdChoice *choice = &self->choice;
	g_autofree char *claim = NULL;

	if (self->now_tick < choice->first_tick) { /* the clock was set back since it was chosen */
		registration_look_anew(self);
		return;
	}
	claim = zookeeper_claim_json(self, (gint)choice->worker_id);
	self->attempt = (Attempt){
		.goal = REGISTRY_CLAIM,
		.read_version = choice->version,
		.read_end_tick = choice->end_tick,
		.wanted =
			{
				.held = TRUE,
				.serial = ++self->n_claims,
				.worker_id = choice->worker_id,
				.first_tick = choice->first_tick,
				.floor_version = choice->floor_version,
				.end_tick = MIN(self->now_tick + self->goal.length_ticks,
						layout_max_tick(&self->config.layout)),
			},
	};
	/* sets the claim's worker ID, which fails if the claim is gone */
	commit(self, &(ZookeeperWrite){.type = ZOOKEEPER_SET,
				       .path = self->claim.path,
				       .data = claim,
				       .version = -1});
}

static Attempt attempt_on(const HeldReservation *reservation, RegistryOperation goal)
{
	return (Attempt){
		.goal = goal,
		.read_version = reservation->version,
		.read_end_tick = reservation->end_tick,
		.wanted = *reservation,
	};
}

/* Reads what stands there, as if a write had been refused. */
static void look_at(Registration *self, const HeldReservation *reservation)
{
	self->attempt = attempt_on(reservation, REGISTRY_NONE);
	self->attempt.refused = TRUE;
	self->facts.unsettled = TRUE;
}

/* Whether the attempt is on that one. Since it was made, what was held may be owed, or lost. */
static gboolean is_on(const Registration *self, const HeldReservation *reservation)
{
	return reservation->held && reservation->serial == self->attempt.wanted.serial;
}

/* What became of an attempt on anything else does not matter any more. */
static gboolean is_to_hold(const Registration *self)
{
	return self->attempt.goal == REGISTRY_CLAIM || is_on(self, &self->holding);
}

void zookeeper_reservation_look(Registration *self)
{
	/* an attempt that is open is settled first */
	if (self->holding.held && !self->here.looked_at && !self->facts.unsettled)
		look_at(self, &self->holding);
}

void zookeeper_reservation_extend(Registration *self)
{
	self->attempt = attempt_on(&self->holding, REGISTRY_EXTEND);
	self->attempt.wanted.end_tick = CLAMP(self->goal.end_tick, self->holding.end_tick,
					      layout_max_tick(&self->config.layout));
	commit(self,
	       &(ZookeeperWrite){.type = ZOOKEEPER_CHECK, .path = self->claim.path, .version = -1});
}

static Attempt attempt_to_return(const HeldReservation *reservation, gint64 last_tick)
{
	Attempt attempt = attempt_on(reservation, REGISTRY_HAND_BACK);

	attempt.wanted.held = FALSE;
	/* a lease that begins after its end, to keep the order of IDs, has issued nothing */
	attempt.wanted.end_tick =
		MIN(MAX(reservation->first_tick - 1, last_tick), reservation->end_tick);
	return attempt;
}

void zookeeper_reservation_hand_back(Registration *self)
{
	self->attempt = attempt_to_return(&self->holding, self->goal.last_tick);
	commit(self, NULL);
}

/* What is owed */

static void forget_debt(Registration *self)
{
	self->debt = (Debt){0};
	self->facts.repay_at_us = 0;
}

void zookeeper_reservation_repay(Registration *self)
{
	const Debt *debt = &self->debt;

	if (self->now_tick > debt->reservation.end_tick) {
		forget_debt(self);
	} else if (!debt->looked_at) {
		look_at(self, &debt->reservation);
	} else {
		registration_put_off_debt(self);
		self->attempt = attempt_to_return(&debt->reservation, debt->last_tick);
		commit(self, NULL);
	}
}

static void note_repaid(Registration *self)
{
	const Debt *debt = &self->debt;
	g_autofree char *last = debt->last_tick >= debt->reservation.first_tick
					? layout_tick_text(&self->config.layout, debt->last_tick)
					: g_strdup("none");

	log_event(LOG_WORKER_HANDED_BACK, log_number("datacenter_id", self->config.datacenter_id),
		  log_number("worker_id", debt->reservation.worker_id), log_text("last", last));
	forget_debt(self);
}

/* What became of an attempt on a debt. An extension that took place after all is owed as well. */
static void settle_debt(Registration *self, RegistrationSettlement settlement)
{
	const Attempt *attempt = &self->attempt;

	self->debt.looked_at = TRUE;
	if (settlement == SETTLED_LOST) {
		forget_debt(self);
	} else if (settlement == SETTLED_WRITTEN && attempt->goal == REGISTRY_HAND_BACK) {
		note_repaid(self);
	} else if (settlement == SETTLED_WRITTEN) {
		self->debt.reservation = attempt->wanted;
		self->debt.reservation.version = zookeeper_plan_next_version(attempt->read_version);
	}
}

void zookeeper_reservation_settle(Registration *self)
{
	g_autofree char *path = reservation_path(self, self->attempt.wanted.worker_id);

	/* another server of the ensemble may be behind the one that took the write */
	registration_await(self, self->attempt.synced
					 ? zookeeper_session_get(self->session, path, FALSE)
					 : zookeeper_session_sync(self->session, path));
}

static void hold(Registration *self)
{
	self->holding = self->attempt.wanted;
	self->holding.version = zookeeper_plan_next_version(self->attempt.read_version);
	self->facts.chosen = FALSE;
}

/* The attempt took place. */
static void note_written(Registration *self)
{
	hold(self);
	if (self->facts.goal == self->attempt.goal) /* else it is held all the same */
		registration_succeed(self);
}

/* A claim is tried anew from a new listing; what was held is lost. (transfer full) for @why */
static void note_lost(Registration *self, char *why)
{
	registration_look_anew(self);
	if (!self->holding.held) {
		g_free(why);
		return;
	}
	self->holding.held = FALSE;
	self->facts.prepared = FALSE; /* some of it matters for a claim only */
	g_free(self->lost_why);
	self->lost_why = why;
}

/* A raised floor says that history may have been lost, and the record does not say whether another
 * server had its worker ID in that. None can have had it before it saw the end of the reservation
 * pass. And where ZooKeeper has taken a write over this connection, nothing was lost since. */
static gboolean may_keep(const Registration *self, const ZnodeFloor *floor)
{
	return self->here.written || self->holding.end_tick >= floor->clock_tick;
}

void zookeeper_reservation_check_floor(Registration *self, const ZnodeFloor *floor, gint32 version)
{
	g_autofree char *until = NULL;

	if (!self->holding.held)
		return;
	/* its version alone does not tell: in another history it may have had the same */
	if (floor == NULL || may_keep(self, floor)) {
		self->holding.floor_version = floor != NULL ? version : -1;
		return;
	}
	until = layout_tick_text(&self->config.layout, floor->tick);
	note_lost(self,
		  g_strdup_printf(
			  "datacenter %u was quarantined until %s by an operator (snowflakectl "
			  "registry quarantine), and the reservation ended too soon to be sure "
			  "that in what was lost nobody else had worker ID %u",
			  self->config.datacenter_id, until, self->holding.worker_id));
}

static char *describe_owner(const Registration *self, const ReservationRecord *record,
			    gint32 version)
{
	g_autofree char *path = reservation_path(self, self->attempt.wanted.worker_id);

	if (record == NULL)
		return g_strdup_printf("%s is gone, or damaged: was it deleted or edited by hand?",
				       path);
	if (g_str_equal(record->owner, self->config.nonce))
		return g_strdup_printf("%s is of version %d, which this server did not write (its "
				       "own was %d): was ZooKeeper restored from a backup, or this "
				       "process copied? see snowflakectl registry quarantine",
				       path, version, self->holding.version);
	if (*record->owner == '\0')
		return g_strdup_printf("%s is nobody's now: was it edited by hand?", path);
	return g_strdup_printf("%s is now of %s (owner %s)", path, record->address, record->owner);
}

static void settle_by(Registration *self, const ReservationRecord *record, gint32 version)
{
	const Attempt *attempt = &self->attempt;
	const RegistrationWrite write = {
		.read_version = attempt->read_version,
		.read_end_tick = attempt->read_end_tick,
		.read_owner = attempt->goal == REGISTRY_CLAIM ? NULL : self->config.nonce,
		.owner = owner_of(self),
		.end_tick = attempt->wanted.end_tick,
		.refused = attempt->refused,
	};
	RegistrationSettlement settlement;

	self->facts.unsettled = FALSE;
	settlement = zookeeper_plan_settle(&write, record, version);
	if (is_on(self, &self->debt.reservation))
		settle_debt(self, settlement);
	if (!is_to_hold(self))
		return;
	self->here.looked_at = TRUE;
	switch (settlement) {
	case SETTLED_WRITTEN:
		/* it was computed some time ago: the extension goes on, a claim needs one */
		self->registry.retry_now = TRUE;
		if (self->attempt.goal == REGISTRY_EXTEND)
			hold(self);
		else
			note_written(self);
		break;
	case SETTLED_NOT:
		/* the goal, if it still is one, goes on from here */
		registration_look_anew(self);
		break;
	case SETTLED_LOST:
		note_lost(self, describe_owner(self, record, version));
		break;
	}
}

/* What the attempt rests on has changed. */
static void try_anew(Registration *self)
{
	if (self->attempt.goal == REGISTRY_CLAIM) {
		registration_look_anew(self);
		registration_pause(self, REGISTRATION_SHORT_PAUSE);
	} else { /* it is read what stands there now, and that decides */
		self->attempt.refused = TRUE;
		self->facts.unsettled = TRUE;
	}
}

/* Another has written where this server was about to. */
static void on_race(Registration *self)
{
	if (self->attempt.goal == REGISTRY_CLAIM)
		self->goal.lost_race = TRUE;
	try_anew(self);
}

/* One record that may not be written does not stand for all of them. */
static gboolean pass_over(Registration *self, const char *path, const char *reason)
{
	g_autofree char *text = g_strdup_printf("%s is passed over: %s", path, reason);

	if (self->attempt.goal != REGISTRY_CLAIM || self->facts.unsettled ||
	    self->config.worker_id >= 0 ||
	    ++self->goal.n_passed_over >= 1u << self->config.layout.worker_bits)
		return FALSE;
	log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", text));
	try_anew(self);
	return TRUE;
}

/* What ZooKeeper has refused. */
static char *refused_path(const Registration *self, const ZookeeperMessage *message)
{
	if (!self->facts.unsettled && failed_at_claim(self, message))
		return g_strdup(self->claim.path);
	if (!self->facts.unsettled && failed_at_floor(self, message))
		return g_strdup(self->paths.floor);
	return reservation_path(self, self->attempt.wanted.worker_id);
}

/* What is held, or was to be, has ended, and can be neither read nor extended: another will do. */
static gboolean give_up_ended(Registration *self, const char *path, const char *reason)
{
	gint64 end_tick =
		self->facts.unsettled ? self->attempt.wanted.end_tick : self->attempt.read_end_tick;

	if (self->now_tick <= end_tick ||
	    (!self->facts.unsettled && self->attempt.goal != REGISTRY_EXTEND))
		return FALSE;
	self->facts.unsettled = FALSE;
	note_lost(self,
		  g_strdup_printf("%s has ended, and ZooKeeper refuses it: %s", path, reason));
	return TRUE;
}

static void complain(Registration *self, const ZookeeperMessage *message)
{
	g_autofree char *path = refused_path(self, message);

	/* it has been said, and nobody waits for it: what cannot be read is left to its end */
	if (!is_to_hold(self)) {
		if (self->facts.unsettled && is_on(self, &self->debt.reservation))
			forget_debt(self);
		self->facts.unsettled = FALSE;
		return;
	}
	if (!give_up_ended(self, path, message->reason) && !pass_over(self, path, message->reason))
		registration_complain_of(self, path, message->outcome, message->reason);
}

void zookeeper_reservation_on_settled(Registration *self, const ZookeeperMessage *message)
{
	g_auto(ReservationRecord) record = {0};

	if (!self->attempt.synced && message->outcome == ZOOKEEPER_OK) {
		self->attempt.synced = TRUE;
		zookeeper_reservation_settle(self);
		return;
	}
	self->attempt.synced = FALSE;
	switch (message->outcome) {
	case ZOOKEEPER_OK:
		if (reservation_record_from_json(message->data, message->length, &record, NULL))
			settle_by(self, &record, message->stat.version);
		else /* of no owner, so of none of ours */
			settle_by(self, NULL, -1);
		break;
	case ZOOKEEPER_NO_NODE:
		settle_by(self, NULL, -1);
		break;
	case ZOOKEEPER_UNSURE: /* it stays unsettled, and is read again */
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
		complain(self, message);
		break;
	}
}

/* An operator has raised the floor since, or somebody has deleted it: it is read anew. What is to
 * be returned is left to its end: nobody can claim it before. */
static void on_other_floor(Registration *self)
{
	self->facts.prepared = FALSE;
	if (is_on(self, &self->debt.reservation)) {
		forget_debt(self);
	} else if (self->attempt.goal == REGISTRY_HAND_BACK &&
		   self->facts.goal == REGISTRY_HAND_BACK) {
		registration_fail(self, REGISTRY_ERROR_FAILED,
				  "the floor of datacenter %u has changed",
				  self->config.datacenter_id);
	} else {
		try_anew(self);
	}
}

static void on_confirmed(Registration *self)
{
	if (is_on(self, &self->debt.reservation)) {
		settle_debt(self, SETTLED_WRITTEN);
	} else if (is_to_hold(self)) {
		self->here.looked_at = self->here.looked_at || self->attempt.goal == REGISTRY_CLAIM;
		self->here.written = self->here.looked_at;
		note_written(self);
	}
}

void zookeeper_reservation_on_written(Registration *self, const ZookeeperMessage *message)
{
	switch (message->outcome) {
	case ZOOKEEPER_OK:
		registration_note_time(self, message->stat.modified_ms, message->sent_ns,
				       message->received_ns);
		on_confirmed(self);
		break;
	case ZOOKEEPER_UNSURE:
		self->facts.unsettled = TRUE;
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		if (self->attempt.goal == REGISTRY_EXTEND && self->facts.goal == REGISTRY_EXTEND)
			registration_fail(self, REGISTRY_ERROR_FAILED, "%s", message->reason);
		break;
	case ZOOKEEPER_NO_NODE:
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
		if (failed_at_floor(self, message))
			on_other_floor(self);
		else if (failed_at_claim(self, message))
			zookeeper_claim_lose(self);
		else
			on_race(self);
		break;
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
		complain(self, message);
		break;
	}
}
