/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/ctl-tree.h"

/*
 * Makes a registry safe that was restored from a backup. What its reservations say is old: a server
 * may have reserved more since, or a worker ID that has no record in the backup at all. So each
 * worker ID of the datacenters, with a record or without, gets one that lasts as long as any
 * reservation can that was made before; and no owner, so that a server that had it finds that it is
 * another's, drops it and claims anew.
 *
 * Ends only grow, and every write is conditional on the version that was read: to do it twice, or
 * half of it, is harmless.
 */

/* One worker ID, and what became of its record. */
typedef struct {
	guint datacenter_id;
	guint worker_id;
	gboolean had_record; /* then: */
	gint64 before_ms;    /* reserved until; since the Unix epoch */
	char *owner;         /* "": nobody's */
	char *address;
	char *damage;    /* (nullable): why the record does not parse; it was left as it is */
	gboolean done;   /* then: */
	gint64 until_ms; /* reserved until, now */
} CtlMark;

/* (transfer full): of CtlMark: all worker IDs of these datacenters, not done yet.
 * @datacenter_ids: of guint */
GPtrArray *ctl_quarantine_plan(const Layout *layout, const GArray *datacenter_ids);

/**
 * ctl_quarantine_apply:
 * @length_ms: from now, by ZooKeeper's clock
 * @out_until_ms: (out): when that is; since the Unix epoch
 *
 * Returns: %TRUE; or %FALSE with an error set, and then the marks tell how far it came
 */
gboolean ctl_quarantine_apply(CtlZookeeper *zookeeper, const char *root, const Layout *layout,
			      const GPtrArray *marks, gint64 length_ms, gint64 *out_until_ms,
			      GError **error);
