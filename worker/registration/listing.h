/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "core/layout.h"
#include "worker/registration/floor.h"
#include "worker/registry.h"
#include "worker/store.h"

/*
 * The records of one datacenter, as they were read: its floor, the claims of its servers and the
 * reservations of its worker IDs. They tell whether a worker ID is free, held, quarantined or
 * damaged. All functions are pure: servers and tools read the records, and add them here.
 *
 * A listing is no snapshot. A decision that is based on it holds only if the write that follows
 * finds the versions that are listed here.
 */

typedef struct {
	char *name; /* of the record */
	char *nonce;
	gint64 order;    /* of its creation, among all records */
	gboolean is_own; /* made in the session that has read it */
	gint64 claimed_at_ms;
	ClaimRecord record; /* the host is NULL if it is unknown */
	char *damage;       /* (nullable): why the record is unknown, or makes no sense here */
} ListedClaim;

typedef struct {
	guint worker_id;
	gint32 version;
	ReservationRecord record;
	char *damage; /* (nullable): why the record is unknown */
} ListedReservation;

typedef struct {
	guint datacenter_id;
	Layout layout;
	GPtrArray *claims;       /* of ListedClaim, by nonce */
	GPtrArray *reservations; /* of ListedReservation, by worker ID */
	Floor floor;
} DatacenterListing;

DatacenterListing *datacenter_listing_new(const Layout *layout, guint datacenter_id);
void datacenter_listing_free(DatacenterListing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DatacenterListing, datacenter_listing_free)

/* Add the records in any order, and then call datacenter_listing_sort(). If a record has no data,
 * the caller may not read it. Returns: %FALSE if the record is ignored, because its key does not
 * end with a name that servers give */
gboolean datacenter_listing_add_claim(DatacenterListing *self, const StoreRecord *record);
gboolean datacenter_listing_add_reservation(DatacenterListing *self, const StoreRecord *record);
/* @record: (nullable): %NULL: it is missing */
void datacenter_listing_set_floor(DatacenterListing *self, const StoreRecord *record);
void datacenter_listing_sort(DatacenterListing *self);

/* The functions below need a sorted listing. */

/* (nullable): a claim with this nonce; @own: made in this session. */
const ListedClaim *datacenter_listing_find_claim(const DatacenterListing *self, const char *nonce,
						 gboolean own);
/* (nullable) */
const ListedReservation *datacenter_listing_find_reservation(const DatacenterListing *self,
							     guint worker_id);

typedef enum {
	WORKER_ID_FREE,        /* a server may claim it */
	WORKER_ID_HELD,        /* a live server has it: @holder */
	WORKER_ID_QUARANTINED, /* reserved up to and including @until_tick, and no live server holds
				  it; or the floor is not past */
	WORKER_ID_DAMAGED,     /* its record is unknown (@reservation->damage): no server claims it
				  before an operator fixes it */
} WorkerIdState;

/* "free", "held", "quarantined", "damaged" */
const char *worker_id_state_name(WorkerIdState state);

typedef struct {
	WorkerIdState state;
	const ListedReservation *reservation; /* (nullable): its record; NULL: there is none */
	const ListedClaim *holder;            /* HELD */
	/* The last tick in which only a holder can use it: the later of the record's end and the
	 * floor, or for DAMAGED the layout's last; -1: it was never reserved. */
	gint64 until_tick;
	gboolean is_by_floor; /* QUARANTINED: by the floor only */
} WorkerIdJudgement;

/**
 * datacenter_listing_judge:
 * @now_tick: from layout_tick_at(): a worker ID is quarantined to the end of its last tick
 * @own_nonce: (nullable): of the server that asks for itself: its own claims do not count
 *
 * A worker ID is held if the owner of its reservation has a claim that names this worker ID, or
 * none yet, or does not parse. If the claim names another worker ID, the owner has left this one.
 * A damaged floor counts as none: see Floor.damage.
 */
WorkerIdJudgement datacenter_listing_judge(const DatacenterListing *self, guint worker_id,
					   gint64 now_tick, const char *own_nonce);

/* The reservation that the server of a claim holds. (nullable) */
const ListedReservation *datacenter_listing_held_by(const DatacenterListing *self,
						    const ListedClaim *claim);

/* Adds the servers to @workers, of SnowflakeClientWorker. */
void datacenter_listing_add_workers(const DatacenterListing *self, GPtrArray *workers);

/* Adds the worker IDs that have a record and are quarantined or damaged at @now_tick to
 * @quarantined, of SnowflakeClientWorker: reserved to until_tick, by the server in the record; of
 * one that is damaged by "". */
void datacenter_listing_add_quarantined(const DatacenterListing *self, gint64 now_tick,
					GPtrArray *quarantined);
