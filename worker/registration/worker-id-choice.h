/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/registration/listing.h"

/* Which worker ID a server claims, by a listing of its datacenter; and why there is none. All
 * functions are pure. */

/* What a server wants. */
typedef struct {
	const char *nonce;
	gint64 order;        /* of its claim */
	gint64 worker_id;    /* the only one it wants; -1: any */
	gint64 preferred;    /* if any will do: the one to try first; -1: none */
	gboolean lost_race;  /* another server was first to write the record that it chose before */
	guint n_passed_over; /* records that it may not write */
	guint n_workers;     /* worker IDs of the layout */
	gint64 now_tick;
} WorkerIdWish;

typedef struct {
	gboolean found;
	/* found */
	guint worker_id;
	gint32 version;       /* of the record that was read; -1: there is none */
	gint64 end_tick;      /* in that record; -1: there is none */
	gint64 first_tick;    /* of the lease: after that end, and after the datacenter's floor */
	gint32 floor_version; /* of the floor that was read */
	/* not found */
	gint64 wait_until_tick; /* the end of the first quarantine; G_MAXINT64: there is none */
} WorkerIdChoice;

/**
 * worker_id_choice_make:
 *
 * Chooses the preferred worker ID, if it is free. Otherwise the order is: first the free ones that
 * have a record, then the ones that have none, each from the lowest. So there are only as many
 * records as servers and quarantines need. A server that lost a race begins at the ones without a
 * record. It skips as many as other servers have an earlier claim and hold nothing yet, so servers
 * that start together choose different ones. At its end the order begins again. A worker ID that
 * this server had before, and whose record was set back, is chosen only if no other is free.
 *
 * datacenter_listing_judge() tells which are free. Until the datacenter's floor is past, all are
 * quarantined.
 */
WorkerIdChoice worker_id_choice_make(const DatacenterListing *listing, const WorkerIdWish *wish);

/* (transfer full): why no worker ID was found, in some 200 bytes: "30 are held (worker 0 by a:7609,
 * ...), 2 are quarantined (first worker 7)"; if only one is wanted: "worker 9 is held by a:7609" */
char *worker_id_choice_describe_obstacles(const DatacenterListing *listing,
					  const WorkerIdWish *wish, const Layout *layout);
