/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/own-descriptors.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdarg.h>
#include <unistd.h>

#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"

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
	own_descriptors_hold();
	own_descriptors_go_on();
}

/* Calls the handlers of fork() in a child. */
static void pretend_to_be_child(void)
{
	own_descriptors_hold();
	own_descriptors_close_all();
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
TEST("/own-descriptors/forks-while-opening", test_forks_while_opening)
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
	g_autoptr(StateFixture) directory = state_fixture_new();

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *name = g_strdup_printf("file-%zu", i);
		g_autofree char *path = g_build_filename(directory, name, NULL);
		int fd;

		opening.n_forks = CASES[i].n_forks;
		opening.n_calls = 0;
		fd = own_descriptors_open(AT_FDCWD, path, CASES[i].flags | O_CLOEXEC, 0600);
		g_assert_no_errno(fd);
		g_assert_cmpuint(opening.n_calls, ==, 1 + CASES[i].n_forks);
		g_assert_cmpuint(opening.n_forks, ==, 0);
		g_assert_no_errno(g_access(path, W_OK));
		pretend_to_fork();
		g_assert_true(is_open(fd));
		pretend_to_be_child();
		g_assert_false(is_open(fd));
	}
}

/* A child closes a descriptor that is being closed, unless another file has its number already. */
TEST("/own-descriptors/forks-while-closing", test_forks_while_closing)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	for (guint is_closed = 0; is_closed <= 1; is_closed++) {
		int fd = own_descriptors_open(AT_FDCWD, directory,
					      O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

		g_assert_no_errno(fd);
		own_descriptors_begin_close(fd);
		if (is_closed) {
			close(fd);
			g_assert_cmpint(open("/dev/null", O_RDONLY | O_CLOEXEC), ==, fd);
		}
		pretend_to_be_child();
		g_assert_cmpint(is_open(fd), ==, is_closed);
		if (is_closed)
			close(fd);
	}
}
