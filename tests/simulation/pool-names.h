/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The resolver of the simulation, which replaces client/resolver.c. Addresses of pool-network.h,
 * such as 10.0.0.1, resolve at once. All names resolve to the same servers.
 */

/* The answer for each name, for all pools of the world. */
typedef struct {
	gint64 delay_us;     /* until it answers */
	gboolean has_failed; /* the DNS lookup fails */
	guint first, count;  /* the servers of the name */
} NamesAnswer;

/* Sets the answer for all names from now on. */
void pool_names_set(const NamesAnswer *answer);

/* Returns: since when DNS lookups succeed within a second; WORLD_NEVER_US if they do not */
gint64 pool_names_good_since_us(void);

/* Returns: (transfer full): the address of a server as text: 10.0.0.1:7609. */
char *pool_names_text(guint server);
