/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/own-descriptors.h"

#include <glib.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for what follows */
static GArray *descriptors;                               /* of int; as long as the process */

void own_descriptors_begin(void)
{
	pthread_mutex_lock(&mutex);
}

void own_descriptors_end(void)
{
	pthread_mutex_unlock(&mutex);
}

void own_descriptors_add(int fd)
{
	if (descriptors == NULL)
		descriptors = g_array_new(FALSE, FALSE, sizeof fd);
	g_array_append_val(descriptors, fd);
}

static void forget(int fd)
{
	for (guint i = 0; descriptors != NULL && i < descriptors->len; i++)
		if (g_array_index(descriptors, int, i) == fd) {
			g_array_remove_index_fast(descriptors, i);
			return;
		}
}

void own_descriptors_close(int fd)
{
	own_descriptors_begin();
	forget(fd);
	close(fd);
	own_descriptors_end();
}

void own_descriptors_hold(void)
{
	own_descriptors_begin();
}

void own_descriptors_go_on(void)
{
	own_descriptors_end();
}

/* The mutex is held, by the thread that called fork(). */
void own_descriptors_close_all(void)
{
	for (guint i = 0; descriptors != NULL && i < descriptors->len; i++)
		close(g_array_index(descriptors, int, i));
	if (descriptors != NULL)
		g_array_set_size(descriptors, 0);
	own_descriptors_end();
}
