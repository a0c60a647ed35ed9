/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <time.h>

/* The pace of takers: a clock, and a sleep until a time. */

#define PACE_NS_PER_S G_GINT64_CONSTANT(1000000000)

static inline gint64 pace_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * PACE_NS_PER_S + now.tv_nsec;
}

static inline void pace_sleep_until(gint64 until_ns)
{
	const struct timespec until = {until_ns / PACE_NS_PER_S, until_ns % PACE_NS_PER_S};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
