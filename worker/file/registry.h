/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/registry.h"

/*
 * A registry in a directory of this machine. For each datacenter and worker ID it has a lock,
 * worker-D-W.lock, and a record, worker-D-W.json (common/reservation-record.h), both in
 * state-directory.h. Reservations are short and made only while IDs are drawn. So a server that was
 * killed is back after a second at most, and an idle server does not write.
 *
 * Ten times a second the server checks that the record is still the file that it wrote. So a lease
 * ends with LOST soon after the directory was removed or replaced: a server that starts there finds
 * no record, and issues the same IDs.
 *
 * A claim fails with FATAL if the worker ID is held, by the lock or in the record of another server
 * that lives. If any worker ID will do, it goes on to the next one. It passes over damaged ones,
 * and those that a killed server has reserved, as long as there is another. If none is free it ends
 * with WAIT.
 */

typedef struct {
	const char *directory; /* made if it is missing */
	const Layout *layout;
	guint datacenter_id;
	gint64 worker_id;       /* -1: the lowest that is free, which can be another each time */
	const char *nonce;      /* a UUID, new for each start of the process */
	const char *address;    /* of this server, for the servers that are refused */
	const char *machine_id; /* of the machine that the directory is bound to; NULL: this one */
} FileRegistryConfig;

/**
 * file_registry_new:
 * @config: copied
 *
 * Does not use the directory before the first claim, which takes the lock; free() releases it.
 *
 * Returns: (transfer full): reservations in a directory of this machine
 */
Registry *file_registry_new(const FileRegistryConfig *config);

/* (transfer full): the directory if no --state-directory is given: the first one in
 * $STATE_DIRECTORY, else /var/lib/snowflaked for root, else $XDG_STATE_HOME/snowflaked. Absolute.
 */
char *file_registry_default_directory(void);
