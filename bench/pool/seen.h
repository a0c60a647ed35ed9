/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A set of IDs of the default layout, with a bit for each. Forked processes share it. Any thread
 * can use it. */
typedef struct _Seen Seen;

/* @first_ms: time of the oldest possible ID, since the Unix epoch. Returns: %NULL if there is no
 *   memory for it */
Seen *seen_new(gint64 first_ms, guint n_ms);
void seen_free(Seen *self);

/* Returns: %FALSE if the ID is already in the set, or if its time is out of range */
gboolean seen_add(Seen *self, gint64 id);
