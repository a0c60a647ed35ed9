/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/state-directory.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/worker/registry.h"
#include "tests/unit/worker/state-fixture.h"

#define NAME "some.json"

static void test_made_with_parents(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *parent = g_build_filename(fixture, "a", NULL);
	g_autofree char *directory = g_build_filename(parent, "b", "c", NULL);
	g_autoptr(GError) error = NULL;
	GStatBuf info;

	for (int i = 0; i < 2; i++) { /* the second time it is there */
		g_assert_true(state_directory_prepare(directory, &error));
		g_assert_no_error(error);
	}
	g_assert_no_errno(g_stat(directory, &info));
	g_assert_cmphex(info.st_mode, ==, S_IFDIR | 0750);
	g_assert_no_errno(g_stat(parent, &info));
	g_assert_cmphex(info.st_mode, ==, S_IFDIR | 0750);
}

static void test_not_a_directory(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *file = g_build_filename(fixture, "file", NULL);
	g_autofree char *below = g_build_filename(file, "below", NULL);
	g_autoptr(GError) error = NULL;

	state_fixture_write(fixture, "file", "x");
	g_assert_false(state_directory_prepare(file, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_assert_nonnull(strstr(error->message, "is not a directory"));
	g_clear_error(&error);
	g_assert_false(state_directory_prepare(below, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_nonnull(strstr(error->message, "Not a directory"));
}

static void test_of_another_user(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	/* root can give a directory away, anybody else finds one of root's */
	const char *directory = geteuid() == 0 ? fixture : "/";
	g_autoptr(GError) error = NULL;

	if (geteuid() == 0)
		g_assert_no_errno(chown(fixture, 65534, 65534));
	g_assert_false(state_directory_prepare(directory, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_assert_nonnull(strstr(error->message,
				geteuid() == 0 ? "belongs to user 65534" : "belongs to user 0"));
}

static void test_replace(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *missing = NULL, *present = NULL, *left = NULL;
	g_autoptr(GError) error = NULL;

	g_assert_true(state_directory_read(directory, NAME, &missing, &error));
	g_assert_null(missing);
	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", &error));
	g_assert_true(state_directory_replace(directory, NAME, "one", "two", &error));
	g_assert_no_error(error);
	g_assert_true(state_directory_read(directory, NAME, &present, &error));
	g_assert_cmpstr(present, ==, "two");

	/* what was read is not what is there */
	static const char *const OLD[] = {NULL, "", "one", "two "};
	for (guint i = 0; i < G_N_ELEMENTS(OLD); i++) {
		g_assert_false(state_directory_replace(directory, NAME, OLD[i], "three", &error));
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST);
		g_clear_error(&error);
	}
	left = state_fixture_read(directory, NAME);
	g_assert_cmpstr(left, ==, "two");
	g_assert_cmpuint(state_fixture_count(directory, ""), ==, 1);
}

/* Each of many processes counts up one number: none of their replacements may be lost. */
static void count_up(const char *directory, guint times)
{
	for (guint i = 0; i < times;) {
		g_autofree char *text = NULL;
		g_autofree char *next = NULL;

		if (!state_directory_read(directory, NAME, &text, NULL))
			_exit(1);
		next = g_strdup_printf("%d", atoi(text) + 1);
		i += (guint)state_directory_replace(directory, NAME, text, next, NULL);
	}
	_exit(0);
}

static void test_concurrent_replace(void)
{
	enum { PROCESSES = 4, TIMES = 50 };
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *text = NULL;

	state_fixture_write(directory, NAME, "0");
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			count_up(directory, TIMES);
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		wait(&status);
		g_assert_cmpint(status, ==, 0);
	}
	text = state_fixture_read(directory, NAME);
	g_assert_cmpint(atoi(text), ==, PROCESSES * TIMES);
	g_assert_cmpuint(state_fixture_count(directory, ""), ==, 1);
}

/* The lock's holder hangs: that must not hang whoever wants it next. */
static void test_locked(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_auto(StateFd) holder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autoptr(GError) error = NULL;

	g_assert_no_errno(flock(holder, LOCK_EX));
	g_assert_false(state_directory_replace(directory, NAME, NULL, "one", &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_nonnull(strstr(error->message, "is locked by another process"));
	g_assert_cmpuint(state_fixture_count(directory, ""), ==, 0);

	g_assert_no_errno(flock(holder, LOCK_UN));
	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", NULL));
}

static void test_nul(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, NAME, NULL);
	g_autofree char *text = NULL;
	g_autoptr(GError) error = NULL;

	g_assert_true(g_file_set_contents(path, "{}\0{}", 5, NULL));
	g_assert_false(state_directory_read(directory, NAME, &text, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_assert_null(text);
}

static void test_clean(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	state_fixture_write(directory, "worker-0-1.json", "");
	state_fixture_write(directory, "worker-0-1.json.1234.new", "");
	state_fixture_write(directory, "worker-0-1.json.5678.new", "");
	state_fixture_write(directory, "worker-0-10.json.1234.new", "");
	state_directory_clean(directory, "worker-0-1.json");
	g_assert_cmpuint(state_fixture_count(directory, ""), ==, 2);
	g_assert_true(state_fixture_has(directory, "worker-0-1.json"));
	g_assert_true(state_fixture_has(directory, "worker-0-10.json.1234.new"));
}

static void test_full_disk(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *left = NULL;
	g_autoptr(GError) error = NULL;

	if (!state_fixture_mount(directory))
		return;
	state_fixture_write(directory, NAME, "one");
	state_fixture_fill(directory);
	g_assert_false(state_directory_replace(directory, NAME, "one", "two", &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_nonnull(strstr(error->message, "No space left on device"));
	left = state_fixture_read(directory, NAME);
	g_assert_cmpstr(left, ==, "one");
	g_assert_cmpuint(state_fixture_count(directory, ".new"), ==, 0);

	state_fixture_empty(directory);
	g_assert_true(state_directory_replace(directory, NAME, "one", "two", NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/state-directory/made-with-parents", test_made_with_parents);
	g_test_add_func("/state-directory/not-a-directory", test_not_a_directory);
	g_test_add_func("/state-directory/of-another-user", test_of_another_user);
	g_test_add_func("/state-directory/replace", test_replace);
	g_test_add_func("/state-directory/concurrent-replace", test_concurrent_replace);
	g_test_add_func("/state-directory/locked", test_locked);
	g_test_add_func("/state-directory/nul", test_nul);
	g_test_add_func("/state-directory/clean", test_clean);
	g_test_add_func("/state-directory/full-disk", test_full_disk);
	return g_test_run();
}
