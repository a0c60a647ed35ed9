/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/registration/listing.h"

/* Chooses the worker ID that a server claims, from a listing of its datacenter, or explains why
 * there is none. All functions are pure. */

/* The requirements of a server. */
typedef struct {
	const char *nonce;
	gint64 order;     /* creation order of its claim record */
	gint64 worker_id; /* the only acceptable worker ID; -1 for any */
	gint64 preferred; /* if any worker ID is acceptable: the one to try first; -1 if none */
	/* another server has already written the record that this server chose before */
	gboolean lost_race;
	/* number of records that it must skip, because it has no permission to write them */
	guint n_skipped_records;
	guint n_workers; /* number of worker IDs in the layout */
	gint64 now_tick;
} WorkerIdWish;

typedef struct {
	gboolean found;
	/* if found */
	guint worker_id;
	gint32 version;  /* version of the record that was read; STORE_NONE if there is none */
	gint64 end_tick; /* end in the record that was read; -1 if there is none */
	/* first tick of the lease: after that end, and after the datacenter's floor */
	gint64 first_tick;
	gint32 floor_version; /* version of the floor that was read */
	/* if not found */
	gint64 wait_until_tick; /* end of the first quarantine; G_MAXINT64 if there is none */
} WorkerIdChoice;

/**
 * worker_id_choice_make:
 *
 * Chooses the preferred worker ID, if it is free. Otherwise, free worker IDs with a record come
 * first, then free worker IDs without one, each in ascending order. Reusing records keeps their
 * number small, so listings stay short. A server that lost a race begins with worker IDs without a
 * record. It skips one for each other server that has an earlier claim record and holds no
 * reservation yet, so servers that start together choose different ones. At the end of the order,
 * it wraps around. A worker ID that this server had before, and whose record was set back, is
 * chosen only if no other worker ID is free.
 *
 * datacenter_listing_judge() determines which worker IDs are free. Until the clock has passed the
 * datacenter's floor, all of them are quarantined.
 */
WorkerIdChoice worker_id_choice_make(const DatacenterListing *listing, const WorkerIdWish *wish);

/* Returns: (transfer full): why no worker ID was found, in about 200 bytes: "30 are held (worker 0
 * by a:7609, ...), 2 are quarantined (first worker 7)"; if only one is acceptable: "worker 9 is
 * held by a:7609" */
char *worker_id_choice_describe_obstacles(const DatacenterListing *listing,
					  const WorkerIdWish *wish, const Layout *layout);
