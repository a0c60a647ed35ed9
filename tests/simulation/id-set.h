/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A set of IDs. GLib's hash of a 64-bit integer has many collisions for IDs, so its table is slow.
 */
typedef struct {
	gint64 *slots; /* 0: free */
	guint bits;    /* log2 of the number of slots */
	gsize count;
} IdSet;

void id_set_init(IdSet *self);
void id_set_clear(IdSet *self);

/* @id: not 0. Returns: %FALSE if the set has it already */
gboolean id_set_add(IdSet *self, gint64 id);
gboolean id_set_has(const IdSet *self, gint64 id);
