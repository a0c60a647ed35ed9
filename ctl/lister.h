/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "ctl/output.h"
#include "ctl/top-table.h"

/* What servers and ZooKeeper tell, listed once or, as watch.h has it, again and again. */

typedef enum {
	CTL_LISTER_WORKERS,
	CTL_LISTER_RESERVATIONS, /* with ZooKeeper only */
	CTL_LISTER_TOP,          /* again and again */
} CtlListerKind;

typedef struct {
	const CtlOptions *options;
	const ZookeeperHosts *hosts; /* NULL: servers are asked */
	const char *auth;            /* (nullable): "user:password" */
	CtlListerKind kind;
	gboolean again;

	/* of top */
	guint interval_ms; /* from list to list, 2 or more; a server has half of it to answer */
	CtlTopOrder order; /* until keys say otherwise */
} CtlListerPlan;

CtlStatus ctl_lister_run(const CtlListerPlan *plan);
