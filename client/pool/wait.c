/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/wait.h"

#include <time.h>

#include "client/snowflake-client.h"

guint64 pool_wait_begin(PoolWait *self)
{
	pthread_mutex_lock(&self->mutex);

	guint64 begun = self->round;

	atomic_fetch_add(&self->waiting, 1);
	pthread_mutex_unlock(&self->mutex);
	return begun;
}

gboolean pool_wait_for(PoolWait *self, guint64 *round, gint64 deadline_us)
{
	const struct timespec deadline = {
		.tv_sec = deadline_us / G_USEC_PER_SEC,
		.tv_nsec = deadline_us % G_USEC_PER_SEC * 1000,
	};
	int code = 0;

	pthread_mutex_lock(&self->mutex);
	while (self->round == *round && code == 0)
		code = pthread_cond_clockwait(&self->changed, &self->mutex, CLOCK_MONOTONIC,
					      &deadline);

	gboolean woken = self->round != *round;

	*round = self->round;
	pthread_mutex_unlock(&self->mutex);
	return woken;
}

void pool_wait_end(PoolWait *self)
{
	atomic_fetch_sub(&self->waiting, 1);
}

void pool_wait_wake(PoolWait *self)
{
	if (atomic_fetch_add(&self->waiting, 0) == 0)
		return;
	pthread_mutex_lock(&self->mutex);
	self->round++;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

guint pool_wait_count(const PoolWait *self)
{
	return atomic_load(&self->waiting);
}

void pool_wait_explain(PoolWait *self, int failure, const char *text)
{
	pthread_mutex_lock(&self->mutex);
	self->failure = failure;
	g_strlcpy(self->failure_text, text != NULL ? text : "", sizeof(self->failure_text));
	pthread_mutex_unlock(&self->mutex);
}

void pool_wait_set_error(PoolWait *self, guint waited_ms, GError **error)
{
	pthread_mutex_lock(&self->mutex);

	gboolean is_known = *self->failure_text != '\0';

	g_set_error(error, SNOWFLAKE_CLIENT_ERROR,
		    is_known ? self->failure : SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
		    "no ID in hand, and none within %u ms: %s", waited_ms,
		    is_known ? self->failure_text : POOL_WAIT_NO_ANSWER);
	pthread_mutex_unlock(&self->mutex);
}
