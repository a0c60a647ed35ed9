/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A set of IDs. GLib's hash tables take half of such numbers for the same hash, and search long. */
typedef struct {
	gint64 *slots; /* 0: free */
	guint bits;    /* of the number of slots */
	gsize count;
} IdSet;

void id_set_init(IdSet *self);
void id_set_clear(IdSet *self);

/* @id: not 0. Returns: %FALSE if it is in there already */
gboolean id_set_add(IdSet *self, gint64 id);
gboolean id_set_has(const IdSet *self, gint64 id);
