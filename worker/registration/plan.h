/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/reservation-record.h"
#include "worker/registry.h"

/*
 * The next state of a server that registers, and the outcome of a write, as pure functions of what
 * it knows. For the states, see docs/internals/registration.md; registration.c goes from state to
 * state.
 *
 * In each state one thing is under way. Its outcome changes the facts, and the facts give the next
 * state: there is no other order of steps. So a lost connection needs no path of its own. It makes
 * some facts unknown, and these are found out again before anything depends on them.
 */
typedef enum {
	REGISTRATION_CONNECTING, /* no session: waits for one */
	REGISTRATION_PREPARING,  /* compares layout and limits; makes missing records */
	REGISTRATION_SECURING,   /* checks that nobody without the password may write there */
	REGISTRATION_LOOKING,    /* lists floor, claims and reservations of the datacenter */
	REGISTRATION_ANNOUNCING, /* creates its claim */
	REGISTRATION_CHECKING,   /* asks its peers who they are and what time it is */
	REGISTRATION_DOUBTING,   /* a peer contradicts: waits a session timeout, to ask again */
	REGISTRATION_RESERVING,  /* writes a reservation: a worker ID is claimed */
	REGISTRATION_PAUSING,    /* after a lost race, or an answer that makes no sense now */
	REGISTRATION_SETTLING,   /* reads a record, because the outcome of a write is unknown */
	REGISTRATION_EXTENDING,  /* writes a later end to the held reservation */
	REGISTRATION_RETURNING,  /* writes an earlier end: the lease is retired */
	REGISTRATION_TIMING,     /* writes to its claim, for the store's time */
	REGISTRATION_LISTING,    /* lists the workers of all datacenters */
	REGISTRATION_RESTING,    /* nothing to do */
	N_REGISTRATION_STATES,
} RegistrationState;

/* "connecting", "preparing", ... */
const char *registration_state_name(RegistrationState state);

typedef struct {
	gint64 now_us;
	RegistryOperation goal; /* what the keeper wants */

	gboolean connected;
	gboolean prepared; /* layout, limits and parents are there */
	gboolean secured;  /* since it was connected; or without a password */
	/* Its own claim. UNKNOWN in a new session, or if the outcome of a write is unknown. */
	enum { CLAIM_UNKNOWN, CLAIM_NONE, CLAIM_MADE } claim;
	gboolean listed;         /* since the claim was made, and nothing was decided by it yet */
	gboolean peers_checked;  /* or there is no peer, or the check is not wanted */
	gint64 doubtful_till_us; /* a contradiction is checked again then; 0: there is none */
	gboolean chosen;         /* a worker ID to claim */
	gboolean unsettled;      /* the outcome of the last write of a reservation is unknown */
	gint64 pause_till_us;
	gboolean wants_time;
	gboolean wants_list;
} RegistrationFacts;

RegistrationState registration_plan_next(const RegistrationFacts *facts);

/* The version of a record after a write that was conditional on @version. It wraps; after
 * -1, which is no record, comes 0. */
gint32 registration_plan_next_version(gint32 version);

/* A write, and the reading that it is computed from. */
typedef struct {
	gint32 read_version;    /* that it is conditional on; -1: that there is no record */
	gint64 read_end_tick;   /* the end that was read */
	const char *read_owner; /* (nullable): the owner that was read; NULL: any */
	const char *owner;      /* that it writes */
	gint64 end_tick;        /* that it writes */
	gboolean refused;       /* the store has answered that it did not take place */
} RegistrationWrite;

/* The outcome of a write. */
typedef enum {
	SETTLED_WRITTEN, /* it took place, and the reservation is held */
	SETTLED_NOT,     /* it did not take place: the record is as it was read */
	SETTLED_LOST,    /* neither: another has written, or the store's history was changed */
} RegistrationSettlement;

/**
 * registration_plan_settle:
 * @record: (nullable): as it is now; %NULL: it is gone, or does not parse
 * @version: of @record
 *
 * The version alone does not tell: after a restore from a backup, another server's write can have
 * given the record the version that this write expects.
 */
RegistrationSettlement registration_plan_settle(const RegistrationWrite *write,
						const ReservationRecord *record, gint32 version);
