/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/reservation-record.h"
#include "worker/registry.h"

/*
 * What a server that registers does next, as pure functions of what it knows. The
 * picture is in docs/registration.md; registration.c goes from state to state.
 *
 * In each state one thing is under way. What comes of it changes the facts, and the facts give the
 * next state: there is no other order of steps. So a lost connection needs no path of its own: it
 * makes something unknown, and what is unknown is found out before anything rests on it.
 */
typedef enum {
	REGISTRATION_CONNECTING, /* no session: waits for one */
	REGISTRATION_PREPARING,  /* compares layout and limits; makes what is above the claims */
	REGISTRATION_SECURING,   /* checks that nobody without the password may write there */
	REGISTRATION_LOOKING,    /* reads floor, claims and reservations of the datacenter */
	REGISTRATION_ANNOUNCING, /* creates its claim */
	REGISTRATION_CHECKING,   /* asks the servers of the other claims who they are */
	REGISTRATION_DOUBTING,   /* they contradict: waits a session timeout, to ask again */
	REGISTRATION_RESERVING,  /* writes a reservation: a worker ID is claimed */
	REGISTRATION_PAUSING,    /* lost a race, or got an answer it has no use for */
	REGISTRATION_SETTLING,   /* reads a record that may or may not have been written */
	REGISTRATION_EXTENDING,  /* writes a later end to the reservation it holds */
	REGISTRATION_RETURNING,  /* writes an earlier end: the lease is retired */
	REGISTRATION_TIMING,     /* writes to its claim, for the store's time */
	REGISTRATION_LISTING,    /* reads all datacenters, for somebody who asked */
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
	/* Its own claim. UNKNOWN in a new session, and when nobody knows what became of it. */
	enum { CLAIM_UNKNOWN, CLAIM_NONE, CLAIM_MADE } claim;
	gboolean listed;         /* since the claim was made, and nothing was decided by it yet */
	gboolean peers_checked;  /* or there is nobody to ask, or it is not wanted */
	gint64 doubtful_till_us; /* a contradiction is to stand until then; 0: there is none */
	gboolean chosen;         /* a worker ID to claim */
	gboolean unsettled;      /* a reservation was written, or was not */
	gint64 pause_till_us;
	gboolean wants_time;
	gboolean wants_list;
} RegistrationFacts;

RegistrationState registration_plan_next(const RegistrationFacts *facts);

/* The version of a record after a write that was conditional on @version. It wraps; after
 * -1, which is no record, comes 0. */
gint32 registration_plan_next_version(gint32 version);

/* A write, and what it rests on. */
typedef struct {
	gint32 read_version;    /* that it is conditional on; -1: that there is no record */
	gint64 read_end_tick;   /* what stood there */
	const char *read_owner; /* (nullable): likewise; NULL: any */
	const char *owner;      /* what it writes */
	gint64 end_tick;
	gboolean refused; /* the store has answered that it did not take place */
} RegistrationWrite;

/* What became of it. */
typedef enum {
	SETTLED_WRITTEN, /* it stands there, and is held */
	SETTLED_NOT,     /* what it rests on stands there */
	SETTLED_LOST, /* anything else: somebody has written, or the store's history was changed */
} RegistrationSettlement;

/**
 * registration_plan_settle:
 * @record: (nullable): as it stands now; NULL: there is none, or none that parses
 * @version: of that
 *
 * The version alone does not tell: after a restore from a backup, and what operators do then, it
 * may be what it was to be.
 */
RegistrationSettlement registration_plan_settle(const RegistrationWrite *write,
						const ReservationRecord *record, gint32 version);
