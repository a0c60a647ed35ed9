/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "ctl/status.h"

/* "registry secure": closes what servers without a password have made in ZooKeeper. */

typedef struct {
	const char *admin_auth; /* (nullable): a file, of who else may set ACLs there */
	gboolean yes;
	gboolean even_if_servers_live;
} CtlSecureOptions;

/* @auth: (nullable): "user:password": whom it is closed for */
CtlStatus ctl_registry_secure_run(const CtlOptions *options, const CtlSecureOptions *own,
				  const ZookeeperHosts *hosts, const char *auth);
