/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/plan.h"

const char *registration_state_name(RegistrationState state)
{
	static const char *const NAMES[N_REGISTRATION_STATES] = {
		[REGISTRATION_CONNECTING] = "connecting",
		[REGISTRATION_PREPARING] = "preparing",
		[REGISTRATION_CHECKING_ACLS] = "checking-acls",
		[REGISTRATION_READING_DATACENTER] = "reading-datacenter",
		[REGISTRATION_CREATING_CLAIM] = "creating-claim",
		[REGISTRATION_CHECKING_PEERS] = "checking-peers",
		[REGISTRATION_WAITING_TO_RECHECK_PEERS] = "waiting-to-recheck-peers",
		[REGISTRATION_RESERVING] = "reserving",
		[REGISTRATION_PAUSING] = "pausing",
		[REGISTRATION_SETTLING] = "settling",
		[REGISTRATION_EXTENDING] = "extending",
		[REGISTRATION_RELEASING] = "releasing",
		[REGISTRATION_READING_TIME] = "reading-time",
		[REGISTRATION_LISTING_WORKERS] = "listing-workers",
		[REGISTRATION_IDLE] = "idle",
	};

	return NAMES[state];
}

RegistrationState registration_plan_next(const RegistrationFacts *facts)
{
	if (!facts->connected)
		return REGISTRATION_CONNECTING;
	if (facts->now_us < facts->pause_ends_at_us)
		return REGISTRATION_PAUSING;
	/* first determine the outcome of the last write, whatever the keeper wants now */
	if (facts->unsettled)
		return REGISTRATION_SETTLING;
	/* a release needs no claim, because the version shows whether the record is still this
	 * server's */
	if (facts->operation == REGISTRY_RELEASE)
		return REGISTRATION_RELEASING;
	if (!facts->prepared)
		return REGISTRATION_PREPARING;
	if (!facts->acls_checked)
		return REGISTRATION_CHECKING_ACLS;
	if (facts->claim == CLAIM_UNKNOWN)
		return REGISTRATION_READING_DATACENTER;
	if (facts->claim == CLAIM_NONE)
		return REGISTRATION_CREATING_CLAIM;
	if (facts->operation == REGISTRY_EXTEND)
		return REGISTRATION_EXTENDING;
	if (facts->wants_time)
		return REGISTRATION_READING_TIME;
	if (facts->operation == REGISTRY_CLAIM) {
		if (facts->now_us < facts->recheck_peers_at_us)
			return REGISTRATION_WAITING_TO_RECHECK_PEERS;
		if (facts->chosen)
			return REGISTRATION_RESERVING;
		/* The listing contains the peers to ask. Their answers take time, so the datacenter
		 * is listed again before a worker ID is chosen. */
		return facts->datacenter_was_read && !facts->peers_checked
			       ? REGISTRATION_CHECKING_PEERS
			       : REGISTRATION_READING_DATACENTER;
	}
	if (facts->wants_list)
		return REGISTRATION_LISTING_WORKERS;
	return REGISTRATION_IDLE;
}

gint32 registration_plan_next_version(gint32 version)
{
	return (gint32)((guint32)version + 1);
}

static gboolean has_content(const ReservationRecord *record, const char *owner, gint64 end_tick)
{
	return record->end_tick == end_tick && (owner == NULL || g_str_equal(record->owner, owner));
}

RegistrationSettlement registration_plan_settle(const RegistrationWrite *write,
						const ReservationRecord *record, gint32 version)
{
	if (record == NULL)
		return write->read_version < 0 ? SETTLED_NOT : SETTLED_LOST;
	if (!write->refused && version == registration_plan_next_version(write->read_version) &&
	    has_content(record, write->owner, write->end_tick))
		return SETTLED_WRITTEN;
	if (version == write->read_version &&
	    has_content(record, write->read_owner, write->read_end_tick))
		return SETTLED_NOT;
	return SETTLED_LOST;
}
