/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watchdog.h"
#include "tests/unit/unit-test.h"

#define S G_GINT64_CONSTANT(1000000)

TEST("/watchdog/verdicts", test_verdicts)
{
	static const struct {
		/* number of the call that began at second 100; 0 if none is pending */
		guint64 number;
		guint64 reported; /* number of the call that was reported; 0 if none was */
		gint64 reported_s;
		gint64 now_s;
		DiskWatchVerdict verdict;
	} CASES[] = {
		{0, 0, 0, 100, DISK_WATCH_NOTHING},     {7, 0, 0, 102, DISK_WATCH_NOTHING},
		{7, 0, 0, 103, DISK_WATCH_HANGS},       {7, 7, 103, 162, DISK_WATCH_NOTHING},
		{7, 7, 103, 163, DISK_WATCH_HANGS},     {0, 7, 103, 104, DISK_WATCH_RECOVERED},
		{8, 7, 103, 104, DISK_WATCH_RECOVERED},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const DiskCall call = {.number = CASES[i].number, .began_us = 100 * S};
		const DiskWatch watch = {
			.call = {.number = CASES[i].reported},
			.reported_at_us = CASES[i].reported_s * S,
		};
		DiskWatchVerdict verdict = disk_watch_judge(&watch, call.number != 0 ? &call : NULL,
							    CASES[i].now_s * S);

		g_test_message("case %zu", i);
		g_assert_cmpint(verdict, ==, CASES[i].verdict);
	}
}

/* A call that hangs is reported each minute, until it has ended. */
TEST("/watchdog/check", test_check)
{
	gint64 began_us = g_get_monotonic_time();
	DiskWatch watch = {0};
	guint64 number;

	disk_call_begin("sync", "/state", "record");
	disk_watch_check(&watch, began_us);
	g_assert_cmpuint(watch.call.number, ==, 0);
	for (gint64 now_s = 10; now_s <= 130; now_s += 60) {
		disk_watch_check(&watch, began_us + now_s * S);
		g_assert_cmpstr(watch.call.path, ==, "/state/record");
		g_assert_cmpint(watch.reported_at_us, ==, began_us + now_s * S);
	}
	number = watch.call.number;
	disk_watch_check(&watch, began_us + 131 * S);
	g_assert_cmpuint(watch.call.number, ==, number);
	disk_call_end();
	disk_watch_check(&watch, began_us + 132 * S);
	g_assert_cmpuint(watch.call.number, ==, 0);
	g_assert_null(watch.call.path);
}

TEST("/health/alive", test_alive)
{
	static const struct {
		gint64 check_ms; /* 0 for the default, postponed by 60 s */
		gint64 ago_ms;
		gboolean is_alive;
	} CASES[] = {
		{HEALTH_CHECK_MS, 0, TRUE},
		{HEALTH_CHECK_MS, 19000, TRUE},
		{HEALTH_CHECK_MS, 20000, FALSE},
		{1000, 3000, TRUE},
		{1000, 4000, FALSE},
		{100000, 20000, TRUE},
		{0, 0, TRUE},
		{0, 29000, TRUE},
		{0, 79000, TRUE},
		{0, 80000, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Health health;
		g_autofree char *why_not = NULL;

		health_init(&health, NULL);
		if (CASES[i].check_ms == 0)
			health_note(&health, 60000);
		else
			health.check_ms = CASES[i].check_ms;
		health.progress_at_us -= CASES[i].ago_ms * 1000;
		why_not = health_why_not_alive(&health);
		g_test_message("%" G_GINT64_FORMAT ": %s", CASES[i].ago_ms, why_not);
		g_assert_true((why_not == NULL) == CASES[i].is_alive);
		health_note(&health, 0);
		g_assert_null(health_why_not_alive(&health));
	}
}
