/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "ctl/notes.h"
#include "ctl/options.h"

/*
 * Servers that were named, and what they tell: each of itself and of all others that it knows.
 *
 * What a server says of itself counts for more than what another says of it; of others, what was
 * seen last. A server that cannot tell of others, as its registry does not answer or it is older
 * than the call, still tells of itself.
 */
typedef struct _CtlFleet CtlFleet;

/* @with_counts: they are asked for what they count, too; and a server that was named and does not
 * answer is listed as unreachable
 *
 * Returns: (transfer full) (nullable): the servers of @options; %NULL, and the message is out, if
 *   one does not parse: CTL_USAGE. Connects to nothing yet. */
CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts);
void ctl_fleet_free(CtlFleet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlFleet, ctl_fleet_free)

/* (transfer full) (nullable): of CtlWorker: all that the servers know of, and all of these asked;
 * %NULL: none of the servers answers, or, @with_counts, has ever answered. Which do not, and what
 * may be missing for it, is in @notes.
 */
GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes);
