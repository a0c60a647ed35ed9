/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"

#include <time.h>

#define NS_PER_SECOND G_GINT64_CONSTANT(1000000000)
#define MEASUREMENTS  5

static gint64 read_ns(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

gint64 clock_boottime_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

int clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, gint64 until_us)
{
	const struct timespec until = {
		.tv_sec = until_us / G_USEC_PER_SEC,
		.tv_nsec = until_us % G_USEC_PER_SEC * 1000,
	};

	return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
}

static gint64 system_clock_now_ns(const Clock *clock)
{
	const SystemClock *self = (const SystemClock *)clock;

	return read_ns(CLOCK_BOOTTIME) + system_clock_offset_ns(self);
}

void system_clock_init(SystemClock *self)
{
	self->clock.now_ns = system_clock_now_ns;
	atomic_init(&self->offset_ns, system_clock_measure_offset_ns());
}

gint64 system_clock_measure_offset_ns(void)
{
	gint64 shortest_ns = G_MAXINT64;
	gint64 offset_ns = 0;

	/* a try that is interrupted between its readings takes longer, so it is not used */
	for (int i = 0; i < MEASUREMENTS; i++) {
		gint64 before_ns = read_ns(CLOCK_BOOTTIME);
		gint64 real_ns = read_ns(CLOCK_REALTIME);
		gint64 length_ns = read_ns(CLOCK_BOOTTIME) - before_ns;

		if (length_ns < shortest_ns) {
			shortest_ns = length_ns;
			offset_ns = real_ns - (before_ns + length_ns / 2);
		}
	}
	return offset_ns;
}
