/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "ctl/registry-tree.h"

/*
 * Makes a registry safe that was restored from a backup. What its reservations say is old: a server
 * may have reserved more since, or a worker ID that has no record in the backup at all. So the
 * floor of each datacenter is raised past all that can have been reserved until now: ZooKeeper's
 * time, as far as a server's clock may be ahead of it, and as long as a reservation may be. The
 * records stay as they are, and a server that finds its own as it wrote it goes on.
 *
 * Floors only grow, and every write is conditional on the version that was read: to do it twice, or
 * half of it, is harmless.
 */

/* ZooKeeper's clock may be as far from this machine's, and as far from what it was before, as when
 * another leads. */
#define CTL_QUARANTINE_SLACK_MS 10000

/* What a floor is computed from, and where that is from. */
typedef struct {
	ZnodeLimits limits;
	char *why; /* in words */
} CtlLimits;

void ctl_limits_clear(CtlLimits *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlLimits, ctl_limits_clear)

/**
 * ctl_registry_quarantine_limits:
 * @given: of the operator; 0: not given
 * @out_limits: (out): the larger of what the servers have noted and what is given; where they have
 *   noted nothing that parses, what is given if it is all, or else the most that servers allow
 *
 * Returns: %FALSE with an error set if ZooKeeper cannot tell
 */
gboolean ctl_registry_quarantine_limits(CtlZookeeper *zookeeper, const char *root,
					const ZnodeLimits *given, CtlLimits *out_limits,
					GError **error);

/* One datacenter, and what became of its floor. */
typedef struct {
	guint datacenter_id;
	guint n_claims;
	gint64 before_ms; /* since the Unix epoch; 0: it was never raised */
	char *damage;     /* (nullable): why it does not parse; it was left as it is */
	gboolean done;    /* then: */
	gboolean raised;  /* else it was there already, as high or higher */
	gint64 floor_ms;  /* now */
} CtlFloor;

/* (transfer full): of CtlFloor: not done yet.
 * @tree: with the claims to count
 * @datacenter_ids: of guint */
GPtrArray *ctl_registry_quarantine_plan(const CtlRegistryTree *tree, const GArray *datacenter_ids);

/**
 * ctl_registry_quarantine_apply:
 * @floors: of ctl_registry_quarantine_plan()
 * @out_until_ms: (out): the floor that all of them have at least; since the Unix epoch
 *
 * Returns: %TRUE; or %FALSE with an error set, and then the floors tell how far it came
 */
gboolean ctl_registry_quarantine_apply(CtlZookeeper *zookeeper, const char *root,
				       const Layout *layout, const GPtrArray *floors,
				       const ZnodeLimits *limits, gint64 *out_until_ms,
				       GError **error);
