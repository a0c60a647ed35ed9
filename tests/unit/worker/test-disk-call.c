/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/disk-call.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fork-guard.h"
#include "core/layout.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"
#include "worker/file/registry.h"

#define NOW    G_GINT64_CONSTANT(500000000000)
#define LENGTH 1000
#define NAME   "worker-0-3.json"

static struct {
	gboolean is_watched; /* the registry is called */
	GHashTable *names;   /* names of its system calls */
	guint64 opening;     /* number of the last disk call */
	guint n_openings;    /* openat() calls in it, except the first */
} calls;

/* Checks a system call of the registry. */
static void check_call(const char *name)
{
	g_auto(DiskCall) call = {0};

	if (!calls.is_watched)
		return;
	g_hash_table_add(calls.names, (gpointer)name);
	if (!disk_call_find(&call))
		g_error("%s() is not shown", name);
	if (!g_str_equal(call.operation, "close"))
		g_assert_true(g_path_is_absolute(call.path));
	g_test_message("%s(): %s %s", name, call.operation, call.path);
	/* a file is opened up to three times without a lock that fork() takes, then under it */
	if (call.number != calls.opening)
		calls.n_openings = 0;
	else if (g_str_equal(name, "openat64"))
		calls.n_openings++;
	calls.opening = call.number;
	if (calls.n_openings >= 3)
		return;
	/* hangs if a fork() would wait for this thread */
	fork_guard_hold();
	fork_guard_release();
}

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define WRAP(type, name, parameters, arguments)                                                    \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		check_call(#name);                                                                 \
		return __real_##name arguments;                                                    \
	}

WRAP(int, close, (int fd), (fd))
WRAP(int, closedir, (DIR * listing), (listing))
WRAP(DIR *, fdopendir, (int fd), (fd))
WRAP(int, flock, (int fd, int operation), (fd, operation))
WRAP(int, fstat64, (int fd, struct stat *out_info), (fd, out_info))
WRAP(int, fstatat64, (int fd, const char *path, struct stat *out_info, int flags),
     (fd, path, out_info, flags))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, ftruncate64, (int fd, off_t length), (fd, length))
WRAP(gboolean, g_file_test, (const char *path, GFileTest test), (path, test))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t size, off_t offset),
     (fd, data, size, offset))
WRAP(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
WRAP(struct dirent *, readdir64, (DIR * listing), (listing))
WRAP(int, renameat, (int from_fd, const char *from, int to_fd, const char *to),
     (from_fd, from, to_fd, to))
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))

int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	mode_t mode;
	va_list arguments;

	va_start(arguments, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	check_call("openat64");
	return __real_openat64(fd, path, flags, mode);
}

static void poll_well(Registry *registry)
{
	RegistryReport report;

	calls.is_watched = TRUE;
	g_assert_true(registry->ops->poll(registry, NOW, 0, &report));
	calls.is_watched = FALSE;
	g_assert_no_error(report.result.error);
}

/* Each disk call is visible to the watchdog, and no fork() waits for it. */
TEST("/disk-call/no-fork-waits", test_no_fork_waits)
{
	static const char *const NAMES[] = {
		"close",       "closedir",    "fdopendir", "flock", "fstat64",  "fstatat64",
		"fsync",       "ftruncate64", "mkdir",     "read",  "pwrite64", "readdir64",
		"g_file_test", "renameat",    "unlinkat",  "write", "openat64",
	};
	g_autoptr(StateFixture) above = state_fixture_new();
	g_autofree char *directory = g_build_filename(above, "state", NULL);
	Registry *registry = file_registry_new(&(FileRegistryConfig){
		.directory = directory,
		.layout = &LAYOUT_TWITTER,
		.worker_id = 3,
		.nonce = "nonce",
		.address = "127.0.0.1:7609",
		.machine_id = "0123",
	});
	g_auto(DiskCall) call = {0};

	alarm(HANG_GUARD_S);
	calls.names = g_hash_table_new(g_str_hash, g_str_equal);
	fork_guard_enter();
	registry->ops->begin(registry, REGISTRY_CLAIM, LENGTH);
	poll_well(registry);
	registry->ops->begin(registry, REGISTRY_RELEASE, NOW);
	poll_well(registry);
	state_fixture_write(directory, NAME ".1.new", "");
	registry->ops->begin(registry, REGISTRY_CLAIM, LENGTH);
	poll_well(registry);
	registry->ops->begin(registry, REGISTRY_EXTEND, NOW + LENGTH);
	poll_well(registry);
	calls.is_watched = TRUE;
	registry->ops->free(registry);
	calls.is_watched = FALSE;
	fork_guard_leave();
	alarm(0);
	g_assert_false(disk_call_find(&call));
	for (gsize i = 0; i < G_N_ELEMENTS(NAMES); i++)
		if (!g_hash_table_contains(calls.names, NAMES[i]))
			g_error("%s() was not called", NAMES[i]);
	g_hash_table_unref(calls.names);
}

/* A child of fork() is in no call, although its parent is. */
TEST("/disk-call/fork", test_fork)
{
	g_auto(DiskCall) call = {0};
	int status;
	pid_t child;

	disk_call_begin("sync", "/directory", "file");
	disk_call_hold();
	child = fork();
	if (child == 0) {
		disk_call_go_on_in_child();
		_exit(disk_call_find(&call) ? 1 : 0);
	}
	disk_call_go_on();
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	g_assert_true(disk_call_find(&call));
	g_assert_cmpstr(call.path, ==, "/directory/file");
	disk_call_end();
}
