/* SPDX-License-Identifier: Apache-2.0 */
#include "node/news.h"

void news_init(News *self)
{
	pthread_condattr_t monotonic;

	atomic_init(&self->number, 0);
	pthread_mutex_init(&self->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&self->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void news_clear(News *self)
{
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
}

void news_tell(gpointer user_data)
{
	News *self = user_data;

	pthread_mutex_lock(&self->mutex);
	atomic_fetch_add(&self->number, 1);
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

void news_wait(News *self, guint64 seen, gint64 until_us)
{
	const struct timespec until = {
		.tv_sec = until_us / G_USEC_PER_SEC,
		.tv_nsec = until_us % G_USEC_PER_SEC * 1000,
	};

	pthread_mutex_lock(&self->mutex);
	while (atomic_load(&self->number) == seen && g_get_monotonic_time() < until_us)
		pthread_cond_timedwait(&self->changed, &self->mutex, &until);
	pthread_mutex_unlock(&self->mutex);
}
