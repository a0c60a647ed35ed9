/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/time-text.h"
#include "tests/unit/unit-test.h"

#define NOON_MS G_GINT64_CONSTANT(1769860800000) /* 2026-01-31T12:00:00Z */
#define HOUR_MS G_GINT64_CONSTANT(3600000)

TEST("/ctl-time-text/parse", test_parse)
{
	static const struct {
		const char *text;
		gint64 time_ms; /* -1: refused */
	} CASES[] = {
		{"2026-01-31T12:00:00Z", NOON_MS},
		{"2026-01-31t12:00:00z", NOON_MS},
		{"2026-01-31 12:00:00Z", NOON_MS},
		{"2026-01-31T12:00:00.5Z", NOON_MS + 500},
		{"2026-01-31T12:00:00.123456+00:00", NOON_MS + 123},
		{"2026-01-31T12:00:00.999999999-00:00", NOON_MS + 999},
		{"2026-01-31T12:00:00+23:59", NOON_MS - 24 * HOUR_MS + 60000},
		{"2026-01-31T12:00:00-05:30", NOON_MS + 5 * HOUR_MS + HOUR_MS / 2},
		{"2026-01-31T12:00:00+24:00", -1},
		{"2026-01-31T12:00:00.\u0663Z", -1}, /* a digit, but not of ASCII */
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
		g_assert_cmpint(ctl_time_text_parse(CASES[i].text, &time_ms), ==,
				CASES[i].time_ms >= 0);
		g_assert_cmpint(time_ms, ==, CASES[i].time_ms);
	}
}

/* In Dublin summer time is the standard, and daylight saving time, in winter, is an hour behind. */
TEST("/ctl-time-text/local", test_local)
{
	static const struct {
		gint64 time_ms;
		const char *text;
	} CASES[] = {
		{G_GINT64_CONSTANT(1700000000000), "2023-11-14T22:13:20+00:00"},
		{G_GINT64_CONSTANT(1690000000000), "2023-07-22T05:26:40+01:00"},
	};

	g_setenv("TZ", "IST-1GMT0,M10.5.0,M3.5.0/1", TRUE);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GDateTime) local = ctl_time_text_local(CASES[i].time_ms);
		g_autofree char *text = g_date_time_format(local, "%Y-%m-%dT%H:%M:%S%:z");

		g_assert_cmpstr(text, ==, CASES[i].text);
	}
}
