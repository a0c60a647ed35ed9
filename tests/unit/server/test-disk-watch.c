/* SPDX-License-Identifier: Apache-2.0 */
#include "server/disk-watch.h"
#include "tests/unit/unit-test.h"

#define S G_GINT64_CONSTANT(1000000)

TEST("/disk-watch/verdicts", test_verdicts)
{
	static const struct {
		guint64 number;   /* of the call that is under way, since second 100; 0: none is */
		guint64 reported; /* number of the call that was reported; 0: none was */
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
			.reported_us = CASES[i].reported_s * S,
		};
		DiskWatchVerdict verdict = disk_watch_judge(&watch, call.number != 0 ? &call : NULL,
							    CASES[i].now_s * S);

		g_test_message("case %zu", i);
		g_assert_cmpint(verdict, ==, CASES[i].verdict);
	}
}
