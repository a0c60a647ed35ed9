/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lease.h"

Lease *lease_new(const Layout *layout, guint datacenter_id, guint worker_id, gint64 first_tick,
		 gint64 end_tick)
{
	Lease *self = g_aligned_alloc0(1, sizeof(Lease), _Alignof(Lease));
	gint64 max_tick = layout_max_tick(layout);

	self->datacenter_id = datacenter_id;
	self->worker_id = worker_id;
	self->fixed_bits = layout_fixed_bits(layout, datacenter_id, worker_id);
	self->max_tick = max_tick;
	self->first_tick = CLAMP(first_tick, 1, max_tick + 1);
	atomic_init(&self->end_tick, CLAMP(end_tick, 0, max_tick));

	guint64 none_yet = cursor_first(layout, self->first_tick) - 1;

	atomic_init(&self->cursor, none_yet);
	atomic_init(&self->final_cursor, none_yet);
	return self;
}

void lease_free(Lease *self)
{
	g_aligned_free(self);
}

void lease_extend(Lease *self, gint64 end_tick)
{
	gint64 new_end_tick = MIN(end_tick, self->max_tick);

	/* one thread extends, so nothing can come between the reading and the writing */
	if (new_end_tick > atomic_load(&self->end_tick))
		atomic_store(&self->end_tick, new_end_tick);
}

gint64 lease_retire(Lease *self, const Layout *layout)
{
	guint64 last_cursor = atomic_exchange(&self->cursor, CURSOR_CLOSED);

	if (last_cursor != CURSOR_CLOSED)
		atomic_store(&self->final_cursor, last_cursor);
	return cursor_tick(layout, atomic_load(&self->final_cursor));
}

guint64 lease_last_cursor(const Lease *self)
{
	guint64 cursor = atomic_load(&self->cursor);

	return cursor != CURSOR_CLOSED ? cursor : atomic_load(&self->final_cursor);
}
