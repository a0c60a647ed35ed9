/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/registry.h"

/* A registry in a directory of this machine. For each datacenter and worker ID, it contains a lock
 * file, worker-D-W.lock, and a record, worker-D-W.json (common/reservation-record.h); see
 * state-directory.h. Reservations are short, and are extended only while IDs are drawn. So a killed
 * server can restart after at most a second, and an idle server writes nothing.
 *
 * Ten times a second, the server checks that the record is still the file that it wrote. So a lease
 * ends with LOST soon after the directory was removed or replaced. Otherwise a server that starts
 * there would find no record, and could issue the same IDs.
 *
 * A claim fails with FATAL if another live server holds the worker ID, according to the
 * lock or the record. If any worker ID may be claimed, the claim tries the next one instead. If
 * possible, it skips damaged records, and worker IDs that are still reserved by a killed server. If
 * no worker ID is free, it ends with WAIT.
 */

typedef struct {
	const char *directory; /* created if it does not exist */
	const Layout *layout;
	guint datacenter_id;
	gint64 worker_id;  /* -1 to claim the lowest free one each time */
	const char *nonce; /* a new UUID for each start of the process */
	/* address of this server, for error messages of servers that are refused */
	const char *address;
	/* ID of the machine to which the directory belongs; NULL for this machine */
	const char *machine_id;
} FileRegistryConfig;

/* Does not access the directory before the first claim, which takes the lock. free() releases it.
 * @config: copied
 * Returns: (transfer full): a registry that stores reservations in a directory of this machine */
Registry *file_registry_new(const FileRegistryConfig *config);

/* Returns: (transfer full): the absolute path of the directory that is used if --state-directory is
 * not given: the first one in $STATE_DIRECTORY; if that is not set, /var/lib/snowflaked for root,
 * and $XDG_STATE_HOME/snowflaked for other users. */
char *file_registry_default_directory(void);
