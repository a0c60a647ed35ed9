/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/own-descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits the tries in a program that forks more often than its disk opens a file. */
#define MAX_TRIES 3

typedef struct {
	int fd;
	gboolean is_closing; /* may be closed already, and its number in use for another file */
	dev_t device;        /* if it is closing: its file */
	ino_t inode;         /* if it is closing: its file; 0: unknown */
} Descriptor;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static GArray *descriptors;                               /* of Descriptor; never freed */
static guint64 n_forks; /* forks that began since own_descriptors_hold() is their handler */

static void add(int fd)
{
	const Descriptor descriptor = {.fd = fd};

	if (descriptors == NULL)
		descriptors = g_array_new(FALSE, FALSE, sizeof descriptor);
	g_array_append_val(descriptors, descriptor);
}

/* Returns: the index of the newest descriptor with this number, or -1 */
static gint find(int fd, gboolean is_closing)
{
	for (guint i = descriptors != NULL ? descriptors->len : 0; i > 0; i--) {
		const Descriptor *descriptor = &g_array_index(descriptors, Descriptor, i - 1);

		if (descriptor->fd == fd && descriptor->is_closing == is_closing)
			return (gint)i - 1;
	}
	return -1;
}

static guint64 count_forks(void)
{
	guint64 n;

	pthread_mutex_lock(&mutex);
	n = n_forks;
	pthread_mutex_unlock(&mutex);
	return n;
}

/* Returns: %FALSE if a fork() took place since there were @n_forks_before forks */
static gboolean add_unless_forked(int fd, guint64 n_forks_before)
{
	gboolean is_own;

	pthread_mutex_lock(&mutex);
	is_own = n_forks == n_forks_before;
	if (is_own)
		add(fd);
	pthread_mutex_unlock(&mutex);
	return is_own;
}

static int open_without_forks(int directory_fd, const char *path, int flags, mode_t mode)
{
	int fd;

	pthread_mutex_lock(&mutex);
	fd = openat(directory_fd, path, flags, mode);
	if (fd >= 0)
		add(fd);
	pthread_mutex_unlock(&mutex);
	return fd;
}

int own_descriptors_open(int directory_fd, const char *path, int flags, mode_t mode)
{
	for (guint i = 0; i < MAX_TRIES; i++) {
		guint64 n_forks_before = count_forks();
		int fd = openat(directory_fd, path, flags, mode);

		if (fd < 0 || add_unless_forked(fd, n_forks_before))
			return fd;
		close(fd);
		if ((flags & O_EXCL) != 0)
			unlinkat(directory_fd, path, 0);
	}
	return open_without_forks(directory_fd, path, flags, mode);
}

void own_descriptors_begin_close(int fd)
{
	struct stat info;
	gboolean is_known = fstat(fd, &info) == 0;
	gint i;

	pthread_mutex_lock(&mutex);
	i = find(fd, FALSE);
	if (i >= 0)
		g_array_index(descriptors, Descriptor, i) = (Descriptor){
			.fd = fd,
			.is_closing = TRUE,
			.device = is_known ? info.st_dev : 0,
			.inode = is_known ? info.st_ino : 0,
		};
	pthread_mutex_unlock(&mutex);
}

void own_descriptors_end_close(int fd)
{
	gint i;

	pthread_mutex_lock(&mutex);
	i = find(fd, TRUE);
	if (i >= 0)
		g_array_remove_index_fast(descriptors, (guint)i);
	pthread_mutex_unlock(&mutex);
}

void own_descriptors_close(int fd)
{
	int code = errno;

	own_descriptors_begin_close(fd);
	close(fd);
	own_descriptors_end_close(fd);
	errno = code;
}

void own_descriptors_hold(void)
{
	pthread_mutex_lock(&mutex);
	n_forks++;
}

void own_descriptors_go_on(void)
{
	pthread_mutex_unlock(&mutex);
}

/* Returns %FALSE if the descriptor was closed, and its number may be that of another file. */
static gboolean is_still_own(const Descriptor *descriptor)
{
	struct stat info;

	if (!descriptor->is_closing)
		return TRUE;
	return fstat(descriptor->fd, &info) == 0 && info.st_dev == descriptor->device &&
	       info.st_ino == descriptor->inode;
}

/* The mutex is held, by the thread that called fork(). */
void own_descriptors_close_all(void)
{
	for (guint i = 0; descriptors != NULL && i < descriptors->len; i++) {
		const Descriptor *descriptor = &g_array_index(descriptors, Descriptor, i);

		if (is_still_own(descriptor))
			close(descriptor->fd);
	}
	if (descriptors != NULL)
		g_array_set_size(descriptors, 0);
	own_descriptors_go_on();
}
