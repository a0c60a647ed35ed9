/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/state-directory.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/state-fixture.h"
#include "worker/registry.h"

#define NAME "some.json"

/* What was synced, and what stood at a path then. */
typedef struct {
	ino_t synced;
	ino_t standing;
} Sync;

static const char *watched_path; /* (nullable) */
static GArray *syncs;            /* of Sync, in order */

static ino_t inode_of(const char *path)
{
	GStatBuf info;

	g_assert_no_errno(g_stat(path, &info));
	return info.st_ino;
}

/* In the place of the C library's. */
int fsync(int fd)
{
	struct stat info;

	g_assert_no_errno(fstat(fd, &info));
	if (watched_path != NULL) {
		const Sync sync = {info.st_ino, inode_of(watched_path)};

		g_array_append_val(syncs, sync);
	}
	return (int)syscall(SYS_fsync, fd);
}

static void watch_syncs(const char *path)
{
	syncs = g_array_new(FALSE, FALSE, sizeof(Sync));
	watched_path = path;
}

static StateDirectory *open_directory(const char *path)
{
	g_autoptr(GError) error = NULL;
	StateDirectory *directory = state_directory_open(path, &error);

	g_assert_no_error(error);
	return directory;
}

static void assert_mode(const char *directory, const char *name, mode_t mode)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	GStatBuf info;

	g_assert_no_errno(g_lstat(path, &info));
	g_assert_cmphex(info.st_mode, ==, mode);
}

static void assert_refused(const char *path, RegistryError code, const char *message)
{
	g_autoptr(GError) error = NULL;

	g_assert_null(state_directory_prepare(path, &error));
	g_assert_error(error, REGISTRY_ERROR, (gint)code);
	g_test_message("%s", error->message);
	g_assert_nonnull(strstr(error->message, message));
}

static void test_made_with_parents(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *path = g_build_filename(fixture, "a", "b", "c", NULL);
	g_autoptr(GError) error = NULL;

	for (int i = 0; i < 2; i++) { /* the second time it is there */
		g_autoptr(StateDirectory) directory = state_directory_prepare(path, &error);

		g_assert_no_error(error);
		g_assert_true(state_directory_sync_name(directory, &error));
		g_assert_no_error(error);
	}
	assert_mode(fixture, "a", S_IFDIR | 0700);
	assert_mode(fixture, "a/b/c", S_IFDIR | 0700);
}

/* The name of each that was made is on the disk before anything is made in it; of the last one when
 * somebody asks for that. */
static void test_parents_are_synced(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *path = g_build_filename(fixture, "a", "b", "c", NULL);
	g_autofree char *a = g_build_filename(fixture, "a", NULL);
	g_autofree char *b = g_build_filename(a, "b", NULL);
	g_autoptr(StateDirectory) directory = NULL;
	const char *const expected[] = {fixture, a, b};

	watch_syncs(fixture);
	directory = state_directory_prepare(path, NULL);
	g_assert_cmpuint(syncs->len, ==, 2);
	g_assert_true(state_directory_sync_name(directory, NULL));
	watched_path = NULL;
	g_assert_cmpuint(syncs->len, ==, G_N_ELEMENTS(expected));
	for (guint i = 0; i < syncs->len; i++)
		g_assert_cmpuint(g_array_index(syncs, Sync, i).synced, ==, inode_of(expected[i]));
	g_clear_pointer(&syncs, g_array_unref);
}

static void test_not_a_directory(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *file = g_build_filename(fixture, "file", NULL);
	g_autofree char *below = g_build_filename(file, "below", NULL);
	g_autofree char *fifo = g_build_filename(fixture, "fifo", NULL);

	state_fixture_write(fixture, "file", "x");
	assert_refused(file, REGISTRY_ERROR_FATAL, "is not a directory");
	assert_refused(below, REGISTRY_ERROR_FAILED, "Not a directory");
	g_assert_no_errno(mkfifo(fifo, 0600));
	assert_refused(fifo, REGISTRY_ERROR_FATAL, "is not a directory");
}

static void test_dangling_link(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *link = g_build_filename(fixture, "link", NULL);
	g_autofree char *below = g_build_filename(link, "below", NULL);

	g_assert_no_errno(symlink("nowhere", link));
	assert_refused(link, REGISTRY_ERROR_FAILED, "cannot follow the link ");
	assert_refused(below, REGISTRY_ERROR_FAILED, "cannot follow the link ");
}

static void test_of_another_user(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	/* root can give a directory away, anybody else finds one of root's */
	const char *directory = geteuid() == 0 ? fixture : "/";

	if (geteuid() == 0)
		g_assert_no_errno(chown(fixture, 65534, 65534));
	assert_refused(directory, REGISTRY_ERROR_FATAL,
		       geteuid() == 0 ? "belongs to user 65534" : "belongs to user 0");
}

static void test_mode(void)
{
	static const struct {
		mode_t mode;
		const char *message; /* NULL: it is taken */
	} CASES[] = {
		{0700, NULL},
		{0755, NULL},
		{0770, "has mode 0770, so that others may change what is reserved: chmod go-w"},
		{0720, "has mode 0720"},
		{0702, "has mode 0702"},
		{02775, "has mode 2775"},
		{01777, "has mode 1777"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) fixture = state_fixture_new();

		g_assert_no_errno(chmod(fixture, CASES[i].mode));
		if (CASES[i].message != NULL) {
			assert_refused(fixture, REGISTRY_ERROR_FATAL, CASES[i].message);
		} else {
			g_autoptr(StateDirectory) directory =
				state_directory_prepare(fixture, NULL);

			g_assert_nonnull(directory);
		}
	}
}

static void make_fifo(const char *path)
{
	g_assert_no_errno(mkfifo(path, 0600));
}

static void make_link(const char *path)
{
	g_autofree char *target = g_strconcat(path, ".target", NULL);

	g_assert_true(g_file_set_contents(target, "precious", -1, NULL));
	g_assert_no_errno(symlink(target, path));
}

static void make_second_name(const char *path)
{
	g_autofree char *target = g_strconcat(path, ".target", NULL);

	g_assert_true(g_file_set_contents(target, "precious", -1, NULL));
	g_assert_no_errno(link(target, path));
}

static void make_directory(const char *path)
{
	g_assert_no_errno(mkdir(path, 0700));
}

static void make_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpuint(g_strlcpy(address.sun_path, path, sizeof address.sun_path), <,
			 sizeof address.sun_path);
	g_assert_no_errno(bind(fd, (struct sockaddr *)&address, sizeof address));
	close(fd);
}

static void make_huge(const char *path)
{
	g_assert_true(g_file_set_contents(path, "", 0, NULL));
	g_assert_no_errno(truncate(path, G_GINT64_CONSTANT(4) << 30));
}

static void make_of_another(const char *path)
{
	g_assert_true(g_file_set_contents(path, "", 0, NULL));
	if (geteuid() == 0)
		g_assert_no_errno(chown(path, 65534, 65534));
}

/* What somebody else may have put there is neither followed nor waited for. */
static void test_planted(void)
{
	static const struct {
		void (*make)(const char *path);
		const char *message;
		gboolean by_root;
	} CASES[] = {
		{make_fifo, "not a regular file", FALSE},
		{make_link, "it is a symbolic link", FALSE},
		{make_second_name, "it has 2 links", FALSE},
		{make_directory, "not a regular file", FALSE},
		{make_socket, "not a regular file", FALSE},
		{make_huge, "it has 4294967296 bytes, the most is 4096", FALSE},
		{make_of_another, "it belongs to user 65534", TRUE},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) fixture = state_fixture_new();
		g_autoptr(StateDirectory) directory = open_directory(fixture);
		g_autofree char *path = g_build_filename(fixture, NAME, NULL);
		g_autofree char *text = NULL;
		g_autoptr(GError) error = NULL;
		g_autoptr(GError) opened = NULL;

		if (CASES[i].by_root && geteuid() != 0)
			continue;
		CASES[i].make(path);
		g_assert_false(state_directory_read(directory, NAME, &text, &error));
		g_test_message("%s", error->message);
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
		g_assert_nonnull(strstr(error->message, CASES[i].message));
		g_assert_null(text);
		/* as for the lock */
		g_assert_cmpint(
			state_directory_open_file(directory, NAME, O_RDWR | O_CREAT, &opened), ==,
			-1);
		g_assert_error(opened, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
		g_assert_nonnull(strstr(opened->message, CASES[i].message));
		g_assert_false(state_directory_replace(directory, NAME, NULL, "one", NULL, NULL));
		if (state_fixture_has(fixture, NAME ".target")) {
			g_autofree char *left = state_fixture_read(fixture, NAME ".target");

			g_assert_cmpstr(left, ==, "precious");
		}
	}
}

/* The largest that is read, and one byte more. */
static void test_size(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_autofree char *longest = g_strnfill(4096, 'a');
	g_autofree char *too_long = g_strnfill(4097, 'a');
	g_autofree char *text = NULL;
	g_autoptr(GError) error = NULL;

	state_fixture_write(fixture, NAME, longest);
	g_assert_true(state_directory_read(directory, NAME, &text, NULL));
	g_assert_cmpstr(text, ==, longest);
	state_fixture_write(fixture, NAME, too_long);
	g_assert_false(state_directory_read(directory, NAME, &text, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
}

static void test_replace(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_autofree char *missing = NULL, *present = NULL, *left = NULL;
	g_autoptr(GError) error = NULL;

	g_assert_true(state_directory_read(directory, NAME, &missing, &error));
	g_assert_null(missing);
	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", NULL, &error));
	g_assert_true(state_directory_replace(directory, NAME, "one", "two", NULL, &error));
	g_assert_no_error(error);
	g_assert_true(state_directory_read(directory, NAME, &present, &error));
	g_assert_cmpstr(present, ==, "two");
	assert_mode(fixture, NAME, S_IFREG | 0600);

	/* what was read is not what is there */
	static const char *const OLD[] = {NULL, "", "one", "two "};
	for (guint i = 0; i < G_N_ELEMENTS(OLD); i++) {
		g_assert_false(
			state_directory_replace(directory, NAME, OLD[i], "three", NULL, &error));
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST);
		g_clear_error(&error);
	}
	g_assert_false(state_directory_make(directory, NAME, "three", &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST);
	left = state_fixture_read(fixture, NAME);
	g_assert_cmpstr(left, ==, "two");
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 1);
}

/* A power failure leaves the old text or the new one, and the new one once it was confirmed: it is
 * on the disk before it has its name, and its name before anybody is told. */
static void test_replace_is_synced(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_autofree char *path = g_build_filename(fixture, NAME, NULL);
	const Sync *sync;
	ino_t old;

	state_fixture_write(fixture, NAME, "one");
	old = inode_of(path);
	watch_syncs(path);
	g_assert_true(state_directory_replace(directory, NAME, "one", "two", NULL, NULL));
	watched_path = NULL;
	g_assert_cmpuint(syncs->len, ==, 2);
	sync = &g_array_index(syncs, Sync, 0);
	g_assert_cmpuint(sync->synced, ==, inode_of(path));
	g_assert_cmpuint(sync->standing, ==, old);
	sync = &g_array_index(syncs, Sync, 1);
	g_assert_cmpuint(sync->synced, ==, inode_of(fixture));
	g_assert_cmpuint(sync->standing, ==, inode_of(path));
	g_clear_pointer(&syncs, g_array_unref);
}

/* Whether what was written is still what stands there, by its name in the directory as it was
 * opened, and by its path. */
static void test_is_at(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *path = g_build_filename(fixture, "state", NULL);
	g_autofree char *away = g_build_filename(fixture, "away", NULL);
	g_autofree char *file = g_build_filename(path, NAME, NULL);
	g_autoptr(StateDirectory) directory = state_directory_prepare(path, NULL);
	g_auto(StateFd) fd = -1;

	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", &fd, NULL));
	g_assert_true(state_directory_has(directory, NAME, fd));
	g_assert_true(state_directory_is_at(file, fd));

	g_assert_no_errno(rename(path, away));
	g_assert_true(state_directory_has(directory, NAME, fd));
	g_assert_false(state_directory_is_at(file, fd));
	g_assert_no_errno(rename(away, path));
	g_assert_true(state_directory_is_at(file, fd));

	/* the same text, another file */
	g_assert_true(state_directory_replace(directory, NAME, "one", "one", NULL, NULL));
	g_assert_false(state_directory_has(directory, NAME, fd));
	g_assert_false(state_directory_is_at(file, fd));
	g_assert_no_errno(unlink(file));
	g_assert_false(state_directory_has(directory, NAME, fd));
	g_assert_false(state_directory_is_at(file, fd));
}

/* Each of many processes counts up one number: none of their replacements may be lost. */
static void count_up(const char *path, guint times)
{
	g_autoptr(StateDirectory) directory = open_directory(path);

	for (guint i = 0; i < times;) {
		g_autofree char *text = NULL;
		g_autofree char *next = NULL;

		if (!state_directory_read(directory, NAME, &text, NULL))
			_exit(1);
		next = g_strdup_printf("%d", atoi(text) + 1);
		i += (guint)state_directory_replace(directory, NAME, text, next, NULL, NULL);
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
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_auto(StateFd) holder = open(fixture, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autoptr(GError) error = NULL;

	g_assert_no_errno(flock(holder, LOCK_EX));
	g_assert_false(state_directory_replace(directory, NAME, NULL, "one", NULL, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_nonnull(strstr(error->message, "is locked by another process"));
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 0);

	g_assert_no_errno(flock(holder, LOCK_UN));
	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", NULL, NULL));
}

static void test_nul(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_autofree char *path = g_build_filename(fixture, NAME, NULL);
	g_autofree char *text = NULL;
	g_autoptr(GError) error = NULL;

	g_assert_true(g_file_set_contents(path, "{}\0{}", 5, NULL));
	g_assert_false(state_directory_read(directory, NAME, &text, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_assert_null(text);
}

static void test_clean(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);

	state_fixture_write(fixture, "worker-0-1.json", "");
	state_fixture_write(fixture, "worker-0-1.json.1234.new", "");
	state_fixture_write(fixture, "worker-0-1.json.5678.new", "");
	state_fixture_write(fixture, "worker-0-10.json.1234.new", "");
	state_directory_clean(directory, "worker-0-1.json");
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 2);
	g_assert_true(state_fixture_has(fixture, "worker-0-1.json"));
	g_assert_true(state_fixture_has(fixture, "worker-0-10.json.1234.new"));
}

/* What is there may be about to get its name. */
static void test_clean_while_locked(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_auto(StateFd) holder = open(fixture, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	state_fixture_write(fixture, NAME ".1234.new", "");
	g_assert_no_errno(flock(holder, LOCK_EX));
	state_directory_clean(directory, NAME);
	g_assert_true(state_fixture_has(fixture, NAME ".1234.new"));
	g_assert_no_errno(flock(holder, LOCK_UN));
	state_directory_clean(directory, NAME);
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 0);
}

static void test_full_disk(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *left = NULL;
	g_autoptr(GError) error = NULL;

	if (!state_fixture_mount(fixture))
		return;

	g_autoptr(StateDirectory) directory = open_directory(fixture);

	state_fixture_write(fixture, NAME, "one");
	state_fixture_fill(fixture);
	g_assert_false(state_directory_replace(directory, NAME, "one", "two", NULL, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_nonnull(strstr(error->message, "No space left on device"));
	left = state_fixture_read(fixture, NAME);
	g_assert_cmpstr(left, ==, "one");
	g_assert_cmpuint(state_fixture_count(fixture, ".new"), ==, 0);

	state_fixture_empty(fixture);
	g_assert_true(state_directory_replace(directory, NAME, "one", "two", NULL, NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/state-directory/made-with-parents", test_made_with_parents);
	g_test_add_func("/state-directory/parents-are-synced", test_parents_are_synced);
	g_test_add_func("/state-directory/not-a-directory", test_not_a_directory);
	g_test_add_func("/state-directory/dangling-link", test_dangling_link);
	g_test_add_func("/state-directory/of-another-user", test_of_another_user);
	g_test_add_func("/state-directory/mode", test_mode);
	g_test_add_func("/state-directory/planted", test_planted);
	g_test_add_func("/state-directory/size", test_size);
	g_test_add_func("/state-directory/is-at", test_is_at);
	g_test_add_func("/state-directory/replace", test_replace);
	g_test_add_func("/state-directory/replace-is-synced", test_replace_is_synced);
	g_test_add_func("/state-directory/concurrent-replace", test_concurrent_replace);
	g_test_add_func("/state-directory/locked", test_locked);
	g_test_add_func("/state-directory/nul", test_nul);
	g_test_add_func("/state-directory/clean", test_clean);
	g_test_add_func("/state-directory/clean-while-locked", test_clean_while_locked);
	g_test_add_func("/state-directory/full-disk", test_full_disk);
	return g_test_run();
}
