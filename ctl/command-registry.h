/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "ctl/output.h"

/* "registry quarantine" */

typedef struct {
	const CtlOptions *common;
	const ZookeeperHosts *hosts;
	const char *auth; /* (nullable): "user:password" */
	gboolean even_if_servers_live;
	gboolean yes; /* it does not ask */

	/* as typed; NULL: not given */
	char *reservation;
	char *max_clock_skew;
	char **datacenter_ids;

} CtlRegistryOptions;

CtlStatus ctl_command_registry_quarantine(const CtlRegistryOptions *options);
