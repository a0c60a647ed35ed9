/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "worker/registry.h"
#include "worker/zookeeper/session.h"

/*
 * What ZooKeeper holds of one datacenter: its floor, the claims of its servers and the reservations
 * of its worker IDs, each read by a request of its own, 256 at once. It is no snapshot: what is
 * decided by it holds only if the write that follows finds the versions that are listed here.
 */

typedef struct {
	char *name; /* of the znode */
	char *nonce;
	gint64 sequence;
	gint64 session; /* that it lives and dies with */
	gint64 claimed_at_ms;
	ClaimRecord record; /* the host is NULL if it does not parse */
} ListedClaim;

typedef struct {
	guint worker_id;
	gint32 version;
	ReservationRecord record;
	char *damage; /* (nullable): why the record does not parse; then there is none */
} ListedReservation;

typedef struct _ZookeeperListing ZookeeperListing;

struct _ZookeeperListing {
	guint datacenter_id;
	guint n_reads;           /* that it took */
	GPtrArray *claims;       /* of ListedClaim; by nonce, once it is finished */
	GPtrArray *reservations; /* of ListedReservation; by worker ID, likewise */
	ZnodeFloor floor;        /* unless it is damaged */
	gint32 floor_version;
	char *floor_damage;       /* (nullable): why it is not known, as in "is missing" */
	const char *floor_remedy; /* with that: what an operator has to do */
	gboolean finished;
	ZookeeperOutcome outcome; /* once it is finished: OK, or why there is no listing */
	const char *reason;       /* in words; static */
	/* its own */
	ZookeeperSession *session;
	GHashTable *requests; /* those under way, by number */
	GQueue to_ask;        /* those after them, in order */
	char *claims_path;
	char *reservations_path;
	Layout layout;
};

/**
 * zookeeper_listing_new:
 * @session: borrowed; what it has to say goes to take()
 * @layout: copied; a reservation past its end is damaged
 * @watch: a CHANGED of the path of the claims follows when one comes or goes
 */
ZookeeperListing *zookeeper_listing_new(ZookeeperSession *session, const char *root,
					const Layout *layout, guint datacenter_id, gboolean watch);
void zookeeper_listing_free(ZookeeperListing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperListing, zookeeper_listing_free)

/* Goes on with a reply of the session. %FALSE: it is not about this listing. */
gboolean zookeeper_listing_take(ZookeeperListing *self, const ZookeeperMessage *message);

/* What follows is of a listing that is finished. */

/* The claim of that nonce and session (session 0: of any); or NULL. */
const ListedClaim *zookeeper_listing_find_claim(const ZookeeperListing *self, const char *nonce,
						gint64 session);

/* The reservation of that worker ID; or NULL. */
const ListedReservation *zookeeper_listing_find_reservation(const ZookeeperListing *self,
							    guint worker_id);

/* Whether its owner has a claim that names this worker ID, or none yet (or does not parse). What is
 * of an owner whose claim names another worker ID was left behind. */
gboolean zookeeper_listing_is_held(const ZookeeperListing *self,
				   const ListedReservation *reservation);

/* Adds its servers to @workers, of Worker. */
void zookeeper_listing_add_workers(const ZookeeperListing *self, GPtrArray *workers);

/* Adds to @quarantined, of Worker, the worker IDs that nobody holds and whose end, or the floor, is
 * not past at @now_tick: reserved until the later of the two, by whoever stands in the record. One
 * that is damaged is reserved to the end of the layout, by "": nobody claims it. */
void zookeeper_listing_add_quarantined(const ZookeeperListing *self, gint64 now_tick,
				       GPtrArray *quarantined);
