/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The arithmetic of IDs: the tick for a time, the start of the next run of IDs, and the value of an
 * ID. The functions do not check their arguments. They use only integers, without GLib or atomics,
 * so that a verifier for C can read this file: frama-c core/id-arithmetic.h.
 *
 * A tick is the unit of time of a layout, a whole number of milliseconds; tick 0 begins at the
 * epoch. generator.c draws IDs: it moves the cursor of a lease atomically. */

/* The position of an ID among the IDs of one worker: tick << sequence_bits | sequence. */
typedef uint64_t Cursor;

/* The sign bit of an ID is 0, so IDs sort in the same order whether they are read as signed or as
 * unsigned numbers. */
#define LAYOUT_MAX_BITS 63

/* How the bits of an ID divide, from high to low: tick, datacenter ID, worker ID, sequence. If
 * their sum is less than 63, the bits above them are 0. Plain data; layout_check() checks whether
 * it is valid. */
typedef struct {
	int64_t epoch_ms;   /* the time that encodes as tick 0, since the Unix epoch; 0 or more */
	int64_t tick_ms;    /* 1 to 1000 */
	unsigned time_bits; /* 1 or more; the sum of the four fields is at most LAYOUT_MAX_BITS */
	unsigned datacenter_bits; /* 0 to 31 */
	unsigned worker_bits;     /* 0 to 31 */
	unsigned sequence_bits;   /* 0 to 31 */
} Layout;

typedef struct {
	int64_t time_ms; /* since the Unix epoch; when decoded, the start of the tick */
	unsigned datacenter_id;
	unsigned worker_id;
	unsigned sequence;
} LayoutParts;

/* Returns the number of bits below the tick. */
static inline unsigned layout_low_bits(const Layout *self)
{
	return self->datacenter_bits + self->worker_bits + self->sequence_bits;
}

static inline unsigned layout_total_bits(const Layout *self)
{
	return self->time_bits + layout_low_bits(self);
}

/* Returns the last tick that fits the time bits. */
static inline int64_t layout_max_tick(const Layout *self)
{
	return (int64_t)((UINT64_C(1) << self->time_bits) - 1);
}

/* Rounds down, not towards 0. @divisor: above 0 */
static inline int64_t layout_floor_divide(int64_t value, int64_t divisor)
{
	return value >= 0 ? value / divisor : -1 - (-1 - value) / divisor;
}

/* Returns the tick of @time_ms, which can be any time. The tick is negative before the epoch, and
 * above layout_max_tick() after the end of the layout. */
static inline int64_t layout_tick_at(const Layout *self, int64_t time_ms)
{
	int64_t since_epoch_ms = time_ms - self->epoch_ms;

	/* every draw calls this. Compilers turn a division by a constant into a multiplication,
	 * which is much faster */
	if (self->tick_ms == 1)
		return since_epoch_ms;
	if (self->tick_ms == 1000)
		return layout_floor_divide(since_epoch_ms, 1000);
	return layout_floor_divide(since_epoch_ms, self->tick_ms);
}

/* Returns the start of @tick, in milliseconds since the Unix epoch. */
static inline int64_t layout_tick_start_ms(const Layout *self, int64_t tick)
{
	return self->epoch_ms + tick * self->tick_ms;
}

/* Returns the datacenter ID and the worker ID at their positions in an ID. Both must fit their
 * fields. */
static inline uint64_t layout_fixed_bits(const Layout *self, unsigned datacenter_id,
					 unsigned worker_id)
{
	return ((uint64_t)datacenter_id << self->worker_bits | worker_id) << self->sequence_bits;
}

/* Returns the parts of @id, which has no bit above layout_total_bits(), so it is not negative. */
static inline LayoutParts layout_decode(const Layout *self, int64_t id)
{
	uint64_t worker = (uint64_t)id >> self->sequence_bits;
	uint64_t datacenter = worker >> self->worker_bits;
	int64_t tick = (int64_t)(datacenter >> self->datacenter_bits);

	return (LayoutParts){
		.time_ms = layout_tick_start_ms(self, tick),
		.datacenter_id = datacenter & ((1u << self->datacenter_bits) - 1),
		.worker_id = worker & ((1u << self->worker_bits) - 1),
		.sequence = id & ((1u << self->sequence_bits) - 1),
	};
}

/* The cursor of a retired lease. It is above every cursor of every layout, so a run after it is
 * always past the lease's end. */
#define CURSOR_CLOSED (UINT64_C(1) << 63)

/* Returns the first cursor of @tick, 0 to layout_max_tick() + 1. */
static inline Cursor cursor_first(const Layout *layout, int64_t tick)
{
	return (Cursor)tick << layout->sequence_bits;
}

static inline int64_t cursor_tick(const Layout *layout, Cursor cursor)
{
	return (int64_t)(cursor >> layout->sequence_bits);
}

/* Returns the first cursor that is unused and not in a past tick. All cursors up to @cursor are
 * used. */
static inline Cursor cursor_next(const Layout *layout, Cursor cursor, int64_t now_tick)
{
	Cursor first_now = cursor_first(layout, now_tick);

	return cursor + 1 > first_now ? cursor + 1 : first_now;
}

/* Returns the sequence that follows the sequence in @cursor; 0 after the highest one. */
static inline uint64_t cursor_next_sequence(const Layout *layout, Cursor cursor)
{
	return (cursor + 1) & ((UINT64_C(1) << layout->sequence_bits) - 1);
}

/* Returns the last tick that the clock and the lease allow for IDs. */
static inline int64_t cursor_last_tick(int64_t now_tick, int64_t max_ahead_ticks, int64_t end_tick)
{
	int64_t ahead_tick = now_tick + max_ahead_ticks;

	return ahead_tick < end_tick ? ahead_tick : end_tick;
}

/* Returns: false if the run would end after @last_tick
 * @now_tick: 0 to layout_max_tick()
 * @last_tick: the result of cursor_last_tick(), at most layout_max_tick()
 * @out_first: (out): the first cursor of a run of @count IDs; untouched on false */
static inline bool cursor_find_run(const Layout *layout, Cursor cursor, unsigned count,
				   int64_t now_tick, int64_t last_tick, Cursor *out_first)
{
	Cursor first = cursor_next(layout, cursor, now_tick);

	if (first + count > cursor_first(layout, last_tick + 1))
		return false;
	*out_first = first;
	return true;
}

/* The IDs of one draw. Plain data. */
typedef struct {
	Cursor first_cursor;
	uint64_t fixed_bits;
	unsigned count;
	uint8_t sequence_bits;
	uint8_t time_shift;
} IdRun;

static inline IdRun id_run_at(const Layout *layout, uint64_t fixed_bits, Cursor first_cursor,
			      unsigned count)
{
	return (IdRun){
		.first_cursor = first_cursor,
		.fixed_bits = fixed_bits,
		.count = count,
		.sequence_bits = (uint8_t)layout->sequence_bits,
		.time_shift = (uint8_t)layout_low_bits(layout),
	};
}

/* Returns the ID at @index, 0 to count - 1. The IDs increase. */
static inline int64_t id_run_get(const IdRun *self, unsigned index)
{
	Cursor cursor = self->first_cursor + index;
	uint64_t tick_mask = UINT64_MAX << self->sequence_bits;
	uint64_t tick = (cursor & tick_mask) << (self->time_shift - self->sequence_bits);

	return (int64_t)(tick | self->fixed_bits | (cursor & ~tick_mask));
}

/* Returns how many different ticks the IDs have. */
static inline unsigned id_run_ticks(const IdRun *self)
{
	Cursor last_cursor = self->first_cursor + self->count - 1;

	return (unsigned)((last_cursor >> self->sequence_bits) -
			  (self->first_cursor >> self->sequence_bits)) +
	       1;
}

/* Returns how many IDs from @index on have the same tick. They are consecutive numbers, because the
 * sequence is the lowest field. */
static inline unsigned id_run_in_tick(const IdRun *self, unsigned index)
{
	uint64_t tick_size = UINT64_C(1) << self->sequence_bits;
	uint64_t room = tick_size - ((self->first_cursor + index) & (tick_size - 1));
	unsigned left = self->count - index;

	return room < left ? (unsigned)room : left;
}
