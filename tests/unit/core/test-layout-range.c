/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layout.h"
#include "tests/unit/unit-test.h"

#define LAYOUTS          2000
#define SPANS_A_LAYOUT   20
#define IDS_A_SPAN       20
#define END_OF_YEAR_9999 G_GINT64_CONSTANT(253402300799999)

static const Layout seconds = {.epoch_ms = 1474300800000,
			       .tick_ms = 1000,
			       .time_bits = 29,
			       .datacenter_bits = 0,
			       .worker_bits = 21,
			       .sequence_bits = 13};
static const Layout small = {.epoch_ms = 1767225600000,
			     .tick_ms = 1,
			     .time_bits = 41,
			     .datacenter_bits = 0,
			     .worker_bits = 5,
			     .sequence_bits = 7};

TEST("/layout-range/cases", test_cases)
{
	const gint64 twitter = LAYOUT_TWITTER.epoch_ms, last = 3487858230208;
	const struct {
		const Layout *layout;
		gint64 from_ms, to_ms, first, last;
	} cases[] = {
		{&LAYOUT_TWITTER, twitter, twitter, 0, 4194303},
		{&LAYOUT_TWITTER, twitter + 1, twitter + 1, 4194304, 8388607},
		{&LAYOUT_TWITTER, twitter + 1, twitter + 2, 4194304, 12582911},
		{&LAYOUT_TWITTER, last, last, G_MAXINT64 - 4194303, G_MAXINT64},
		/* what is not of the layout has no IDs */
		{&LAYOUT_TWITTER, 0, twitter, 0, 4194303},
		{&LAYOUT_TWITTER, G_MININT64, G_MAXINT64, 0, G_MAXINT64},
		{&LAYOUT_TWITTER, last, last + 1, G_MAXINT64 - 4194303, G_MAXINT64},
		{&small, 0, END_OF_YEAR_9999, 0, 9007199254740991},
		/* a tick is never taken apart */
		{&seconds, seconds.epoch_ms + 999, seconds.epoch_ms + 999, 0, 17179869183},
		{&seconds, seconds.epoch_ms + 999, seconds.epoch_ms + 1000, 0, 34359738367},
		{&seconds, seconds.epoch_ms + 1999, seconds.epoch_ms + 2000, 17179869184,
		 51539607551},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gint64 first_id, last_id;

		g_assert_true(layout_range(cases[i].layout, cases[i].from_ms, cases[i].to_ms,
					   &first_id, &last_id, &error));
		g_assert_no_error(error);
		g_assert_cmpint(first_id, ==, cases[i].first);
		g_assert_cmpint(last_id, ==, cases[i].last);
	}
}

TEST("/layout-range/refuses", test_refuses)
{
	static const struct {
		gint64 from_ms, to_ms;
		const char *message;
	} cases[] = {
		{1700000000001, 1700000000000,
		 "the span ends at 1700000000000 ms, before it begins, at 1700000000001 ms"},
		{0, 1288834974656,
		 "time 1288834974656 ms is outside the layout, 1288834974657 to 3487858230208"},
		{3487858230209, 3487858230210,
		 "time 3487858230209 ms is outside the layout, 1288834974657 to 3487858230208"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gint64 first = -7, last = -8;

		g_assert_false(layout_range(&LAYOUT_TWITTER, cases[i].from_ms, cases[i].to_ms,
					    &first, &last, &error));
		g_assert_error(error, LAYOUT_ERROR, LAYOUT_ERROR_OUT_OF_RANGE);
		g_assert_cmpstr(error->message, ==, cases[i].message);
		g_assert_cmpint(first, ==, -7);
		g_assert_cmpint(last, ==, -8);
	}
}

/* Up to @max, which may be any number; the small ones and the large ones alike. */
static gint64 random_up_to(gint64 max)
{
	guint64 bits = (guint64)g_test_rand_int() << 32 | (guint32)g_test_rand_int();

	return (gint64)((bits >> (g_test_rand_int_range(0, 64))) % ((guint64)max + 1));
}

static Layout random_layout(void)
{
	Layout layout;

	do {
		layout = (Layout){
			.epoch_ms = random_up_to(END_OF_YEAR_9999),
			.tick_ms = 1 + random_up_to(999),
			.time_bits = (guint)g_test_rand_int_range(1, 48),
			.datacenter_bits = (guint)random_up_to(31),
			.worker_bits = (guint)random_up_to(31),
			.sequence_bits = (guint)random_up_to(31),
		};
	} while (!layout_check(&layout, NULL));
	return layout;
}

static gint64 random_time_ms(const Layout *layout)
{
	return layout->epoch_ms + random_up_to(layout_last_ms(layout) - layout->epoch_ms);
}

/* An ID of any worker that was issued then. */
static gint64 random_id(const Layout *layout, gint64 time_ms)
{
	const LayoutParts parts = {
		.time_ms = time_ms,
		.datacenter_id =
			(guint)random_up_to((G_GINT64_CONSTANT(1) << layout->datacenter_bits) - 1),
		.worker_id = (guint)random_up_to((G_GINT64_CONSTANT(1) << layout->worker_bits) - 1),
		.sequence =
			(guint)random_up_to((G_GINT64_CONSTANT(1) << layout->sequence_bits) - 1),
	};
	gint64 id;

	g_assert_true(layout_encode(layout, &parts, &id, NULL));
	g_assert_true(layout_check_id(layout, id, NULL));

	LayoutParts decoded = layout_decode(layout, id);

	g_assert_cmpint(decoded.time_ms, <=, time_ms);
	g_assert_cmpint(decoded.time_ms, >, time_ms - layout->tick_ms);
	g_assert_cmpuint(decoded.datacenter_id, ==, parts.datacenter_id);
	g_assert_cmpuint(decoded.worker_id, ==, parts.worker_id);
	g_assert_cmpuint(decoded.sequence, ==, parts.sequence);
	return id;
}

static void check_span(const Layout *layout, gint64 from_ms, gint64 to_ms)
{
	gint64 first, last;

	g_assert_true(layout_range(layout, from_ms, to_ms, &first, &last, NULL));
	for (guint i = 0; i < IDS_A_SPAN; i++) {
		gint64 time_ms = from_ms + random_up_to(to_ms - from_ms);
		gint64 id = random_id(layout, time_ms);

		g_assert_cmpint(id, >=, first);
		g_assert_cmpint(id, <=, last);
	}
	/* the ends are of the ticks that the span begins and ends in, their neighbours are not */
	g_assert_cmpint(layout_decode(layout, first).time_ms, >, from_ms - layout->tick_ms);
	g_assert_cmpint(layout_decode(layout, last).time_ms, <=, to_ms);
	if (first > 0)
		g_assert_cmpint(layout_decode(layout, first - 1).time_ms, <=,
				from_ms - layout->tick_ms);
	if (layout_tick_at(layout, to_ms) < layout_max_tick(layout))
		g_assert_cmpint(layout_decode(layout, last + 1).time_ms, >, to_ms);
	else
		g_assert_cmphex((guint64)last, ==,
				(G_GUINT64_CONSTANT(1) << layout_total_bits(layout)) - 1);
}

TEST("/layout-range/property", test_property)
{
	for (guint i = 0; i < LAYOUTS; i++) {
		Layout layout = random_layout();

		for (guint j = 0; j < SPANS_A_LAYOUT; j++) {
			gint64 a_ms = random_time_ms(&layout), b_ms = random_time_ms(&layout);

			check_span(&layout, MIN(a_ms, b_ms), MAX(a_ms, b_ms));
			check_span(&layout, a_ms, a_ms);
		}
	}
}
