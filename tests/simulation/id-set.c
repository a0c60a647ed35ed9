/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/id-set.h"

#define FIRST_BITS 12

void id_set_init(IdSet *self)
{
	*self = (IdSet){g_new0(gint64, 1 << FIRST_BITS), FIRST_BITS, 0};
}

void id_set_clear(IdSet *self)
{
	g_clear_pointer(&self->slots, g_free);
}

/* Returns: the slot of @id, or the free slot for it. Fibonacci hashing (Knuth, volume 3, 6.4). */
static gint64 *slot_of(const IdSet *self, gint64 id)
{
	gsize mask = ((gsize)1 << self->bits) - 1;
	gsize at = ((guint64)id * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15)) >> (64 - self->bits);

	while (self->slots[at] != 0 && self->slots[at] != id)
		at = (at + 1) & mask;
	return &self->slots[at];
}

static void grow(IdSet *self)
{
	IdSet larger = {g_new0(gint64, (gsize)2 << self->bits), self->bits + 1, self->count};

	for (gsize i = 0; i < (gsize)1 << self->bits; i++)
		if (self->slots[i] != 0)
			*slot_of(&larger, self->slots[i]) = self->slots[i];
	g_free(self->slots);
	*self = larger;
}

gboolean id_set_add(IdSet *self, gint64 id)
{
	gint64 *slot = slot_of(self, id);

	if (*slot == id)
		return FALSE;
	*slot = id;
	if (++self->count >> (self->bits - 1) != 0)
		grow(self);
	return TRUE;
}

gboolean id_set_has(const IdSet *self, gint64 id)
{
	return *slot_of(self, id) == id;
}
