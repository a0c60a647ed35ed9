/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

#define CLOCK_NS_PER_MS 1000000

/* The source of the time. It is a struct of functions, so that tests can replace it. Any thread can
 * read a clock. */
typedef struct _Clock Clock;
struct _Clock {
	/* Returns the current time, in nanoseconds since the Unix epoch. It can step forwards and
	 * backwards. */
	gint64 (*now_ns)(const Clock *self);
};

static inline gint64 clock_now_ns(const Clock *self)
{
	return self->now_ns(self);
}

static inline gint64 clock_now_ms(const Clock *self)
{
	return clock_now_ns(self) / CLOCK_NS_PER_MS;
}

/* The time of CLOCK_BOOTTIME, which cannot be set. */
gint64 clock_boottime_ns(void);

/* Waits for @cond until @until_us (g_get_monotonic_time()). The caller holds @mutex. Returns: 0,
 * also for a spurious wake-up, or ETIMEDOUT */
int clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, gint64 until_us);

/* The clock of a running server: clock_boottime_ns() plus an offset. Only one thread, the owner,
 * stores the offset. If the system clock jumps, readers notice it only after the owner has stored a
 * new offset. */
typedef struct {
	Clock clock;
	_Atomic gint64 offset_ns; /* written by the owner, read by all threads */
} SystemClock;

/* Sets the clock to the system clock (CLOCK_REALTIME). */
void system_clock_init(SystemClock *self);

/* Returns the current difference between CLOCK_REALTIME and CLOCK_BOOTTIME. Tries several times,
 * and uses the fastest try; the error is less than the time between its two readings. */
gint64 system_clock_measure_offset_ns(void);

static inline gint64 system_clock_offset_ns(const SystemClock *self)
{
	return atomic_load(&self->offset_ns);
}

static inline void system_clock_set_offset_ns(SystemClock *self, gint64 offset_ns)
{
	atomic_store(&self->offset_ns, offset_ns);
}
