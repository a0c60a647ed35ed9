/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/pool/seen.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define EPOCH_MS  G_GINT64_CONSTANT(1288834974657)
#define LOW_BITS  22 /* bits of an ID below the time */
#define BYTE_BITS 8

struct _Seen {
	gint64 first;
	guint64 n_ids;
	_Atomic guint8 *bits;
};

Seen *seen_new(gint64 first_ms, guint n_ms)
{
	const guint64 n_ids = (guint64)n_ms << LOW_BITS;
	/* pages are allocated only for IDs that occur */
	void *bits = mmap(NULL, n_ids / BYTE_BITS, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	Seen *self;

	if (bits == MAP_FAILED)
		return NULL;
	self = g_new(Seen, 1);
	*self = (Seen){(first_ms - EPOCH_MS) << LOW_BITS, n_ids, bits};
	return self;
}

void seen_free(Seen *self)
{
	if (self == NULL)
		return;
	munmap((void *)self->bits, self->n_ids / BYTE_BITS);
	g_free(self);
}

gboolean seen_add(Seen *self, gint64 id)
{
	guint64 at = (guint64)(id - self->first);
	guint8 bit = (guint8)(1u << at % BYTE_BITS);

	return at < self->n_ids &&
	       (atomic_fetch_or_explicit(&self->bits[at / BYTE_BITS], bit, memory_order_relaxed) &
		bit) == 0;
}
