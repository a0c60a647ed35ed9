/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Resolves the names of ZooKeeper's servers. ZooKeeper's client would resolve them repeatedly, in
 * any of its threads, so it gets only addresses. */

/* Resolves all names, one after the other. Blocks, possibly for tens of seconds if no name server
 * answers. For a name that cannot be resolved, uses its addresses in @known.
 * @servers: "host:port,..."; each is split at its last colon, as by ZooKeeper's client
 * @known: (nullable): the last result for @servers
 * @out_unknown: (out) (transfer full) (nullable): the names that cannot be resolved, and why
 * Returns: (transfer full) (nullable): the addresses of each server, "address:port,...", or "";
 * %NULL if there are none at all */
GStrv name_resolution_look_up(const char *servers, const GStrv known, char **out_unknown);

/* Returns: (transfer full): all @addresses, for ZooKeeper's client: "address:port,...". */
char *name_resolution_join(const GStrv addresses);
