/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "core/layout.h"
#include "worker/registration/floor.h"
#include "worker/registry.h"
#include "worker/store.h"

/* The records of one datacenter, as read from the store: its floor, the claim records of its
 * servers and the reservations of its worker IDs. They show whether a worker ID is free, held,
 * quarantined or damaged. All functions are pure: servers and tools read the records and add them.
 *
 * A listing is not a snapshot. A decision that is based on it is valid only if the versions are
 * still the same at the following write. */

typedef struct {
	char *name; /* name of the record */
	char *nonce;
	gint64 order;    /* order of its creation among all records */
	gboolean is_own; /* created in the session that has read it */
	gint64 claimed_at_ms;
	ClaimRecord record; /* the host is NULL if it is unknown */
	char *damage;       /* (nullable): why the record is unknown, or invalid here */
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
	GPtrArray *claims;       /* (element-type ListedClaim): sorted by nonce */
	GPtrArray *reservations; /* (element-type ListedReservation): sorted by worker ID */
	Floor floor;
} DatacenterListing;

DatacenterListing *datacenter_listing_new(const Layout *layout, guint datacenter_id);
void datacenter_listing_free(DatacenterListing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DatacenterListing, datacenter_listing_free)

/* Add the records in any order, and then call datacenter_listing_sort(). A record without data is
 * a record that the caller may not read. Returns: %FALSE if the record is ignored, because servers
 * never create such a key */
gboolean datacenter_listing_add_claim(DatacenterListing *self, const StoreRecord *record);
gboolean datacenter_listing_add_reservation(DatacenterListing *self, const StoreRecord *record);
/* @record: (nullable): %NULL if it is missing */
void datacenter_listing_set_floor(DatacenterListing *self, const StoreRecord *record);
void datacenter_listing_sort(DatacenterListing *self);

/* The functions below require a sorted listing. */

/* Returns: (nullable) */
const ListedReservation *datacenter_listing_find_reservation(const DatacenterListing *self,
							     guint worker_id);

typedef enum {
	WORKER_ID_FREE, /* any server may claim it */
	WORKER_ID_HELD, /* a live server, @holder, has it */
	/* it is reserved up to and including @until_tick, and no live server holds it; or the clock
	 * has not passed the floor */
	WORKER_ID_QUARANTINED,
	/* its record is unknown (@reservation->damage), so no server claims it before an operator
	 * has fixed it */
	WORKER_ID_DAMAGED,
} WorkerIdState;

/* Returns "free", "held", "quarantined" or "damaged". */
const char *worker_id_state_name(WorkerIdState state);

typedef struct {
	WorkerIdState state;
	/* (nullable): the record of the worker ID; NULL if it has none */
	const ListedReservation *reservation;
	const ListedClaim *holder; /* set if HELD */
	/* The last tick in which only a holder can use the worker ID: the later of the record's end
	 * and the floor. For DAMAGED, the layout's last tick; -1 if the worker ID was never
	 * reserved. */
	gint64 until_tick;
	gboolean is_by_floor; /* with QUARANTINED: only because of the floor */
} WorkerIdJudgement;

/**
 * datacenter_listing_judge:
 * @now_tick: result of layout_tick_at(). A worker ID is quarantined until the end of its last tick
 * @own_nonce: (nullable): nonce of the calling server, whose own claims do not count
 *
 * A worker ID is held if the owner of its reservation has a claim record that contains this worker
 * ID, contains no worker ID yet, or does not parse. If the claim record contains another worker ID,
 * the owner has given this one up. A damaged floor is treated like a missing one: see Floor.damage.
 */
WorkerIdJudgement datacenter_listing_judge(const DatacenterListing *self, guint worker_id,
					   gint64 now_tick, const char *own_nonce);

/* Returns: (nullable): the reservation that the server of @claim holds. */
const ListedReservation *datacenter_listing_held_by(const DatacenterListing *self,
						    const ListedClaim *claim);

/* Adds the servers to @workers (element-type SnowflakeClientWorker). */
void datacenter_listing_add_workers(const DatacenterListing *self, GPtrArray *workers);

/* Adds the worker IDs that have a record and are quarantined or damaged at @now_tick to
 * @quarantined (element-type SnowflakeClientWorker): with until_tick as the end, and the server in
 * the record, or "" for a damaged record. */
void datacenter_listing_add_quarantined(const DatacenterListing *self, gint64 now_tick,
					GPtrArray *quarantined);
