/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/notes.h"
#include "ctl/worker.h"

/* Asks the servers in the user's options for their own state and for the list of all servers.
 *
 * A server's report about itself has priority over reports by other servers. If there are two
 * reports by other servers, the later one is used. A server that cannot report other servers,
 * because its registry does not answer or its version does not support the call, still reports
 * itself. */
typedef struct _CtlFleet CtlFleet;

/* Does not connect yet. @with_counts: also request counters, and list servers named by the user
 * that do not answer as unreachable
 *
 * Returns: (transfer full) (nullable): the servers of @options; %NULL, after printing a message, if
 * an address does not parse; the exit status is then CTL_USAGE */
CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts);
void ctl_fleet_free(CtlFleet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlFleet, ctl_fleet_free)

/* Returns: (transfer full) (nullable) (element-type CtlWorker): all known servers, each of which
 * was queried. %NULL if none of the servers named by the user answers; with @with_counts, only if
 * none has ever answered. @notes: receives notes on servers that do not answer, and on servers that
 * may be missing. */
GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes);
