/* SPDX-License-Identifier: Apache-2.0 */

/* The header comes first and without GLib, because the verification tools use it alone. */
#include "core/id-arithmetic.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) check(what, __LINE__, #what)

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

#define UNTOUCHED UINT64_C(42)

/* Two bits of sequence; the other fields have extreme widths. */
static const Layout SMALL = {0, 1, 41, 10, 10, 2};
static const Layout LAYOUTS[] = {
	{1288834974657, 1, 41, 5, 5, 12},   {0, 1000, 32, 0, 0, 31},
	{253402300799997, 1, 1, 31, 31, 0}, {0, 7, 30, 31, 2, 0},
	{1767225600000, 1, 41, 0, 5, 7},    {0, 1, 1, 0, 0, 0},
};

static void check(bool is_true, int line, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "test-id-arithmetic.c:%d: not so: %s\n", line, what);
	exit(EXIT_FAILURE);
}

static void check_runs(void)
{
	static const struct {
		uint64_t cursor;
		unsigned count;
		int64_t now_tick, last_tick;
		uint64_t first; /* UNTOUCHED: none */
	} cases[] = {
		{39, 1, 10, 10, 40},        /* a tick begins */
		{7, 4, 10, 10, 40},         /* it skips to the next tick */
		{7, 5, 10, 10, UNTOUCHED},  /* more IDs than a tick has */
		{7, 8, 10, 11, 40},         /* two of them */
		{40, 3, 10, 10, 41},        /* the rest of the tick */
		{40, 4, 10, 10, UNTOUCHED}, /* one more */
		{43, 1, 10, 10, UNTOUCHED}, /* the tick is used up */
		{43, 1, 10, 11, 44},        /* into the next */
		{51, 1, 10, 11, UNTOUCHED}, /* further ahead than allowed */
		{7, 1, 10, 9, UNTOUCHED},   /* the lease has ended */
		{CURSOR_CLOSED, 1, 10, 11, UNTOUCHED},
		{CURSOR_CLOSED, 1, 0, (INT64_C(1) << 41) - 1, UNTOUCHED},
		{(UINT64_C(1) << 43) - 2, 1, 0, (INT64_C(1) << 41) - 1, (UINT64_C(1) << 43) - 1},
		{(UINT64_C(1) << 43) - 1, 1, 0, (INT64_C(1) << 41) - 1, UNTOUCHED},
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		uint64_t first = UNTOUCHED;
		bool found = cursor_find_run(&SMALL, cases[i].cursor, cases[i].count,
					     cases[i].now_tick, cases[i].last_tick, &first);

		CHECK(found == (cases[i].first != UNTOUCHED));
		CHECK(first == cases[i].first);
	}
}

static void check_next_sequences(void)
{
	CHECK(cursor_next_sequence(&SMALL, 40) == 1);
	CHECK(cursor_next_sequence(&SMALL, 42) == 3);
	CHECK(cursor_next_sequence(&SMALL, 43) == 0);
	CHECK(cursor_next_sequence(&LAYOUTS[2], 43) == 0);
}

/* Checks a cursor, its ID, and the fields parsed from the ID. */
static void check_id(const Layout *layout, unsigned datacenter_id, unsigned worker_id,
		     uint64_t cursor)
{
	IdRun run =
		id_run_at(layout, layout_fixed_bits(layout, datacenter_id, worker_id), cursor, 2);
	LayoutParts parts = layout_decode(layout, id_run_get(&run, 0));
	int64_t tick = layout_tick_at(layout, parts.time_ms);

	CHECK(tick == cursor_tick(layout, cursor));
	CHECK((cursor_first(layout, tick) | parts.sequence) == cursor);
	CHECK(parts.datacenter_id == datacenter_id);
	CHECK(parts.worker_id == worker_id);
	if (cursor + 1 < cursor_first(layout, layout_max_tick(layout) + 1))
		CHECK(id_run_get(&run, 1) > id_run_get(&run, 0));
}

static void check_ids(void)
{
	for (size_t i = 0; i < COUNT_OF(LAYOUTS); i++) {
		const Layout *layout = &LAYOUTS[i];
		unsigned datacenter_id = (1u << layout->datacenter_bits) - 1;
		unsigned worker_id = (1u << layout->worker_bits) - 1;
		uint64_t past_last = cursor_first(layout, layout_max_tick(layout) + 1);
		const uint64_t cursors[] = {
			0, 1, cursor_first(layout, 1) - 1, cursor_first(layout, 1), past_last - 1,
		};

		CHECK(past_last <= CURSOR_CLOSED);
		for (size_t j = 0; j < COUNT_OF(cursors); j++) {
			check_id(layout, 0, 0, cursors[j]);
			check_id(layout, datacenter_id, worker_id, cursors[j]);
			check_id(layout, datacenter_id, 0, cursors[j]);
			check_id(layout, 0, worker_id, cursors[j]);
		}

		IdRun last = id_run_at(layout, layout_fixed_bits(layout, datacenter_id, worker_id),
				       past_last - 1, 1);

		CHECK((uint64_t)id_run_get(&last, 0) ==
		      (UINT64_C(1) << layout_total_bits(layout)) - 1);
	}
}

/* The runs of single ticks have the same IDs as the whole run, and each tick has one run. */
static void check_ticks(const Layout *layout, uint64_t first_cursor, unsigned count)
{
	IdRun run = id_run_at(layout, layout_fixed_bits(layout, 0, 0), first_cursor, count);
	unsigned ticks = 0;
	int64_t last_tick = -1;

	for (unsigned at = 0, part; at < count; at += part) {
		int64_t tick = cursor_tick(layout, first_cursor + at);

		part = id_run_in_tick(&run, at);
		CHECK(part >= 1 && part <= count - at);
		CHECK(tick > last_tick);
		CHECK(cursor_tick(layout, first_cursor + at + part - 1) == tick);
		for (unsigned i = 0; i < part; i++)
			CHECK(id_run_get(&run, at + i) == id_run_get(&run, at) + i);
		last_tick = tick;
		ticks++;
	}
	CHECK(id_run_ticks(&run) == ticks);
}

static void check_all_ticks(void)
{
	for (uint64_t first = 40; first < 44; first++)
		for (unsigned count = 1; count < 20; count++)
			check_ticks(&SMALL, first, count);
	for (size_t i = 0; i < COUNT_OF(LAYOUTS) - 1; i++) {
		uint64_t tick_end = cursor_first(&LAYOUTS[i], 1);

		check_ticks(&LAYOUTS[i], tick_end - 1, 1);
		check_ticks(&LAYOUTS[i], tick_end - 1, 2);
		check_ticks(&LAYOUTS[i], tick_end, 300);
		check_ticks(&LAYOUTS[i], cursor_first(&LAYOUTS[i], layout_max_tick(&LAYOUTS[i])),
			    1);
	}
}

int main(void)
{
	check_all_ticks();
	check_runs();
	check_next_sequences();
	check_ids();
	return EXIT_SUCCESS;
}
