/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generator.h"
#include "tests/unit/unit-test.h"

#include <stddef.h>

static const Layout *const twitter = &LAYOUT_TWITTER;

TEST("/generator-lease/new", test_new)
{
	g_autoptr(Lease) lease = lease_new(twitter, 17, 25, 1000, 2000);

	g_assert_cmpuint(lease->datacenter_id, ==, 17);
	g_assert_cmpuint(lease->worker_id, ==, 25);
	g_assert_cmphex(lease->fixed_bits, ==, 17u << 17 | 25u << 12);
	g_assert_cmpint(lease->first_tick, ==, 1000);
	g_assert_cmpint(atomic_load(&lease->end_tick), ==, 2000);
	g_assert_cmpuint(atomic_load(&lease->cursor), ==, (1000 << 12) - 1);
	g_assert_cmpuint(lease_last_cursor(lease), ==, (1000 << 12) - 1);
	/* the member written for each ID shares no cache line with those read for it */
	g_assert_cmpuint((guintptr)&lease->cursor % 64, ==, 0);
	g_assert_cmpuint(offsetof(Lease, cursor), >=, 64);
}

TEST("/generator-lease/limits", test_limits)
{
	const gint64 max = layout_max_tick(twitter);
	const struct {
		gint64 first_tick, end_tick;
		gint64 got_first_tick, got_end_tick;
	} cases[] = {
		{1, 1, 1, 1},
		{0, 10, 1, 10},
		{-5, 10, 1, 10},
		{G_MININT64, G_MININT64, 1, 0},
		{10, 9, 10, 9},
		{max, max, max, max},
		{max, max + 1, max, max},
		{max + 1, max + 1, max + 1, max},
		{G_MAXINT64, G_MAXINT64, max + 1, max},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(Lease) lease =
			lease_new(twitter, 0, 0, cases[i].first_tick, cases[i].end_tick);

		g_assert_cmpint(lease->first_tick, ==, cases[i].got_first_tick);
		g_assert_cmpint(atomic_load(&lease->end_tick), ==, cases[i].got_end_tick);
		g_assert_cmpuint(atomic_load(&lease->cursor), <, CURSOR_CLOSED);
	}
}

TEST("/generator-lease/extend", test_extend)
{
	g_autoptr(Lease) lease = lease_new(twitter, 0, 0, 1000, 2000);
	const struct {
		gint64 end_tick, got_end_tick;
	} cases[] = {
		{2001, 2001},
		{2001, 2001},
		{1500, 2001},
		{-1, 2001},
		{layout_max_tick(twitter) + 1, layout_max_tick(twitter)},
		{G_MAXINT64, layout_max_tick(twitter)},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		lease_extend(lease, cases[i].end_tick);
		g_assert_cmpint(atomic_load(&lease->end_tick), ==, cases[i].got_end_tick);
	}
}

TEST("/generator-lease/retire", test_retire)
{
	static const struct {
		guint64 cursor;
		gint64 last_tick;
	} cases[] = {
		{(1000 << 12) - 1, 999}, /* none issued */
		{1000 << 12, 1000},
		{(1000 << 12) + 4095, 1000},
		{1001 << 12, 1001},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(Lease) lease = lease_new(twitter, 0, 0, 1000, 2000);

		atomic_store(&lease->cursor, cases[i].cursor);
		for (int again = 0; again < 2; again++) {
			g_assert_cmpint(lease_retire(lease, twitter), ==, cases[i].last_tick);
			g_assert_cmphex(atomic_load(&lease->cursor), ==, CURSOR_CLOSED);
			g_assert_cmpuint(lease_last_cursor(lease), ==, cases[i].cursor);
		}
	}
}
