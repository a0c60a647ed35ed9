/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/registry.h"

/*
 * Reservations in a directory of this machine: for each datacenter and worker ID a lock,
 * worker-D-W.lock (lock.h), and a record, worker-D-W.json (common/reservation-record.h), written by
 * state_directory_replace(). Reservations are short and made while IDs are being asked for, so that
 * a server that was killed is back after a second at most, and an idle one does not write.
 *
 * Whether the record still is the file that this server wrote is looked at ten times a second, so
 * that a lease ends with LOST soon after the directory was removed or replaced: a server that
 * starts there finds nothing, and issues what this one issues.
 *
 * A claim that finds the worker ID held, by the lock or in the record of another
 * server that lives, fails with FATAL. Where any worker ID will do, it goes on to the next one,
 * past those that are damaged and, as long as there is another, those that are reserved yet by who
 * was killed; if none is free it ends with WAIT.
 */

typedef struct {
	const char *directory; /* made if it is missing */
	const Layout *layout;
	guint datacenter_id;
	gint64 worker_id;       /* -1: the lowest that is free, which may be another each time */
	const char *nonce;      /* a uuid, fresh for each start of the process */
	const char *address;    /* who this is, for the message to the one who is refused */
	const char *machine_id; /* of the machine that the directory is bound to; NULL: this one */
} FileRegistryConfig;

/**
 * file_registry_new:
 * @config: copied
 *
 * Nothing is touched before the first claim, which takes the lock; free lets go of it.
 *
 * Returns: (transfer full): reservations in a directory of this machine
 */
Registry *file_registry_new(const FileRegistryConfig *config);

/* (transfer full): where the state goes when no --state-directory is given: the first directory in
 * $STATE_DIRECTORY, else /var/lib/snowflaked for root, else $XDG_STATE_HOME/snowflaked. Absolute.
 */
char *file_registry_default_directory(void);
