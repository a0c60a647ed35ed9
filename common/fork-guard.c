/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fork-guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits the number of tries, in case the program forks faster than its disk opens a file. */
#define MAX_TRIES 3

/* Work: the number of threads that work, and of threads that wait to fork */

static pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER; /* mutex of the variables below */
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;
static guint n_working;
static guint n_forking;

static _Thread_local gboolean is_worker;

void fork_guard_pause(void)
{
	int code = errno;

	if (!is_worker)
		return;
	pthread_mutex_lock(&work_mutex);
	n_working--;
	if (n_working == 0)
		pthread_cond_broadcast(&work_changed);
	pthread_mutex_unlock(&work_mutex);
	errno = code;
}

void fork_guard_resume(void)
{
	int code = errno;

	if (!is_worker)
		return;
	pthread_mutex_lock(&work_mutex);
	while (n_forking > 0)
		pthread_cond_wait(&work_changed, &work_mutex);
	n_working++;
	pthread_mutex_unlock(&work_mutex);
	errno = code;
}

void fork_guard_enter(void)
{
	is_worker = TRUE;
	fork_guard_resume();
}

void fork_guard_leave(void)
{
	fork_guard_pause();
	is_worker = FALSE;
}

/* Descriptors */

typedef struct {
	int fd;
	int *holder;         /* (nullable): variable that is set to -1 in a child */
	gboolean is_closing; /* being closed: its number may already belong to another file */
	dev_t device;        /* if it is being closed: device of its file */
	ino_t inode;         /* if it is being closed: inode of its file; 0 if unknown */
} Descriptor;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* mutex of the variables below */
static GArray *descriptors; /* (element-type Descriptor): never freed */
static guint64 n_forks;     /* number of forks that have begun */

void fork_guard_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void fork_guard_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

static void note_descriptor(int fd, int *holder)
{
	const Descriptor descriptor = {.fd = fd, .holder = holder};

	if (descriptors == NULL)
		descriptors = g_array_new(FALSE, FALSE, sizeof descriptor);
	g_array_append_val(descriptors, descriptor);
}

/* Returns: the index of the newest matching descriptor, or -1 */
static gint find_descriptor(int fd, const int *holder, gboolean is_closing)
{
	for (guint i = descriptors != NULL ? descriptors->len : 0; i > 0; i--) {
		const Descriptor *descriptor = &g_array_index(descriptors, Descriptor, i - 1);

		if (descriptor->fd == fd && descriptor->holder == holder &&
		    descriptor->is_closing == is_closing)
			return (gint)i - 1;
	}
	return -1;
}

void fork_guard_note(int *fd)
{
	note_descriptor(*fd, fd);
}

void fork_guard_close_noted(int *fd)
{
	gint i = find_descriptor(*fd, fd, FALSE);

	if (i >= 0) {
		g_array_remove_index_fast(descriptors, (guint)i);
		close(*fd);
	}
	*fd = -1;
}

int fork_guard_open(int directory_fd, const char *path, int flags, mode_t mode)
{
	for (guint i = 0;; i++) {
		gboolean is_last = i == MAX_TRIES; /* on the last try, fork() waits */
		guint64 n_forks_before;
		gboolean is_noted;
		int fd;

		fork_guard_lock();
		n_forks_before = n_forks;
		if (!is_last)
			fork_guard_unlock();
		fd = openat(directory_fd, path, flags, mode);
		if (!is_last)
			fork_guard_lock();
		is_noted = fd >= 0 && n_forks == n_forks_before;
		if (is_noted)
			note_descriptor(fd, NULL);
		fork_guard_unlock();
		if (fd < 0 || is_noted)
			return fd;
		close(fd);
		if ((flags & O_EXCL) != 0)
			unlinkat(directory_fd, path, 0);
	}
}

void fork_guard_begin_close(int fd)
{
	struct stat info;
	gboolean is_known = fstat(fd, &info) == 0;
	gint i;

	fork_guard_lock();
	i = find_descriptor(fd, NULL, FALSE);
	if (i >= 0)
		g_array_index(descriptors, Descriptor, i) = (Descriptor){
			.fd = fd,
			.is_closing = TRUE,
			.device = is_known ? info.st_dev : 0,
			.inode = is_known ? info.st_ino : 0,
		};
	fork_guard_unlock();
}

void fork_guard_end_close(int fd)
{
	gint i;

	fork_guard_lock();
	i = find_descriptor(fd, NULL, TRUE);
	if (i >= 0)
		g_array_remove_index_fast(descriptors, (guint)i);
	fork_guard_unlock();
}

void fork_guard_close(int fd)
{
	int code = errno;

	fork_guard_begin_close(fd);
	close(fd);
	fork_guard_end_close(fd);
	errno = code;
}

/* Handlers of fork() */

static const ForkGuardLocks *more_locks; /* (nullable) */

/* Locks both mutexes. One of the next two functions unlocks them. */
void fork_guard_hold(void)
{
	pthread_mutex_lock(&work_mutex);
	n_forking++;
	while (n_working > 0)
		pthread_cond_wait(&work_changed, &work_mutex);
	fork_guard_lock();
	n_forks++;
	if (more_locks != NULL)
		more_locks->hold();
}

void fork_guard_release(void)
{
	if (more_locks != NULL)
		more_locks->release();
	fork_guard_unlock();
	n_forking--;
	pthread_cond_broadcast(&work_changed);
	pthread_mutex_unlock(&work_mutex);
}

/* The threads that are waiting to work or to fork exist only in the parent. */
void fork_guard_release_in_child(void)
{
	if (more_locks != NULL)
		more_locks->release_in_child();
	for (guint i = 0; descriptors != NULL && i < descriptors->len; i++) {
		const Descriptor *descriptor = &g_array_index(descriptors, Descriptor, i);
		struct stat info;

		/* a descriptor that is being closed may already belong to another file */
		if (!descriptor->is_closing ||
		    (fstat(descriptor->fd, &info) == 0 && info.st_dev == descriptor->device &&
		     info.st_ino == descriptor->inode))
			close(descriptor->fd);
		if (descriptor->holder != NULL)
			*descriptor->holder = -1;
	}
	if (descriptors != NULL)
		g_array_set_size(descriptors, 0);
	fork_guard_unlock();
	work_changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	n_forking = 0;
	pthread_mutex_unlock(&work_mutex);
}

static void install_handlers(void)
{
	/* if it fails for lack of memory, there are no handlers, but IDs stay unique: see the
	 * header */
	pthread_atfork(fork_guard_hold, fork_guard_release, fork_guard_release_in_child);
}

void fork_guard_install(const ForkGuardLocks *locks)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	fork_guard_lock();
	if (more_locks == NULL)
		more_locks = locks;
	fork_guard_unlock();
	pthread_once(&once, install_handlers);
}

/* Memory that fork() wipes */

void *fork_guard_new_memory(gsize bytes, GError **error)
{
	const int no_advice = -1; /* Linux fails with EINVAL */
	void *self = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	gboolean is_believed;

	if (self == MAP_FAILED) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot map %zu bytes of memory: %s", bytes, g_strerror(errno));
		return NULL;
	}
	is_believed = madvise(self, bytes, no_advice) != 0;
	if (is_believed && madvise(self, bytes, MADV_WIPEONFORK) == 0)
		return self;
	g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSYS,
		    "cannot make the kernel wipe memory on fork() (MADV_WIPEONFORK: %s): without "
		    "it, a child would issue its parent's IDs; Linux 4.14 or later is required%s",
		    is_believed ? g_strerror(errno) : "madvise() accepts and ignores all advice",
		    is_believed ? "" : ", not an emulation such as qemu-user");
	munmap(self, bytes);
	return NULL;
}

void fork_guard_free_memory(void *memory, gsize bytes)
{
	if (memory != NULL)
		munmap(memory, bytes);
}
