/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/id-set.h"

#define FIRST_BITS 12
#define BLOCK_BITS 6 /* a block has an ID for each bit of a number */

/* IDs that differ only in their last BLOCK_BITS bits. */
struct _IdBlock {
	guint64 ids; /* a bit for each; 0 if the slot is free */
	gint64 number;
};

void id_set_init(IdSet *self)
{
	*self = (IdSet){g_new0(IdBlock, 1 << FIRST_BITS), FIRST_BITS, 0};
}

void id_set_clear(IdSet *self)
{
	g_clear_pointer(&self->slots, g_free);
}

/* Returns: the slot of block @number, or the free slot for it. Fibonacci hashing (Knuth, volume 3,
 * 6.4). */
static IdBlock *slot_of(const IdSet *self, gint64 number)
{
	gsize mask = ((gsize)1 << self->bits) - 1;
	gsize at = ((guint64)number * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15)) >> (64 - self->bits);

	while (self->slots[at].ids != 0 && self->slots[at].number != number)
		at = (at + 1) & mask;
	return &self->slots[at];
}

static void grow(IdSet *self)
{
	IdSet larger = {g_new0(IdBlock, (gsize)2 << self->bits), self->bits + 1, self->n_blocks};

	for (gsize i = 0; i < (gsize)1 << self->bits; i++)
		if (self->slots[i].ids != 0)
			*slot_of(&larger, self->slots[i].number) = self->slots[i];
	g_free(self->slots);
	*self = larger;
}

static guint64 bit_of(gint64 id)
{
	return G_GUINT64_CONSTANT(1) << (id & ((1 << BLOCK_BITS) - 1));
}

gboolean id_set_add(IdSet *self, gint64 id)
{
	IdBlock *slot = slot_of(self, id >> BLOCK_BITS);
	gboolean is_new = slot->ids == 0;

	if ((slot->ids & bit_of(id)) != 0)
		return FALSE;
	*slot = (IdBlock){slot->ids | bit_of(id), id >> BLOCK_BITS};
	if (is_new && ++self->n_blocks >> (self->bits - 1) != 0)
		grow(self);
	return TRUE;
}

gboolean id_set_has(const IdSet *self, gint64 id)
{
	return (slot_of(self, id >> BLOCK_BITS)->ids & bit_of(id)) != 0;
}
