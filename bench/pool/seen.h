/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Which IDs of the default layout there were, a bit for each; the processes that are forked share
 * it. Any thread. */
typedef struct _Seen Seen;

/* @first_ms: since the Unix epoch: no ID is older. Returns: %NULL if there is no memory for it */
Seen *seen_new(gint64 first_ms, guint n_ms);
void seen_free(Seen *self);

/* Returns: %FALSE if it was there already, or is not of that time */
gboolean seen_add(Seen *self, gint64 id);
