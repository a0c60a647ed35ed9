/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "server/worker/registry.h"

typedef struct {
	const char *directory; /* made if it is missing */
	const Layout *layout;
	guint datacenter_id;
	guint worker_id;
	const char *nonce;   /* a uuid, fresh for each start of the process */
	const char *address; /* host:port, for the message to the one who is refused */
} RegistryFileConfig;

/**
 * registry_file_new:
 * @config: copied
 *
 * Nothing is touched before the first claim, which takes the lock.
 *
 * Returns: (transfer full): reservations in a directory of this machine
 */
Registry *registry_file_new(const RegistryFileConfig *config);

/* (transfer full): where the state goes when no --state-directory is given: $STATE_DIRECTORY, else
 * /var/lib/snowflaked for root, else $XDG_STATE_HOME/snowflaked. */
char *registry_file_default_directory(void);
