/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layout.h"
#include "core/text.h"

#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#define LAYOUTS          2000
#define SPANS_A_LAYOUT   20
#define IDS_A_SPAN       20
#define END_OF_YEAR_9999 G_GINT64_CONSTANT(253402300799999)

static const Layout uid_generator = {1474300800000, 1000, 29, 0, 21, 13};

static const Layout small = {1767225600000, 1, 41, 0, 5, 7};

/* Checks the result. @message: NULL for success */
static void check_error(gboolean good, const GError *error, IdError code, const char *message)
{
	g_assert_true(good == (message == NULL));
	if (message == NULL) {
		g_assert_no_error(error);
	} else {
		g_assert_error(error, ID_ERROR, (gint)code);
		g_assert_cmpstr(error->message, ==, message);
	}
}

static void check_both_ways(const Layout *layout, const LayoutParts *parts, const char *id_text)
{
	g_autoptr(GError) error = NULL;
	gint64 expected = g_ascii_strtoll(id_text, NULL, 10);
	gint64 id = -1;

	g_assert_true(layout_encode(layout, parts, &id, &error));
	g_assert_no_error(error);
	g_assert_cmpint(id, ==, expected);

	LayoutParts decoded = layout_decode(layout, expected);

	g_assert_cmpint(decoded.time_ms, ==, parts->time_ms);
	g_assert_cmpuint(decoded.datacenter_id, ==, parts->datacenter_id);
	g_assert_cmpuint(decoded.worker_id, ==, parts->worker_id);
	g_assert_cmpuint(decoded.sequence, ==, parts->sequence);
}

static LayoutParts parts_of(JsonObject *vector)
{
	return (LayoutParts){
		.time_ms = json_object_get_int_member(vector, "timestamp_ms"),
		.datacenter_id = (guint)json_object_get_int_member(vector, "datacenter_id"),
		.worker_id = (guint)json_object_get_int_member(vector, "worker_id"),
		.sequence = (guint)json_object_get_int_member(vector, "sequence"),
	};
}

/* Checks that the preset of this name equals that of the vectors. */
static void check_preset(const char *name, JsonObject *vector, Layout *out_layout)
{
	JsonObject *bits = json_object_get_object_member(vector, "bits");
	const Layout expected = {
		.epoch_ms = json_object_get_int_member(vector, "epoch_ms"),
		.tick_ms = json_object_get_int_member(vector, "time_unit_ms"),
		.time_bits = (guint)json_object_get_int_member(bits, "time"),
		.datacenter_bits = (guint)json_object_get_int_member(bits, "datacenter"),
		.worker_bits = (guint)json_object_get_int_member(bits, "worker"),
		.sequence_bits = (guint)json_object_get_int_member(bits, "sequence"),
	};

	g_assert_true(layout_parse(name, out_layout, NULL));
	g_assert_true(layout_equal(out_layout, &expected));
}

TEST("/layout/vectors", test_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("layouts.json");
	JsonObject *vectors = json_node_get_object(root);
	JsonObject *twitter = json_object_get_object_member(vectors, "twitter");
	JsonArray *ids = json_object_get_array_member(twitter, "ids");
	JsonArray *others = json_object_get_array_member(vectors, "other_layouts");
	Layout layout;

	check_preset("twitter", twitter, &layout);
	g_assert_true(layout_equal(&layout, &LAYOUT_TWITTER));
	g_assert_cmpuint(json_array_get_length(ids), >, 0);
	for (guint i = 0; i < json_array_get_length(ids); i++) {
		JsonObject *vector = json_array_get_object_element(ids, i);
		LayoutParts parts = parts_of(vector);

		check_both_ways(&layout, &parts, json_object_get_string_member(vector, "id"));
	}

	g_assert_cmpuint(json_array_get_length(others), >, 0);
	for (guint i = 0; i < json_array_get_length(others); i++) {
		JsonObject *vector = json_array_get_object_element(others, i);
		LayoutParts parts = parts_of(vector);

		check_preset(json_object_get_string_member(vector, "layout"), vector, &layout);
		check_both_ways(&layout, &parts, json_object_get_string_member(vector, "id"));
	}
}

static guint64 mask(JsonObject *masks, const char *name)
{
	return g_ascii_strtoull(json_object_get_string_member(masks, name), NULL, 16);
}

TEST("/layout/masks", test_masks)
{
	g_autoptr(JsonNode) root = vectors_load("layouts.json");
	JsonObject *twitter = json_object_get_object_member(json_node_get_object(root), "twitter");
	JsonObject *masks = json_object_get_object_member(twitter, "masks");
	const LayoutParts parts[] = {
		{LAYOUT_TWITTER.epoch_ms, 0, 0, 4095},
		{LAYOUT_TWITTER.epoch_ms, 0, 31, 0},
		{LAYOUT_TWITTER.epoch_ms, 31, 0, 0},
		{LAYOUT_TWITTER.epoch_ms + layout_max_tick(&LAYOUT_TWITTER), 0, 0, 0},
	};
	const char *const names[] = {"sequence", "worker", "datacenter", "timestamp"};

	for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
		gint64 id;

		g_assert_true(layout_encode(&LAYOUT_TWITTER, &parts[i], &id, NULL));
		/* the mask of the time includes the sign bit, which an ID never has set */
		g_assert_cmphex((guint64)id, ==, mask(masks, names[i]) & G_MAXINT64);
	}
}

TEST("/layout/check", test_check)
{
	static const struct {
		Layout layout;
		const char *message; /* NULL if valid */
	} cases[] = {
		{{0, 1, 41, 5, 5, 12}, NULL},
		{{0, 1000, 32, 0, 0, 31}, NULL},
		{{0, 1, 1, 31, 31, 0}, NULL},
		{{253402300799999, 1, 1, 31, 31, 0},
		 "with 1 time bits, ticks of 1 ms and the epoch 253402300799999 ms, the last tick "
		 "is "
		 "after the year 9999; use fewer time bits"},
		{{253402300799998, 1, 1, 31, 31, 0}, NULL},
		{{253402300799997, 1, 1, 31, 31, 0}, NULL},
		{{-1, 1, 41, 5, 5, 12}, "epoch_ms -1 is out of range, 0 to 253402300799999"},
		{{253402300800000, 1, 1, 31, 31, 0},
		 "epoch_ms 253402300800000 is out of range, 0 to 253402300799999"},
		{{0, 0, 41, 5, 5, 12}, "tick_ms 0 is out of range, 1 to 1000"},
		{{0, 1001, 41, 5, 5, 12}, "tick_ms 1001 is out of range, 1 to 1000"},
		{{0, 1, 0, 31, 31, 1}, "time_bits 0 is out of range, 1 to 63"},
		{{0, 1, 64, 0, 0, 0}, "time_bits 64 is out of range, 1 to 63"},
		{{0, 1, 31, 32, 0, 0}, "datacenter_bits 32 is out of range, 0 to 31"},
		{{0, 1, 31, 0, 32, 0}, "worker_bits 32 is out of range, 0 to 31"},
		{{0, 1, 31, 0, 0, 32}, "sequence_bits 32 is out of range, 0 to 31"},
		{{0, 1, 41, 5, 5, 11}, NULL},
		{{0, 1, 1, 0, 0, 0}, NULL},
		{{0, 1, 41, 5, 6, 12}, "the four fields have 64 bits in total; the limit is 63"},
		{{0, 1, 63, 0, 0, 0},
		 "with 63 time bits, ticks of 1 ms and the epoch 0 ms, the last tick is after the "
		 "year 9999; use fewer time bits"},
		{{0, 1, 48, 0, 0, 15},
		 "with 48 time bits, ticks of 1 ms and the epoch 0 ms, the last tick is after the "
		 "year 9999; use fewer time bits"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gboolean good = layout_check(&cases[i].layout, &error);

		check_error(good, error, ID_ERROR_INVALID, cases[i].message);
	}
}

TEST("/layout/parse", test_parse)
{
	static const struct {
		const char *text;
		Layout layout;
	} cases[] = {
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,sequence_bits="
		 "12",
		 {0, 1, 41, 5, 5, 12}},
		{"sequence_bits=10,worker_bits=21,datacenter_bits=0,time_bits=32,tick_ms=1000,"
		 "epoch_"
		 "ms=1600000000000",
		 {1600000000000, 1000, 32, 0, 21, 10}},
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,sequence_bits="
		 "12,total_bits=63",
		 {0, 1, 41, 5, 5, 12}},
		{"total_bits=53,epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=0,worker_bits=5,"
		 "sequence_bits=7",
		 {0, 1, 41, 0, 5, 7}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		Layout layout;

		g_assert_true(layout_parse(cases[i].text, &layout, &error));
		g_assert_no_error(error);
		g_assert_true(layout_equal(&layout, &cases[i].layout));
	}
}

TEST("/layout/parse-refuses", test_parse_refuses)
{
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
		{"", "unknown layout \"\"; use twitter, machine-10, uid-generator, "
		     "uid-generator-28, discord, instagram, js-safe, or specify all six fields"},
		{"Twitter",
		 "unknown layout \"Twitter\"; use twitter, machine-10, uid-generator, "
		 "uid-generator-28, discord, instagram, js-safe, or specify all six fields"},
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5",
		 "a layout needs six fields; sequence_bits is missing"},
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,sequence_bits="
		 "11",
		 "the four fields have 62 bits in total, but must have 63; for 62 bits, add "
		 "total_bits=62"},
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,sequence_bits="
		 "11,total_bits=63",
		 "the four fields have 62 bits in total, but must have 63; for 62 bits, add "
		 "total_bits=62"},
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=0,worker_bits=5,sequence_bits="
		 "8,total_bits=53",
		 "the four fields have 54 bits in total, but must have 53; for 54 bits, add "
		 "total_bits=54"},
		{"epoch_ms=0,tick_ms=1,time_bits=41,datacenter_bits=6,worker_bits=5,sequence_bits="
		 "12,total_bits=63",
		 "the four fields have 64 bits in total; the limit is 63"},
		{"total_bits=64", "total_bits 64 is out of range, 1 to 63"},
		{"total_bits=53,total_bits=53", "total_bits is given twice"},
		{"epoch_ms=0,epoch_ms=0", "epoch_ms is given twice"},
		{"epoch_ms=0,", "\"\" is not a layout field with a number, such as tick_ms=1"},
		{"epoch_ms=0,tick_ms",
		 "\"tick_ms\" is not a layout field with a number, such as tick_ms=1"},
		{"epoch=0", "\"epoch=0\" is not a layout field with a number, such as tick_ms=1"},
		{" epoch_ms=0",
		 "\" epoch_ms=0\" is not a layout field with a number, such as tick_ms=1"},
		{"epoch_ms=", "epoch_ms \"\" is not a number"},
		{"epoch_ms=-1", "epoch_ms \"-1\" is not a number"},
		{"epoch_ms=+1", "epoch_ms \"+1\" is not a number"},
		{"epoch_ms= 1", "epoch_ms \" 1\" is not a number"},
		{"epoch_ms=1=2", "epoch_ms \"1=2\" is not a number"},
		{"epoch_ms=0x10", "epoch_ms \"0x10\" is not a number"},
		{"epoch_ms=9223372036854775808",
		 "epoch_ms \"9223372036854775808\" is not a number"},
		/* would be 5 if it were cut to 32 bits */
		{"worker_bits=4294967301", "worker_bits 4294967301 is out of range, 0 to 31"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		Layout layout = uid_generator;
		gboolean good = layout_parse(cases[i].text, &layout, &error);

		check_error(good, error, ID_ERROR_INVALID, cases[i].message);
		g_assert_true(layout_equal(&layout, &uid_generator));
	}
}

/* The ends are those that the authors document, or computed by hand. */
TEST("/layout/presets", test_presets)
{
	static const struct {
		const char *name;
		guint total_bits;
		gint64 last_ms;
		const char *text;
	} CASES[] = {
		{"twitter", 63, 3487858230208,
		 "epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,"
		 "sequence_bits=12"},
		{"machine-10", 63, 3487858230208,
		 "epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=0,worker_bits=10,"
		 "sequence_bits=12"},
		{"uid-generator", 63, 2011171711999,
		 "epoch_ms=1474300800000,tick_ms=1000,time_bits=29,datacenter_bits=0,"
		 "worker_bits=21,sequence_bits=13"},
		/* 2024-11-20T13:24:15.999Z */
		{"uid-generator-28", 63, 1732109055999,
		 "epoch_ms=1463673600000,tick_ms=1000,time_bits=28,datacenter_bits=0,"
		 "worker_bits=22,sequence_bits=13"},
		{"discord", 63, 3619093655551,
		 "epoch_ms=1420070400000,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,"
		 "sequence_bits=12"},
		{"instagram", 63, 2413731649496,
		 "epoch_ms=1314220021721,tick_ms=1,time_bits=40,datacenter_bits=0,worker_bits=13,"
		 "sequence_bits=10"},
		{"js-safe", 53, 3966248855551,
		 "epoch_ms=1767225600000,tick_ms=1,time_bits=41,datacenter_bits=0,worker_bits=5,"
		 "sequence_bits=7,total_bits=53"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const Layout *layout = LAYOUT_PRESETS[i].layout;
		g_autoptr(GError) error = NULL;
		g_autofree char *text = NULL;
		Layout named, reread;

		g_assert_cmpstr(LAYOUT_PRESETS[i].name, ==, CASES[i].name);
		g_assert_true(layout_parse(CASES[i].name, &named, NULL));
		g_assert_true(layout_equal(layout, &named));
		g_assert_true(layout_check(layout, &error));
		g_assert_no_error(error);
		g_assert_cmpuint(layout_total_bits(layout), ==, CASES[i].total_bits);
		g_assert_cmpint(layout_last_ms(layout), ==, CASES[i].last_ms);
		text = layout_to_string(layout);
		g_assert_cmpstr(text, ==, CASES[i].text);
		g_assert_true(layout_parse(text, &reread, NULL));
		g_assert_true(layout_equal(layout, &reread));
	}
	g_assert_null(LAYOUT_PRESETS[G_N_ELEMENTS(CASES)].name);
}

TEST("/layout/equal", test_equal)
{
	Layout others[] = {LAYOUT_TWITTER, LAYOUT_TWITTER, LAYOUT_TWITTER,
			   LAYOUT_TWITTER, LAYOUT_TWITTER, LAYOUT_TWITTER};

	others[0].epoch_ms++;
	others[1].tick_ms++;
	others[2].time_bits++;
	others[3].datacenter_bits++;
	others[4].worker_bits++;
	others[5].sequence_bits++;
	for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
		g_assert_false(layout_equal(&LAYOUT_TWITTER, &others[i]));
	g_assert_true(layout_equal(&LAYOUT_TWITTER, &LAYOUT_TWITTER));
}

TEST("/layout/encode-refuses", test_encode_refuses)
{
	static const struct {
		const Layout *layout;
		LayoutParts parts;
		const char *message;
	} cases[] = {
		{&LAYOUT_TWITTER,
		 {1288834974656, 0, 0, 0},
		 "time 1288834974656 ms is outside the layout's range, 1288834974657 to "
		 "3487858230208"},
		{&LAYOUT_TWITTER,
		 {3487858230209, 0, 0, 0},
		 "time 3487858230209 ms is outside the layout's range, 1288834974657 to "
		 "3487858230208"},
		{&LAYOUT_TWITTER,
		 {G_MININT64, 0, 0, 0},
		 "time -9223372036854775808 ms is outside the layout's range, 1288834974657 to "
		 "3487858230208"},
		{&LAYOUT_TWITTER,
		 {G_MAXINT64, 0, 0, 0},
		 "time 9223372036854775807 ms is outside the layout's range, 1288834974657 to "
		 "3487858230208"},
		{&uid_generator,
		 {1474300800000 + 536870912000, 0, 0, 0},
		 "time 2011171712000 ms is outside the layout's range, 1474300800000 to "
		 "2011171711999"},
		{&LAYOUT_TWITTER,
		 {1700000000000, 32, 0, 0},
		 "datacenter ID 32 does not fit the layout, which allows 0 to 31"},
		{&LAYOUT_TWITTER,
		 {1700000000000, 0, 32, 0},
		 "worker ID 32 does not fit the layout, which allows 0 to 31"},
		{&LAYOUT_TWITTER,
		 {1700000000000, 0, G_MAXUINT, 0},
		 "worker ID 4294967295 does not fit the layout, which allows 0 to 31"},
		{&LAYOUT_TWITTER,
		 {1700000000000, 0, 0, 4096},
		 "sequence 4096 does not fit the layout, which allows 0 to 4095"},
		{&uid_generator,
		 {1700000000000, 1, 0, 0},
		 "datacenter ID 1 does not fit the layout, which allows 0 to 0"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gint64 id = -7;
		gboolean good = layout_encode(cases[i].layout, &cases[i].parts, &id, &error);

		check_error(good, error, ID_ERROR_OUT_OF_RANGE, cases[i].message);
		g_assert_cmpint(id, ==, -7);
	}
}

TEST("/layout/check-id", test_check_id)
{
	static const Layout least = {0, 1, 1, 0, 0, 0};
	static const struct {
		const Layout *layout;
		gint64 id;
		const char *message; /* NULL if valid */
	} cases[] = {
		{&LAYOUT_TWITTER, 0, NULL},
		{&LAYOUT_TWITTER, G_MAXINT64, NULL},
		{&LAYOUT_TWITTER, -1,
		 "ID -1 does not fit the layout, which allows 0 to 9223372036854775807"},
		{&small, 0, NULL},
		{&small, 9007199254740991, NULL},
		{&small, 9007199254740992,
		 "ID 9007199254740992 does not fit the layout, which allows 0 to 9007199254740991"},
		{&small, G_MAXINT64,
		 "ID 9223372036854775807 does not fit the layout, which allows 0 to "
		 "9007199254740991"},
		{&small, -1, "ID -1 does not fit the layout, which allows 0 to 9007199254740991"},
		{&least, 1, NULL},
		{&least, 2, "ID 2 does not fit the layout, which allows 0 to 1"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gboolean good = layout_check_id(cases[i].layout, cases[i].id, &error);

		check_error(good, error, ID_ERROR_OUT_OF_RANGE, cases[i].message);
	}
}

TEST("/layout/check-worker", test_check_worker)
{
	static const struct {
		gint64 datacenter_id;
		gint64 worker_id;
		const char *message;
	} cases[] = {
		{0, 0, NULL},
		{31, 31, NULL},
		{32, 0, "datacenter ID 32 does not fit the layout, which allows 0 to 31"},
		{-1, 0, "datacenter ID -1 does not fit the layout, which allows 0 to 31"},
		{0, 32, "worker ID 32 does not fit the layout, which allows 0 to 31"},
		{0, -1, "worker ID -1 does not fit the layout, which allows 0 to 31"},
		{0, G_MAXINT64,
		 "worker ID 9223372036854775807 does not fit the layout, which allows 0 to 31"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gboolean good = layout_check_worker(&LAYOUT_TWITTER, cases[i].datacenter_id,
						    cases[i].worker_id, &error);

		check_error(good, error, ID_ERROR_OUT_OF_RANGE, cases[i].message);
	}
}

TEST("/layout/ticks", test_ticks)
{
	static const Layout tens = {1288834974657, 10, 41, 5, 5, 12};
	static const struct {
		const Layout *layout;
		gint64 after_epoch_ms;
		gint64 tick;
	} cases[] = {
		{&LAYOUT_TWITTER, 0, 0},
		{&LAYOUT_TWITTER, 1, 1},
		{&LAYOUT_TWITTER, -1, -1},
		{&tens, 9, 0},
		{&tens, 10, 1},
		{&tens, 25, 2},
		{&tens, -1, -1},
		{&tens, -10, -1},
		{&tens, -11, -2},
		{&uid_generator, 0, 0},
		{&uid_generator, 999, 0},
		{&uid_generator, 1000, 1},
		{&uid_generator, 1999, 1},
		{&uid_generator, -1, -1},
		{&uid_generator, -1000, -1},
		{&uid_generator, -1001, -2},
		{&uid_generator, -474300800000, -474300800},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const Layout *layout = cases[i].layout;
		gint64 time_ms = layout->epoch_ms + cases[i].after_epoch_ms;
		gint64 tick = layout_tick_at(layout, time_ms);

		g_assert_cmpint(tick, ==, cases[i].tick);
		g_assert_cmpint(layout_tick_start_ms(layout, tick), <=, time_ms);
		g_assert_cmpint(layout_tick_start_ms(layout, tick + 1), >, time_ms);
	}
	g_assert_cmpint(layout_max_tick(&LAYOUT_TWITTER), ==, 2199023255551);
}

TEST("/layout/tick-text", test_tick_text)
{
	g_autofree char *first = layout_tick_text(&LAYOUT_TWITTER, 0);
	g_autofree char *later = layout_tick_text(&LAYOUT_TWITTER, 1343);

	g_assert_cmpstr(first, ==, "2010-11-04T01:42:54.657Z");
	g_assert_cmpstr(later, ==, "2010-11-04T01:42:56.000Z");
}

TEST("/layout/range", test_range)
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
		/* times outside the layout's range have no IDs */
		{&LAYOUT_TWITTER, 0, twitter, 0, 4194303},
		{&LAYOUT_TWITTER, G_MININT64, G_MAXINT64, 0, G_MAXINT64},
		{&LAYOUT_TWITTER, last, last + 1, G_MAXINT64 - 4194303, G_MAXINT64},
		{&small, 0, END_OF_YEAR_9999, 0, 9007199254740991},
		/* a tick is never divided */
		{&uid_generator, uid_generator.epoch_ms + 999, uid_generator.epoch_ms + 999, 0,
		 17179869183},
		{&uid_generator, uid_generator.epoch_ms + 999, uid_generator.epoch_ms + 1000, 0,
		 34359738367},
		{&uid_generator, uid_generator.epoch_ms + 1999, uid_generator.epoch_ms + 2000,
		 17179869184, 51539607551},
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

TEST("/layout/range-refuses", test_range_refuses)
{
	static const struct {
		gint64 from_ms, to_ms;
		const char *message;
	} cases[] = {
		{1700000000001, 1700000000000,
		 "the span ends at 1700000000000 ms, before it begins, at 1700000000001 ms"},
		{0, 1288834974656,
		 "time 1288834974656 ms is outside the layout's range, 1288834974657 to "
		 "3487858230208"},
		{3487858230209, 3487858230210,
		 "time 3487858230209 ms is outside the layout's range, 1288834974657 to "
		 "3487858230208"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		gint64 first = -7, last = -8;
		gboolean good = layout_range(&LAYOUT_TWITTER, cases[i].from_ms, cases[i].to_ms,
					     &first, &last, &error);

		check_error(good, error, ID_ERROR_OUT_OF_RANGE, cases[i].message);
		g_assert_cmpint(first, ==, -7);
		g_assert_cmpint(last, ==, -8);
	}
}

/* Returns a number up to @max, with a random number of bits. */
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

/* Returns an ID from any worker at that time. */
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
	/* both ends are in the first and last tick of the span, and the IDs next to them are not */
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

TEST("/layout/range-property", test_range_property)
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
