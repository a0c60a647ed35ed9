/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>

/*
 * That the keeper has news, for those who wait for a lease: a number that grows with each of them.
 * Who reads it, looks, finds nothing and waits for another number misses none.
 */
typedef struct {
	_Atomic guint64 number;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
} News;

void news_init(News *self);
void news_clear(News *self);

/* Any thread. @user_data: a News */
void news_tell(gpointer user_data);

/* Any thread. */
static inline guint64 news_number(const News *self)
{
	return atomic_load(&self->number);
}

/* Any thread: waits until the number is another than @seen, or until @until_us, monotonic. */
void news_wait(News *self, guint64 seen, gint64 until_us);
