/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wiped-memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit-test.h"

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
	guint8 *memory = wiped_memory_new(BYTES, NULL);
	int status;
	pid_t child;

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
	wiped_memory_free(memory, BYTES);
}

TEST("/wiped-memory/wiped", test_wiped)
{
	check_wiped(fork);
	check_wiped(_Fork);
	wiped_memory_free(NULL, BYTES);
}

static void check_refused(int of, const char *why)
{
	g_autoptr(GError) error = NULL;

	kernel = of;
	g_assert_null(wiped_memory_new(BYTES, &error));
	kernel = LINUX;
	g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSYS);
	g_assert_nonnull(strstr(error->message, why));
}

TEST("/wiped-memory/refused", test_refused)
{
	check_refused(OLD_LINUX, "MADV_WIPEONFORK: Invalid argument");
	check_refused(EMULATOR, "no emulation of it, such as qemu-user");
}

TEST("/wiped-memory/no-memory", test_no_memory)
{
	g_autoptr(GError) error = NULL;

	/* whole pages; half of it is there for programs of 32 bits */
	g_assert_null(wiped_memory_new(G_MAXSIZE - G_MAXUINT16, &error));
	g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOMEM);
}
