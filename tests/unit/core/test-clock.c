/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"

#include "tests/unit/core/scripted-clock.h"
#include "tests/unit/unit-test.h"

#include <time.h>

static gint64 read_ns(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return time.tv_sec * G_GINT64_CONSTANT(1000000000) + time.tv_nsec;
}

TEST("/clock/follows-the-system", test_follows_the_system)
{
	SystemClock clock;

	system_clock_init(&clock);

	/* the system clock may be corrected meanwhile, so allow a millisecond in each direction */
	gint64 before_ns = read_ns(CLOCK_REALTIME) - CLOCK_NS_PER_MS;
	gint64 now_ns = clock_now_ns(&clock.clock);
	gint64 after_ns = read_ns(CLOCK_REALTIME) + CLOCK_NS_PER_MS;

	g_assert_cmpint(now_ns, >=, before_ns);
	g_assert_cmpint(now_ns, <=, after_ns);
}

TEST("/clock/never-steps-by-itself", test_never_steps_by_itself)
{
	SystemClock clock;
	gint64 last_ns;

	system_clock_init(&clock);
	last_ns = clock_now_ns(&clock.clock);
	for (int i = 0; i < 100000; i++) {
		gint64 now_ns = clock_now_ns(&clock.clock);

		g_assert_cmpint(now_ns, >=, last_ns);
		last_ns = now_ns;
	}
}

TEST("/clock/offset", test_offset)
{
	SystemClock clock;

	system_clock_init(&clock);
	system_clock_set_offset_ns(&clock, -5);
	g_assert_cmpint(system_clock_offset_ns(&clock), ==, -5);

	gint64 before_ns = read_ns(CLOCK_BOOTTIME);
	gint64 now_ns = clock_now_ns(&clock.clock);
	gint64 after_ns = read_ns(CLOCK_BOOTTIME);

	g_assert_cmpint(now_ns, >=, before_ns - 5);
	g_assert_cmpint(now_ns, <=, after_ns - 5);
}

TEST("/clock/measures-the-offset", test_measures_the_offset)
{
	gint64 boot_before_ns = read_ns(CLOCK_BOOTTIME);
	gint64 real_ns = read_ns(CLOCK_REALTIME);
	gint64 boot_after_ns = read_ns(CLOCK_BOOTTIME);
	gint64 offset_ns = system_clock_measure_offset_ns();

	g_assert_cmpint(offset_ns, >=, real_ns - boot_after_ns - CLOCK_NS_PER_MS);
	g_assert_cmpint(offset_ns, <=, real_ns - boot_before_ns + CLOCK_NS_PER_MS);
}

TEST("/clock/milliseconds", test_milliseconds)
{
	ScriptedClock clock;

	scripted_clock_init(&clock, 0);
	clock.now_ns = 1700000000123999999;
	g_assert_cmpint(clock_now_ns(&clock.clock), ==, 1700000000123999999);
	g_assert_cmpint(clock_now_ms(&clock.clock), ==, 1700000000123);
}
