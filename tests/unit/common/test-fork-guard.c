/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fork-guard.h"
#include "tests/unit/unit-test.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_FORKS 300
#define WORK    20000 /* rounds of a loop, enough for most forks to happen during it */

/* Represents a lock of GLib, which no thread may hold during a fork. */
static pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;
static _Atomic gboolean stops;
static _Atomic guint rounds;

static void work(void)
{
	pthread_mutex_lock(&foreign);
	for (volatile guint i = 0; i < WORK; i++)
		;
	pthread_mutex_unlock(&foreign);
	atomic_fetch_add(&rounds, 1);
}

/* Works, and pauses between rounds. */
static void *run(void *user_data G_GNUC_UNUSED)
{
	fork_guard_enter();
	while (!atomic_load(&stops)) {
		work();
		errno = ENOSPC;
		fork_guard_pause();
		g_assert_cmpint(errno, ==, ENOSPC);
		fork_guard_resume();
		g_assert_cmpint(errno, ==, ENOSPC);
	}
	fork_guard_leave();
	return NULL;
}

/* The lock is free in the child, and threads of the child can work. */
static void G_GNUC_NORETURN child_main(void)
{
	if (pthread_mutex_trylock(&foreign) != 0)
		_exit(1);
	fork_guard_enter();
	fork_guard_leave();
	fork_guard_hold();
	fork_guard_release();
	_exit(0);
}

TEST("/fork-guard/no-fork-while-threads-work", test_no_fork_while_threads_work)
{
	pthread_t threads[2];
	guint before;

	fork_guard_install(NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(threads); i++)
		g_assert_no_errno(pthread_create(&threads[i], NULL, run, NULL));
	for (guint i = 0; i < N_FORKS; i++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			child_main();
		g_assert_cmpint(waitpid(child, &status, 0), ==, child);
		g_assert_cmpint(status, ==, 0);
	}
	/* the threads continue */
	before = atomic_load(&rounds);
	while (atomic_load(&rounds) < before + 2)
		sched_yield();
	atomic_store(&stops, TRUE);
	for (gsize i = 0; i < G_N_ELEMENTS(threads); i++)
		pthread_join(threads[i], NULL);
}

/* In a thread that does not work, these functions do nothing. */
TEST("/fork-guard/outside", test_outside)
{
	fork_guard_pause();
	fork_guard_resume();
	fork_guard_hold();
	fork_guard_release();
}

/* Descriptors */

static struct {
	guint n_forks; /* forks that take place in the next calls, one in each call */
	guint n_calls;
} opening;

static gboolean is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Calls the handlers of fork() in the parent. */
static void pretend_to_fork(void)
{
	fork_guard_hold();
	fork_guard_release();
}

/* Calls the handlers of fork() in a child. */
static void pretend_to_be_child(void)
{
	fork_guard_hold();
	fork_guard_release_in_child();
}

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int directory_fd, const char *path, int flags, ...)
{
	mode_t mode;
	va_list arguments;
	int fd;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	fd = __real_openat64(directory_fd, path, flags, mode);
	opening.n_calls++;
	if (opening.n_forks > 0) {
		opening.n_forks--;
		pretend_to_fork();
	}
	return fd;
}

/* A child closes the descriptor, even if forks take place while it is opened. */
TEST("/fork-guard/forks-while-opening", test_forks_while_opening)
{
	static const struct {
		int flags;
		guint n_forks;
	} CASES[] = {
		{O_RDWR | O_CREAT, 0},
		{O_RDWR | O_CREAT, 1},
		{O_RDWR | O_CREAT | O_EXCL, 0},
		{O_RDWR | O_CREAT | O_EXCL, 2},
		/* after three tries fork() waits */
		{O_RDWR | O_CREAT | O_EXCL, 3},
	};
	g_autofree char *directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *name = g_strdup_printf("file-%zu", i);
		g_autofree char *path = g_build_filename(directory, name, NULL);
		int fd;

		opening.n_forks = CASES[i].n_forks;
		opening.n_calls = 0;
		fd = fork_guard_open(AT_FDCWD, path, CASES[i].flags | O_CLOEXEC, 0600);
		g_assert_no_errno(fd);
		g_assert_cmpuint(opening.n_calls, ==, 1 + CASES[i].n_forks);
		g_assert_cmpuint(opening.n_forks, ==, 0);
		g_assert_no_errno(g_access(path, W_OK));
		pretend_to_fork();
		g_assert_true(is_open(fd));
		pretend_to_be_child();
		g_assert_false(is_open(fd));
		g_unlink(path);
	}
	g_rmdir(directory);
}

/* A child closes a descriptor that is being closed, unless another file has its number already. */
TEST("/fork-guard/forks-while-closing", test_forks_while_closing)
{
	g_autofree char *directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);

	for (guint is_closed = 0; is_closed <= 1; is_closed++) {
		int fd =
			fork_guard_open(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

		g_assert_no_errno(fd);
		fork_guard_begin_close(fd);
		if (is_closed) {
			close(fd);
			g_assert_cmpint(open("/dev/null", O_RDONLY | O_CLOEXEC), ==, fd);
		}
		pretend_to_be_child();
		g_assert_cmpint(is_open(fd), ==, is_closed);
		if (is_closed)
			close(fd);
	}
	g_rmdir(directory);
}

/* A child closes a noted descriptor, and its owner there finds -1. */
TEST("/fork-guard/noted", test_noted)
{
	int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int kept_fd = kept, closed_fd = closed;

	fork_guard_lock();
	fork_guard_note(&kept);
	fork_guard_note(&closed);
	fork_guard_close_noted(&closed);
	fork_guard_unlock();
	g_assert_cmpint(closed, ==, -1);
	g_assert_false(is_open(closed_fd));
	pretend_to_fork();
	g_assert_cmpint(kept, ==, kept_fd);
	g_assert_true(is_open(kept_fd));
	pretend_to_be_child();
	g_assert_cmpint(kept, ==, -1);
	g_assert_false(is_open(kept_fd));
	fork_guard_lock();
	fork_guard_close_noted(&kept);
	fork_guard_unlock();
}

/* Memory that fork() wipes */

#define BYTES 100000

int __wrap_madvise(void *at, size_t length, int advice);
int __real_madvise(void *at, size_t length, int advice);

static enum { LINUX, OLD_LINUX, EMULATOR } kernel;

int __wrap_madvise(void *at, size_t length, int advice)
{
	if (kernel == EMULATOR)
		return 0;
	if (kernel == LINUX)
		return __real_madvise(at, length, advice);
	errno = EINVAL;
	return -1;
}

static void check_wiped(pid_t (*fork_)(void))
{
	g_autoptr(GError) error = NULL;
	guint8 *memory = fork_guard_new_memory(BYTES, &error);
	int status;
	pid_t child;

	if (memory == NULL && strstr(error->message, "not an emulation") != NULL) {
		g_test_skip(error->message);
		return;
	}
	g_assert_no_error(error);
	memset(memory, 7, BYTES);
	child = fork_();
	if (child == 0) {
		for (gsize i = 0; i < BYTES; i++) {
			if (memory[i] != 0)
				_exit(1);
		}
		_exit(0);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpint(memory[BYTES - 1], ==, 7);
	fork_guard_free_memory(memory, BYTES);
}

TEST("/fork-guard/memory-is-wiped", test_memory_is_wiped)
{
	check_wiped(fork);
	check_wiped(_Fork);
	fork_guard_free_memory(NULL, BYTES);
}

static void check_refused(int of, const char *why)
{
	g_autoptr(GError) error = NULL;

	kernel = of;
	g_assert_null(fork_guard_new_memory(BYTES, &error));
	kernel = LINUX;
	g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSYS);
	g_assert_nonnull(strstr(error->message, why));
}

TEST("/fork-guard/memory-refused", test_memory_refused)
{
	check_refused(OLD_LINUX, "MADV_WIPEONFORK: Invalid argument");
	check_refused(EMULATOR, "not an emulation such as qemu-user");
}

TEST("/fork-guard/no-memory", test_no_memory)
{
	g_autoptr(GError) error = NULL;

	/* whole pages; 32-bit programs have half of the address space */
	g_assert_null(fork_guard_new_memory(G_MAXSIZE - G_MAXUINT16, &error));
	g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOMEM);
}
