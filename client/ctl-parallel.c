/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_THREADS 256

typedef struct {
	const GPtrArray *items;
	void (*work)(gpointer item, gpointer data);
	gpointer data;
	atomic_uint next;
} Parallel;

static void *do_some(void *data)
{
	Parallel *self = data;

	for (;;) {
		guint i = atomic_fetch_add(&self->next, 1);

		if (i >= self->items->len)
			return NULL;
		self->work(self->items->pdata[i], self->data);
	}
}

void ctl_parallel_do(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
		     gpointer data)
{
	Parallel self = {.items = items, .work = work, .data = data};
	pthread_t threads[MAX_THREADS];
	guint count = 0;

	while (count < MIN(items->len, MAX_THREADS) &&
	       pthread_create(&threads[count], NULL, do_some, &self) == 0)
		count++;
	/* if there is not even one thread to have */
	do_some(&self);
	for (guint i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}
