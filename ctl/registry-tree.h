/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/zookeeper/znodes.h"
#include "ctl/zookeeper.h"

/*
 * The registry in ZooKeeper as plain data. It is read in a few steps of many requests each, so it
 * is no snapshot: a server that comes or goes meanwhile can be there in part.
 */

/* The claim of a server that is alive. */
typedef struct {
	char *nonce;
	gint64 sequence;
	gint64 claimed_at_ms; /* by ZooKeeper's clock, since the Unix epoch */
	ClaimRecord record;
	char *damage; /* (nullable): why there is no record */
} CtlClaim;

/* The record of a worker ID that was used before. */
typedef struct {
	guint worker_id;
	ReservationRecord record;
	char *damage;             /* (nullable): why there is no record */
	gint64 reserved_until_ms; /* since the Unix epoch: the beginning of the last tick; 0: never
				   */
	const CtlClaim *holder;   /* (nullable): its owner, if that lives and names no other */
} CtlReservation;

typedef struct {
	guint datacenter_id;
	GPtrArray *claims;       /* of CtlClaim, in the order they were made in */
	GPtrArray *reservations; /* of CtlReservation, by worker ID */
	/* if read with_all: no claim begins at or before this */
	gint64 floor_ms; /* since the Unix epoch: the beginning of that tick; 0: any time will do */
	char *floor_damage; /* (nullable): why there is no floor, although there should be one */
} CtlDatacenter;

typedef struct {
	Layout layout;
	GPtrArray *datacenters; /* of CtlDatacenter, by datacenter ID */
	GPtrArray *strange;     /* of char *: paths of znodes that are none of a server's */
} CtlRegistryTree;

/**
 * ctl_registry_tree_read:
 * @root: "/snowflake"
 * @with_all: reads every reservation and the floors; else only the reservations of worker IDs that
 * a claim names
 *
 * Returns: (transfer full) (nullable): or %NULL with an error set: of CTL_ZOOKEEPER_ERROR, or that
 * there is nothing at @root, or no layout that makes sense
 */
CtlRegistryTree *ctl_registry_tree_read(CtlZookeeper *zookeeper, const char *root,
					gboolean with_all, GError **error);
void ctl_registry_tree_free(CtlRegistryTree *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlRegistryTree, ctl_registry_tree_free)

/* The reservation of that worker ID, or NULL. */
const CtlReservation *ctl_datacenter_find(const CtlDatacenter *self, guint worker_id);
