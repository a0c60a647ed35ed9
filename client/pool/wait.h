/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

/*
 * Threads that have found nothing in hand wait here for the one that fetches. Memory of zeros is
 * one where nobody waits.
 *
 * No wake-up is lost. Who waits counts itself, and then looks once more; who has put something
 * looks at the count. Both change the count, so one of them is first: either the count is seen, or
 * what was put.
 */
#define POOL_WAIT_TEXT_BYTES 512
#define POOL_WAIT_NO_ANSWER  "no server has answered yet" /* where nothing else is known */

typedef struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	_Atomic guint waiting;
	/* under the mutex */
	guint64 round; /* counts wake-ups */
	int failure;   /* SnowflakeClientError, if there is a text: why nothing comes */
	char failure_text[POOL_WAIT_TEXT_BYTES];
} PoolWait;

/* Returns: what pool_wait_for() is to be told. From here on what is put wakes the thread. */
guint64 pool_wait_begin(PoolWait *self);

/* Until there is a wake-up after *@round, which is then told anew. Returns: %FALSE at @deadline_us,
 * of g_get_monotonic_time() */
gboolean pool_wait_for(PoolWait *self, guint64 *round, gint64 deadline_us);

void pool_wait_end(PoolWait *self);

/* By the thread that fetches, when it has put something. */
void pool_wait_wake(PoolWait *self);

/* How many threads wait. */
guint pool_wait_count(const PoolWait *self);

/* By the thread that fetches: why nothing comes. @text: NULL: something does. */
void pool_wait_explain(PoolWait *self, int failure, const char *text);

/* Sets the error that was said last, or TIMEOUT, of a thread that has waited for @waited_ms. */
void pool_wait_set_error(PoolWait *self, guint waited_ms, GError **error);
