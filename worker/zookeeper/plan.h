/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/zookeeper/listing.h"

/*
 * What a server that registers in ZooKeeper does next, as pure functions of what it knows. The
 * picture is in docs/registration.md; registry.c collects the facts and does it.
 *
 * In each state one thing is under way. What comes of it changes the facts, and the facts give the
 * next state: there is no other order of steps. So a lost connection needs no path of its own: it
 * makes something unknown, and what is unknown is found out before anything rests on it.
 */
typedef enum {
	REGISTRATION_CONNECTING, /* no session: waits for one */
	REGISTRATION_PREPARING,  /* compares layout and limits; makes what is above the claims */
	REGISTRATION_SECURING,   /* closes to strangers what was made without a password */
	REGISTRATION_LOOKING,    /* reads floor, claims and reservations of the datacenter */
	REGISTRATION_ANNOUNCING, /* creates its claim */
	REGISTRATION_CHECKING,   /* asks the servers behind the other claims who they are */
	REGISTRATION_DOUBTING,   /* they contradict: waits a session timeout, to ask again */
	REGISTRATION_RESERVING,  /* writes a reservation: a worker ID is claimed */
	REGISTRATION_PAUSING,    /* lost a race, or got an answer it has no use for */
	REGISTRATION_SETTLING,   /* reads a record that may or may not have been written */
	REGISTRATION_EXTENDING,  /* writes a later end to the reservation it holds */
	REGISTRATION_RETURNING,  /* writes an earlier end: the lease is retired */
	REGISTRATION_TIMING,     /* writes to its claim, for ZooKeeper's time */
	REGISTRATION_LISTING,    /* reads all datacenters, for somebody who asked */
	REGISTRATION_REPAYING,   /* as RETURNING, what could not be handed back before */
	REGISTRATION_RESTING,    /* nothing to do */
} RegistrationState;

/* "connecting", "preparing", ... */
const char *registration_state_name(RegistrationState state);

/* What the keeper wants. */
typedef enum { GOAL_NONE, GOAL_CLAIM, GOAL_EXTEND, GOAL_HAND_BACK } RegistrationGoal;

typedef struct {
	gint64 now_us;
	RegistrationGoal goal;

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
	gint64 repay_at_us; /* a hand-back that failed is tried again then; 0: none is owed */
} RegistrationFacts;

RegistrationState zookeeper_plan_next(const RegistrationFacts *facts);

/**
 * zookeeper_plan_repay_pause_us:
 * @tries: that failed, 1 or more
 *
 * Returns: the pause before a hand-back is tried again: 1 s, then twice as long each time, 30 s at
 * most
 */
gint64 zookeeper_plan_repay_pause_us(guint tries);

/* What a server looks for in a listing. */
typedef struct {
	const char *nonce;
	gint64 sequence;  /* of its claim: where it begins to look */
	gint64 worker_id; /* the only one it wants; -1: any */
	guint n_workers;  /* that the layout has room for */
	gint64 now_tick;
} RegistrationWish;

typedef struct {
	gboolean found;
	/* found */
	guint worker_id;
	gint32 version;    /* of the record that was read; -1: there is none */
	gint64 end_tick;   /* what stood in it; -1: there is none */
	gint64 first_tick; /* that may be reserved: behind that end, and the datacenter's floor */
	gint64 floor_tick; /* the floor that was read */
	gint32 floor_version; /* of that */
	/* not found */
	gint64 wait_until_tick; /* the first quarantine has ended then; G_MAXINT64: there is none */
} RegistrationChoice;

/**
 * zookeeper_plan_choose:
 *
 * The first worker ID that is free, from the sequence of the claim on upwards and around. One that
 * zookeeper_listing_is_held() is held; else one whose end is not past is quarantined; what does not
 * parse may be either. As long as the datacenter's floor is not past, all are quarantined.
 */
RegistrationChoice zookeeper_plan_choose(const ZookeeperListing *listing,
					 const RegistrationWish *wish);

/* (transfer full): what is in the way, for the one who got nothing, in some 200 bytes:
 * "30 are held (worker 0 by a:7609, ...), 2 are quarantined (first worker 7)"; of the only one that
 * it wants: "worker 9 is held by a:7609" */
char *zookeeper_plan_describe(const ZookeeperListing *listing, const RegistrationWish *wish,
			      const Layout *layout);

/* The version of a record after a write that was conditional on @version. It wraps, as ZooKeeper's
 * does; after -1, which is no record, comes 0. */
gint32 zookeeper_plan_next_version(gint32 version);

/* A write, and what it rests on. */
typedef struct {
	gint32 read_version;    /* that it is conditional on; -1: that there is no record */
	gint64 read_end_tick;   /* what stood there */
	const char *read_owner; /* (nullable): likewise; NULL: any */
	const char *owner;      /* what it writes */
	gint64 end_tick;
	gboolean refused; /* ZooKeeper has said that it did not take place */
} RegistrationWrite;

/* What became of it. */
typedef enum {
	SETTLED_WRITTEN, /* it stands there, and is held */
	SETTLED_NOT,     /* what it rests on stands there */
	SETTLED_LOST, /* anything else: somebody has written, or ZooKeeper's history was changed */
} RegistrationSettlement;

/**
 * zookeeper_plan_settle:
 * @record: (nullable): as it stands now; NULL: there is none, or none that parses
 * @version: of that
 *
 * The version alone does not tell: after a restore from a backup, and what operators do then, it
 * may be what it was to be.
 */
RegistrationSettlement zookeeper_plan_settle(const RegistrationWrite *write,
					     const ReservationRecord *record, gint32 version);
