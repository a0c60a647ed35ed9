/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/notes.h"
#include "ctl/worker.h"

/*
 * Asks the servers in the user's options for their own state and for the list of all servers.
 *
 * A server's report about itself has priority over reports by other servers. Of two reports by
 * other servers, the later one counts. A server that cannot report other servers, because its
 * registry does not answer or its version lacks the call, still reports itself.
 */
typedef struct _CtlFleet CtlFleet;

/* Does not connect yet.
 * @with_counts: also request counters, and list named servers that do not answer as unreachable
 *
 * Returns: (transfer full) (nullable): the servers of @options; %NULL, with the message printed, if
 * an address does not parse: CTL_USAGE */
CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts);
void ctl_fleet_free(CtlFleet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlFleet, ctl_fleet_free)

/* Returns: (transfer full) (nullable) (element-type CtlWorker): all known servers, each of which
 * was asked. %NULL if none of the named servers answers, or, @with_counts, has ever answered.
 * @notes: gets notes on servers that do not answer, and on what may be missing. */
GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes);
