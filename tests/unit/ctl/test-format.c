/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/format.h"
#include "tests/unit/unit-test.h"

#define NOW_MS G_GINT64_CONSTANT(1795356568660) /* 2026-11-22T14:09:28.660Z */
#define MINUTE (60 * G_GINT64_CONSTANT(1000))
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

TEST("/ctl-format/until", test_until)
{
	static const struct {
		gint64 until_ms;
		const char *text;
	} cases[] = {
		{0, "-"},
		{-1, "-"},
		{G_MININT64, "-"},
		{G_MAXINT64, "-"},
		{CTL_FORMAT_MAX_TIME_MS + 1, "-"},
		{NOW_MS, "for 0 s"},
		{NOW_MS + 8999, "for 8 s"},
		{NOW_MS - 1, "ended 0 s ago"},
		{NOW_MS - DAY, "ended 24 h ago"},
		{1, "ended 20779 d ago"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *text = ctl_format_until(cases[i].until_ms, NOW_MS);

		g_assert_cmpstr(text, ==, cases[i].text);
	}
}

TEST("/ctl-format/span", test_span)
{
	static const struct {
		gint64 span_ms;
		const char *text;
	} cases[] = {
		{0, "0 s"},
		{999, "0 s"},
		{2 * MINUTE - 1, "119 s"},
		{2 * MINUTE, "2 min"},
		{2 * HOUR - 1, "119 min"},
		{2 * HOUR, "2 h"},
		{2 * DAY - 1, "47 h"},
		{2 * DAY, "2 d"},
		{1000 * DAY, "1000 d"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *text = ctl_format_span(cases[i].span_ms);

		g_assert_cmpstr(text, ==, cases[i].text);
	}
}

TEST("/ctl-format/path", test_path)
{
	g_autofree char *plain = g_strnfill(512, 'a');
	g_autofree char *longer = g_strconcat(plain, "b", NULL);
	g_autofree char *cut = g_strconcat(plain, "...", NULL);
	const struct {
		const char *path;
		const char *text;
	} cases[] = {
		{"/snowflake/datacenters/1", "/snowflake/datacenters/1"},
		{"/a\033[2J\n", "/a\\x1b[2J\\x0a"},
		{"/\u202e\u2028", "/\\xe2\\x80\\xae\\xe2\\x80\\xa8"},
		{"/\\", "/\\x5c"},
		{plain, plain},
		{longer, cut},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *text = ctl_format_path(cases[i].path);

		g_assert_cmpstr(text, ==, cases[i].text);
	}
}

TEST("/ctl-format/json-is-ascii", test_json_is_ascii)
{
	static const struct {
		const char *text;
		const char *json;
	} cases[] = {
		{"a", "{\"a\":\"a\"}"},
		{"\033\n\177", "{\"a\":\"\\u001b\\n\\u007f\"}"},
		{"\u202e\u2028", "{\"a\":\"\\u202e\\u2028\"}"},
		{"\U0001f600", "{\"a\":\"\\ud83d\\ude00\"}"},
		/* bytes that begin no valid character, also at the end */
		{"a\377b\375", "{\"a\":\"a\\ufffdb\\ufffd\"}"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		JsonObject *object = json_object_new();

		ctl_format_json_text(object, "a", cases[i].text);

		g_autofree char *json = ctl_format_json(object);

		g_assert_cmpstr(json, ==, cases[i].json);
	}
}

#define NOON_MS G_GINT64_CONSTANT(1769860800000) /* 2026-01-31T12:00:00Z */

TEST("/ctl-format/parse-time", test_parse_time)
{
	static const struct {
		const char *text;
		gint64 time_ms; /* -1 if refused */
	} CASES[] = {
		{"2026-01-31T12:00:00Z", NOON_MS},
		{"2026-01-31t12:00:00z", NOON_MS},
		{"2026-01-31 12:00:00Z", NOON_MS},
		{"2026-01-31T12:00:00.5Z", NOON_MS + 500},
		{"2026-01-31T12:00:00.123456+00:00", NOON_MS + 123},
		{"2026-01-31T12:00:00.999999999-00:00", NOON_MS + 999},
		{"2026-01-31T12:00:00+23:59", NOON_MS - 24 * HOUR + 60000},
		{"2026-01-31T12:00:00-05:30", NOON_MS + 5 * HOUR + HOUR / 2},
		{"2026-01-31T12:00:00+24:00", -1},
		{"2026-01-31T12:00:00.\u0663Z", -1}, /* a digit, but not ASCII */
		{"2026-01-31T12:00:00-24:00", -1},
		{"2026-01-31T12:00:00+01:60", -1},
		{"2026-01-31T12:00:60Z", -1},
		{"2026-01-31T24:00:00Z", -1},
		{"2026-02-30T12:00:00Z", -1},
		{"2026-01-31T12:00:00", -1},
		{"2026-01-31T12:00:00.Z", -1},
		{"2026-01-31T12:00:00Z\n", -1},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		gint64 time_ms = -1;

		g_test_message("%s", CASES[i].text);
		g_assert_cmpint(ctl_format_parse_time(CASES[i].text, &time_ms), ==,
				CASES[i].time_ms >= 0);
		g_assert_cmpint(time_ms, ==, CASES[i].time_ms);
	}
}
