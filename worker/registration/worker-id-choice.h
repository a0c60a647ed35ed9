/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/registration/listing.h"

/* Which worker ID a server takes of those that a listing shows as free, and what is in the way
 * where none is. Pure. */

/* What a server looks for in a listing. */
typedef struct {
	const char *nonce;
	gint64 order;        /* of its claim */
	gint64 worker_id;    /* the only one it wants; -1: any */
	gint64 preferred;    /* of any: the one to look at first; -1: none */
	gboolean lost_race;  /* another was the first to write to what it chose before */
	guint n_passed_over; /* that it may not write to */
	guint n_workers;     /* that the layout has room for */
	gint64 now_tick;
} WorkerIdWish;

typedef struct {
	gboolean found;
	/* found */
	guint worker_id;
	gint32 version;       /* of the record that was read; -1: there is none */
	gint64 end_tick;      /* what stood in it; -1: there is none */
	gint64 first_tick;    /* that may be reserved: after that end, and the datacenter's floor */
	gint32 floor_version; /* of the floor that was read */
	/* not found */
	gint64 wait_until_tick; /* the first quarantine has ended then; G_MAXINT64: there is none */
} WorkerIdChoice;

/**
 * worker_id_choice_make:
 *
 * The preferred worker ID, if it is free. Else of those that are free: the ones that have a record,
 * then those that have none, each from the lowest; who lost a race begins at the latter. So there
 * are no more records than servers and quarantines need. As many are left to others as have an
 * earlier claim and hold nothing yet: servers that start together choose different ones. Where the
 * order ends, it begins anew. What it had itself before, as one whose record was set back, it takes
 * only if nothing else is free.
 *
 * Which are free, datacenter_listing_judge() says. As long as the datacenter's floor is not past,
 * all are quarantined.
 */
WorkerIdChoice worker_id_choice_make(const DatacenterListing *listing, const WorkerIdWish *wish);

/* (transfer full): what is in the way, for the one who got nothing, in some 200 bytes:
 * "30 are held (worker 0 by a:7609, ...), 2 are quarantined (first worker 7)"; of the only one that
 * it wants: "worker 9 is held by a:7609" */
char *worker_id_choice_describe_obstacles(const DatacenterListing *listing,
					  const WorkerIdWish *wish, const Layout *layout);
