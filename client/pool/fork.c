/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/fork.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* under the lock */
static int **descriptors;
static guint n_descriptors;
static guint n_places;

void pool_fork_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void pool_fork_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

static void close_in_child(void)
{
	for (guint i = 0; i < n_descriptors; i++) {
		close(*descriptors[i]);
		*descriptors[i] = -1;
	}
	n_descriptors = 0;
	pool_fork_unlock();
}

static void hear_of_forks(void)
{
	pthread_atfork(pool_fork_lock, pool_fork_unlock, close_in_child);
}

void pool_fork_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, hear_of_forks);
}

void pool_fork_add(int *fd)
{
	if (n_descriptors == n_places) {
		n_places = MAX(2 * n_places, 16);
		descriptors = g_renew(int *, descriptors, n_places);
	}
	descriptors[n_descriptors++] = fd;
}

void pool_fork_close(int *fd)
{
	for (guint i = 0; i < n_descriptors; i++) {
		if (descriptors[i] == fd) {
			descriptors[i] = descriptors[--n_descriptors];
			close(*fd);
		}
	}
	*fd = -1;
}
