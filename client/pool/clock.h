/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <time.h>

#define POOL_NEVER_US G_MAXINT64

/* The clock of the thread that fetches, which nobody can set. It goes on while the machine sleeps,
 * so that IDs age then too. */
static inline gint64 pool_clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * G_TIME_SPAN_SECOND + now.tv_nsec / 1000;
}
