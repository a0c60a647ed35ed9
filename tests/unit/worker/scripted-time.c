/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/scripted-time.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* The linker's names for the replaced functions and for the real ones. */
gint64 __wrap_g_get_monotonic_time(void);
int __wrap_clock_gettime(clockid_t id, struct timespec *out_time);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, gint64 until_us);
gint64 __real_g_get_monotonic_time(void);
int __real_clock_gettime(clockid_t id, struct timespec *out_time);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, gint64 until_us);

#define NS_PER_US     1000
#define NS_PER_SECOND G_GINT64_CONSTANT(1000000000)

static _Atomic gboolean scripted;
static _Atomic gint64 passed_us; /* since scripted_time_begin() */
static struct timespec begun_at[CLOCK_BOOTTIME + 1];
static pthread_t driver;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static gboolean asleep; /* the worker sleeps, on sleeper, until wakes_at_us */
static struct {
	pthread_cond_t *cond;
	pthread_mutex_t *mutex;
} sleeper;
static gint64 wakes_at_us;
static pthread_cond_t *awaited; /* the driver waits for this; NULL if it was signalled */

static gint64 to_us(const struct timespec *time)
{
	return time->tv_sec * G_TIME_SPAN_SECOND + time->tv_nsec / NS_PER_US;
}

gint64 __wrap_g_get_monotonic_time(void)
{
	if (!atomic_load(&scripted))
		return __real_g_get_monotonic_time();
	return to_us(&begun_at[CLOCK_MONOTONIC]) + atomic_load(&passed_us);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *out_time)
{
	gint64 ns;

	if (!atomic_load(&scripted))
		return __real_clock_gettime(id, out_time);
	ns = begun_at[id].tv_nsec + atomic_load(&passed_us) * NS_PER_US;
	*out_time = (struct timespec){begun_at[id].tv_sec + ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

/* The caller must hold the mutex of the condition, as for the real function. */
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	pthread_mutex_lock(&mutex);
	if (asleep && cond == sleeper.cond)
		asleep = FALSE;
	if (cond == awaited) {
		awaited = NULL;
		__real_pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return __real_pthread_cond_signal(cond);
}

static gboolean is_asleep(void)
{
	gboolean is;

	pthread_mutex_lock(&mutex);
	is = asleep;
	pthread_mutex_unlock(&mutex);
	return is;
}

/* Sleeps in the worker. */
static int sleep_until(pthread_cond_t *cond, pthread_mutex_t *held, gint64 until_us)
{
	if (__wrap_g_get_monotonic_time() >= until_us) {
		/* a loop that checks too early would otherwise never end */
		atomic_fetch_add(&passed_us, 1);
		return ETIMEDOUT;
	}
	pthread_mutex_lock(&mutex);
	sleeper.cond = cond;
	sleeper.mutex = held;
	wakes_at_us = until_us;
	asleep = TRUE;
	__real_pthread_cond_signal(&changed);
	pthread_mutex_unlock(&mutex);
	while (is_asleep())
		__real_pthread_cond_wait(cond, held);
	return __wrap_g_get_monotonic_time() >= until_us ? ETIMEDOUT : 0;
}

static void wake(void)
{
	pthread_mutex_t *held = sleeper.mutex;

	pthread_mutex_lock(held);
	__wrap_pthread_cond_signal(sleeper.cond);
	pthread_mutex_unlock(held);
}

/* While the worker sleeps, advances the time to its wake-up, or to @until_us. */
static void move_on(gint64 until_us)
{
	gint64 next_us = MIN(wakes_at_us, until_us);

	atomic_fetch_add(&passed_us, MAX(next_us - __wrap_g_get_monotonic_time(), 0));
	if (wakes_at_us <= next_us)
		wake();
}

/* Waits in the driver. It returns early if the worker may have something to do. */
static int drive_until(pthread_cond_t *cond, pthread_mutex_t *held, gint64 until_us)
{
	gboolean signalled;

	pthread_mutex_lock(&mutex);
	awaited = cond;
	pthread_mutex_unlock(held);
	while (!asleep && awaited != NULL)
		__real_pthread_cond_wait(&changed, &mutex);
	signalled = awaited == NULL;
	awaited = NULL;
	pthread_mutex_unlock(&mutex);
	if (!signalled)
		move_on(until_us);
	pthread_mutex_lock(held);
	return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *held)
{
	if (!atomic_load(&scripted))
		return __real_pthread_cond_wait(cond, held);
	return sleep_until(cond, held, G_MAXINT64);
}

int __wrap_clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *held, gint64 until_us)
{
	if (!atomic_load(&scripted))
		return __real_clock_wait_until(cond, held, until_us);
	if (pthread_equal(pthread_self(), driver))
		return drive_until(cond, held, until_us);
	return sleep_until(cond, held, until_us);
}

void scripted_time_begin(void)
{
	static const clockid_t CLOCKS[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME};

	for (guint i = 0; i < G_N_ELEMENTS(CLOCKS); i++)
		__real_clock_gettime(CLOCKS[i], &begun_at[CLOCKS[i]]);
	asleep = FALSE;
	driver = pthread_self();
	atomic_store(&passed_us, 0);
	atomic_store(&scripted, TRUE);
}

void scripted_time_end(void)
{
	atomic_store(&scripted, FALSE);
}

void scripted_time_settle(void)
{
	pthread_mutex_lock(&mutex);
	while (!asleep)
		__real_pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

void scripted_time_pass(gint64 us)
{
	gint64 until_us = __wrap_g_get_monotonic_time() + us;

	scripted_time_settle();
	while (__wrap_g_get_monotonic_time() < until_us) {
		move_on(until_us);
		scripted_time_settle();
	}
}
