/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Where the servers of ZooKeeper are. Its client would look their names up again and again, in
 * whatever thread it is in; so it is given addresses only.
 */

/**
 * name_resolution_look_up:
 * @servers: "host:port,..."; each is cut at its last colon, as ZooKeeper's client does
 * @known: (nullable): what this returned for @servers the last time
 * @out_unknown: (out) (transfer full) (nullable): the names that cannot be looked up, and why
 *
 * Looks all of them up, one after the other. Blocks: where no name server answers, for tens of
 * seconds. A name that cannot be looked up has the addresses of @known.
 *
 * Returns: (transfer full) (nullable): of each server its addresses, "address:port,...", or "";
 * %NULL if there is not one
 */
GStrv name_resolution_look_up(const char *servers, const GStrv known, char **out_unknown);

/* (transfer full): all @addresses, for ZooKeeper's client: "address:port,...". */
char *name_resolution_join(const GStrv addresses);
