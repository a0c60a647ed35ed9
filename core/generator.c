/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generator.h"

/* Leases */

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

void lease_extend(Lease *self, gint64 end_tick)
{
	gint64 new_end_tick = MIN(end_tick, self->max_tick);

	/* only one thread calls this, so nothing happens between the load and the store */
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

/* The generator */

/* An attempt takes a view of the lease, its cursor, the clock and the lease's end, computes where
 * its run would begin, and swaps the cursor. If the swap fails, or the view leaves no room for the
 * run, another attempt follows.
 *
 * A draw that issues IDs can use an outdated view: the swap proves that the cursor was current, the
 * end only grows, and an old reading of the clock results at worst in an older ID. So the first
 * attempt reads the clock before it touches the cursor, to leave other threads little time to
 * intervene. If another thread does, the failed swap has returned the new cursor and fetched its
 * cache line. The next attempt then uses that cursor with the same clock and end, before another
 * core takes the cache line. A new reading of the clock would take longer than a whole draw of the
 * other thread, which would then win again.
 *
 * A refusal needs an exact view. If a thread sleeps between reading the clock and reading the
 * cursor, other threads can draw newer IDs in between. The clock then seems to have stepped back,
 * or the sequence to have run out. So generator_draw() itself never refuses. draw_or_refuse() reads
 * the clock after the cursor, and refuses only if the lease and the cursor are still the same after
 * the clock and the end were read. Then a refusal was the only correct answer at that instant.
 * (Cursors only grow and no lease is published twice, so equal values mean that nothing has
 * changed. The state without a lease can recur, and requires a refusal whenever it is seen.) */

typedef struct {
	Lease *lease;
	guint64 cursor;
	gint64 now_ns;
	gint64 end_tick;
} View;

typedef enum {
	ATTEMPT_DREW,
	ATTEMPT_LOST,    /* another thread has moved the cursor; the view contains the new cursor */
	ATTEMPT_NO_ROOM, /* the view leaves no room for a run */
} Attempt;

Generator *generator_new(const Layout *layout, const Clock *clock, const GeneratorPolicy *policy)
{
	Generator *self = g_new0(Generator, 1);
	guint64 tick_size = G_GUINT64_CONSTANT(1) << layout->sequence_bits;

	self->layout = *layout;
	self->clock = clock;
	self->max_tick = layout_max_tick(layout);
	self->max_ahead_ticks = policy->max_ahead_ms / layout->tick_ms;
	self->sequence_start_range = MIN(policy->sequence_start_range, tick_size);
	self->max_batch =
		(guint)MIN(policy->max_batch, ((guint64)self->max_ahead_ticks + 1) * tick_size);
	self->leases = g_ptr_array_new_with_free_func(g_aligned_free);

	self->none = lease_new(layout, 0, 0, 1, 0);
	lease_retire(self->none, layout);
	g_ptr_array_add(self->leases, self->none);
	generator_publish(self, NULL);
	return self;
}

void generator_free(Generator *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->leases);
	g_free(self);
}

/* Finds where a run of @count IDs begins, if the clock and the lease's end allow one. */
static inline gboolean find_run(const Generator *self, const View *view, guint count,
				guint64 *out_first)
{
	const Layout *layout = &self->layout;
	gint64 now_tick = layout_tick_at(layout, view->now_ns / CLOCK_NS_PER_MS);

	if ((guint64)now_tick > (guint64)self->max_tick) /* also true if now_tick is negative */
		return FALSE;

	gint64 last_tick = cursor_last_tick(now_tick, self->max_ahead_ticks, view->end_tick);

	if (!cursor_find_run(layout, view->cursor, count, now_tick, last_tick, out_first))
		return FALSE;
	/* only if the clock has begun the tick: if the sequence has overflowed into the tick, it
	 * starts at 0 */
	if (G_UNLIKELY(self->sequence_start_range != 1) &&
	    view->cursor < cursor_first(layout, now_tick)) {
		guint64 room = cursor_first(layout, last_tick + 1) - (*out_first + count);
		guint64 start =
			self->sequence_start_range == GENERATOR_SEQUENCE_CONTINUES
				? cursor_next_sequence(layout, view->cursor)
				: (guint64)g_random_int() * self->sequence_start_range >> 32;

		*out_first += MIN(start, room);
	}
	return TRUE;
}

/* Returns the time from the view's clock to the start of @tick. */
static gint64 wait_ns(const Generator *self, const View *view, gint64 tick)
{
	gint64 now_ms = view->now_ns / CLOCK_NS_PER_MS;
	gint64 wait_ms = layout_tick_start_ms(&self->layout, tick) - now_ms;

	return MIN(wait_ms, G_MAXINT64 / CLOCK_NS_PER_MS) * CLOCK_NS_PER_MS -
	       view->now_ns % CLOCK_NS_PER_MS;
}

/* Returns why find_run() found no run. If there are several reasons, returns the first of these:
 *
 * 1. The clock is outside the layout's range: there is no ID for such a time, regardless of the
 * lease.
 * 2. There is no lease to compare the clock with.
 * 3. The cursor is further ahead than allowed. If IDs were issued, the clock has stepped back;
 *    otherwise the lease begins later. This comes before the end of the lease, because an extension
 *    would not help.
 * 4. The lease ends too early. This comes before the last reason, because waiting would not help.
 * 5. The sequence ran out. */
static DrawStatus find_refusal(const Generator *self, const View *view, guint count,
			       DrawRefusal *out_refusal)
{
	const Layout *layout = &self->layout;
	gint64 now_ms = view->now_ns / CLOCK_NS_PER_MS;
	gint64 now_tick = layout_tick_at(layout, now_ms);
	gint64 ahead_tick = now_tick + self->max_ahead_ticks;

	*out_refusal = (DrawRefusal){0};
	if (now_tick < 0 || now_tick > self->max_tick)
		return DRAW_CLOCK_OUTSIDE;
	if (view->cursor == CURSOR_CLOSED)
		return DRAW_UNRESERVED;

	gint64 tick = cursor_tick(layout, view->cursor);
	gint64 last_tick =
		cursor_tick(layout, cursor_next(layout, view->cursor, now_tick) + count - 1);
	/* the clock allows the run from this tick onwards */
	gint64 wait_tick = last_tick - self->max_ahead_ticks;

	if (tick < view->lease->first_tick) { /* nothing issued yet */
		if (view->lease->first_tick > ahead_tick) {
			out_refusal->wait_ns = wait_ns(self, view, wait_tick);
			return DRAW_UNRESERVED;
		}
	} else if (tick > ahead_tick) {
		out_refusal->behind_ms = layout_tick_start_ms(layout, tick) - now_ms;
		return DRAW_CLOCK_BACK;
	}
	if (last_tick > view->end_tick)
		return DRAW_UNRESERVED;
	out_refusal->wait_ns = wait_ns(self, view, wait_tick);
	return DRAW_WAIT;
}

/* Inline, like find_run(), because the first attempt is most of the cost of an ID. */
static inline Attempt attempt_draw(const Generator *self, View *view, guint count, IdRun *out_run)
{
	guint64 cursor = view->cursor; /* a copy, so that the view can stay in registers */
	guint64 first;

	if (G_UNLIKELY(!find_run(self, view, count, &first)))
		return ATTEMPT_NO_ROOM;

	/* computed before the swap, because the processor cannot start later work until the swap is
	 * done */
	IdRun run = id_run_at(&self->layout, view->lease->fixed_bits, first, count);

	if (G_UNLIKELY(!atomic_compare_exchange_strong(&view->lease->cursor, &cursor,
						       first + count - 1))) {
		view->cursor = cursor;
		return ATTEMPT_LOST;
	}
	*out_run = run;
	return ATTEMPT_DREW;
}

static G_GNUC_NO_INLINE DrawStatus draw_or_refuse(const Generator *self, guint count,
						  IdRun *out_run, DrawRefusal *out_refusal)
{
	for (;;) {
		View view;

		view.lease = atomic_load(&self->lease);
		view.cursor = atomic_load(&view.lease->cursor);
		view.now_ns = clock_now_ns(self->clock);
		view.end_tick = atomic_load(&view.lease->end_tick);

		Attempt result = attempt_draw(self, &view, count, out_run);

		if (result == ATTEMPT_DREW)
			return DRAW_OK;
		if (result == ATTEMPT_NO_ROOM && atomic_load(&self->lease) == view.lease &&
		    atomic_load(&view.lease->cursor) == view.cursor)
			return find_refusal(self, &view, count, out_refusal);
	}
}

DrawStatus generator_draw(Generator *self, guint count, IdRun *out_run, DrawRefusal *out_refusal)
{
	View view;
	Attempt result;

	view.now_ns = clock_now_ns(self->clock);
	view.lease = atomic_load(&self->lease);
	view.cursor = atomic_load(&view.lease->cursor);
	view.end_tick = atomic_load(&view.lease->end_tick);
	do
		result = attempt_draw(self, &view, count, out_run);
	while (G_UNLIKELY(result == ATTEMPT_LOST));
	if (G_LIKELY(result == ATTEMPT_DREW))
		return DRAW_OK;
	return draw_or_refuse(self, count, out_run, out_refusal);
}

guint generator_room_in_tick(const Generator *self, guint most)
{
	const Layout *layout = &self->layout;
	gint64 now_tick = layout_tick_at(layout, clock_now_ns(self->clock) / CLOCK_NS_PER_MS);
	guint64 cursor = atomic_load(&atomic_load(&self->lease)->cursor);
	guint64 next = cursor_next(layout, cursor, MAX(now_tick, 0));
	guint64 left = cursor_first(layout, cursor_tick(layout, next) + 1) - next;

	return (guint)MIN(MIN(most, self->max_batch), left);
}

gint64 generator_ahead_ns(const Generator *self)
{
	const Lease *lease = atomic_load(&self->lease);
	gint64 now_ns = clock_now_ns(self->clock);
	gint64 tick = cursor_tick(&self->layout, lease_last_cursor(lease));

	/* no ID was issued yet, and a reservation may begin in the future */
	if (tick < lease->first_tick)
		return 0;
	return MAX(layout_tick_start_ms(&self->layout, tick) * CLOCK_NS_PER_MS - now_ns, 0);
}

const Lease *generator_lease(const Generator *self)
{
	const Lease *lease = atomic_load(&self->lease);

	return lease != self->none ? lease : NULL;
}

void generator_publish(Generator *self, Lease *lease)
{
	if (lease != NULL)
		g_ptr_array_add(self->leases, lease);
	atomic_store(&self->lease, lease != NULL ? lease : self->none);
}
