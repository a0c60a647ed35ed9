/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define MAX_THREADS 256

/* GLib ends the program where it gets no descriptor for a main context. So a thread is made only
 * where it has enough: for one, and for sockets to several addresses of a name at once. */
#define FDS_OF_THREAD 8
/* of the process, and of what looks names up */
#define FDS_OF_ALL    16

typedef struct {
	const GPtrArray *items;
	void (*work)(gpointer item, gpointer data);
	gpointer data;
	atomic_uint next;
} Parallel;

void ctl_parallel_raise_limit(void)
{
	struct rlimit limit;

	/* if it fails, fewer servers are asked at a time */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Half is for what stays open, and half for what is under way. */
guint ctl_parallel_room(void)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit); /* fails for wrong arguments only */
	return (guint)MIN(limit.rlim_cur / 2, G_MAXUINT);
}

/* Beside the one that is there. */
static guint max_threads(void)
{
	guint room = ctl_parallel_room();

	if (room < FDS_OF_ALL + FDS_OF_THREAD)
		return 0;
	return MIN((room - FDS_OF_ALL) / FDS_OF_THREAD - 1, MAX_THREADS);
}

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
	guint wanted = MIN(items->len, max_threads());
	guint count = 0;

	while (count < wanted && pthread_create(&threads[count], NULL, do_some, &self) == 0)
		count++;
	do_some(&self);
	for (guint i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}
