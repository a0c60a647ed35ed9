/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/reservation-record.h"
#include "worker/registry.h"
#include "worker/store.h"

/* Pure functions that determine the next state of a server's registration, and the outcome of a
 * write. docs/internals/registration.md describes the states; registration.c changes them.
 *
 * Each state waits for one outcome. The outcome changes the facts, and the facts alone determine
 * the next state. So a lost connection needs no special handling: it makes some facts unknown, and
 * these are determined again before anything depends on them. */
typedef enum {
	REGISTRATION_CONNECTING, /* waits for a session */
	REGISTRATION_PREPARING,  /* compares layout and limits; creates missing records */
	/* checks that clients without the password cannot write to shared records */
	REGISTRATION_CHECKING_ACLS,
	/* reads the floor, the claims and the reservations of its datacenter */
	REGISTRATION_READING_DATACENTER,
	REGISTRATION_CREATING_CLAIM, /* creates its claim record */
	REGISTRATION_CHECKING_PEERS, /* asks its peers for their worker IDs and clocks */
	/* after a contradiction: waits for a session timeout, and then asks again */
	REGISTRATION_WAITING_TO_RECHECK_PEERS,
	REGISTRATION_RESERVING,       /* writes a reservation, to claim a worker ID */
	REGISTRATION_PAUSING,         /* waits after a lost race or an unexpected answer */
	REGISTRATION_SETTLING,        /* reads a record because the outcome of a write is unknown */
	REGISTRATION_EXTENDING,       /* writes a later end to the held reservation */
	REGISTRATION_RELEASING,       /* writes an earlier end, after the lease was retired */
	REGISTRATION_READING_TIME,    /* writes to its claim record to get the store's time */
	REGISTRATION_LISTING_WORKERS, /* lists the workers of all datacenters */
	REGISTRATION_IDLE,            /* nothing to do */
	N_REGISTRATION_STATES,
} RegistrationState;

/* Returns "connecting", "preparing" and so on. */
const char *registration_state_name(RegistrationState state);

typedef struct {
	gint64 now_us;
	RegistryOperation operation; /* the keeper's operation */

	gboolean connected;
	gboolean prepared;     /* layout, limits and parents exist */
	gboolean acls_checked; /* access was checked on this connection, or there is no password */
	/* State of this server's claim record. UNKNOWN in a new session, or if the outcome of a
	 * write is unknown. */
	enum { CLAIM_UNKNOWN, CLAIM_NONE, CLAIM_MADE } claim;
	/* the datacenter was read after the claim record was created. This gives the peers to ask;
	 * for each choice of a worker ID, the datacenter is read again */
	gboolean datacenter_was_read;
	/* the peers were asked, or there are none, or no check is wanted */
	gboolean peers_checked;
	gint64 recheck_peers_at_us; /* when to check a contradiction again; 0 if there is none */
	gboolean chosen;            /* a worker ID to claim is chosen */
	/* the record must be read: the outcome of the last write of a reservation is unknown, or
	 * the held record was not read on this connection */
	gboolean unsettled;
	gint64 pause_ends_at_us;
	gboolean wants_time;
	gboolean wants_list;
} RegistrationFacts;

RegistrationState registration_plan_next(const RegistrationFacts *facts);

/* Returns the version of a record after a write that required @version. It wraps around; after
 * STORE_NONE, it is 0. */
gint32 registration_plan_next_version(gint32 version);

/* A write, and the record on which it is based. */
typedef struct {
	/* version that the write requires; STORE_NONE if the record must not exist */
	gint32 read_version;
	gint64 read_end_tick;   /* end in the record that was read */
	const char *read_owner; /* (nullable): owner in the record that was read; NULL for any */
	const char *owner;      /* new owner */
	gint64 end_tick;        /* new end */
	gboolean refused;       /* the store has replied that the write did not take place */
} RegistrationWrite;

/* The outcome of a write. */
typedef enum {
	SETTLED_WRITTEN, /* the write took place, and the reservation is held */
	SETTLED_NOT,     /* the write has not taken place so far: the record is as it was read */
	/* neither: another server has written, or the store's history has changed */
	SETTLED_LOST,
} RegistrationSettlement;

/* The version alone does not suffice: after a restore from a backup, another server's write may
 * have produced the same version as this write.
 * @record: (nullable): the current record; %NULL if it is gone, or does not parse
 * @version: version of @record */
RegistrationSettlement registration_plan_settle(const RegistrationWrite *write,
						const ReservationRecord *record, gint32 version);
