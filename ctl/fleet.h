/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/notes.h"
#include "ctl/worker.h"

/*
 * Asks the servers that were named for themselves and for all other servers that they know.
 *
 * What a server reports of itself has priority over what another reports of it. Of two reports by
 * others, the later one counts. A server that cannot report others, because its registry does not
 * answer or it is older than the call, still reports itself.
 */
typedef struct _CtlFleet CtlFleet;

/* Connects to nothing yet.
 * @with_counts: requests counters too; and a named server that does not answer is listed as
 *   unreachable
 *
 * Returns: (transfer full) (nullable): the servers of @options; %NULL, with the message printed, if
 * an address does not parse: CTL_USAGE */
CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts);
void ctl_fleet_free(CtlFleet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlFleet, ctl_fleet_free)

/* (transfer full) (nullable) (element-type CtlWorker): all servers that are known, after each was
 * asked. %NULL: none of the named servers answers, or, @with_counts, has ever answered. @notes gets
 * which servers do not answer, and what can be missing for that reason. */
GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes);
