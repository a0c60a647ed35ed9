/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

typedef struct _IdBlock IdBlock;

/* A set of IDs. It is fast for runs, most of whose IDs are in one block. */
typedef struct {
	IdBlock *slots;
	guint bits; /* log2 of the number of slots */
	gsize n_blocks;
} IdSet;

void id_set_init(IdSet *self);
void id_set_clear(IdSet *self);

/* Returns: %FALSE if the set already contains it */
gboolean id_set_add(IdSet *self, gint64 id);
gboolean id_set_has(const IdSet *self, gint64 id);
