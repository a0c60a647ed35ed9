/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/state-directory.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"
#include "worker/registry.h"

#define NAME "some.json"

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

TEST("/state-directory/dangling-link", test_dangling_link)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *link = g_build_filename(fixture, "link", NULL);
	g_autofree char *below = g_build_filename(link, "below", NULL);

	g_assert_no_errno(symlink("nowhere", link));
	assert_refused(link, REGISTRY_ERROR_FAILED, "cannot follow the link ");
	assert_refused(below, REGISTRY_ERROR_FAILED, "cannot follow the link ");
}

TEST("/state-directory/mode", test_mode)
{
	static const struct {
		mode_t mode;
		const char *message; /* NULL if accepted */
	} CASES[] = {
		{0700, NULL},
		{0755, NULL},
		{0770, "has mode 0770, so other users can change the reservations; run chmod go-w"},
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

static void make_huge(const char *path)
{
	g_assert_true(g_file_set_contents(path, "", 0, NULL));
	g_assert_no_errno(truncate(path, G_GINT64_CONSTANT(4) << 30));
}

/* A special file, link or huge file in the directory is refused without waiting. */
TEST("/state-directory/planted", test_planted)
{
	static const struct {
		void (*make)(const char *path);
		const char *message;
	} CASES[] = {
		{make_fifo, "not a regular file"},
		{make_link, "it is a symbolic link"},
		{make_huge, "it has 4294967296 bytes; the limit is 4096"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) fixture = state_fixture_new();
		g_autoptr(StateDirectory) directory = open_directory(fixture);
		g_autofree char *path = g_build_filename(fixture, NAME, NULL);
		g_autofree char *text = NULL;
		g_autoptr(GError) error = NULL;
		g_autoptr(GError) locked = NULL;
		g_auto(StateFd) lock = -1;

		CASES[i].make(path);
		g_assert_false(state_directory_read(directory, NAME, &text, &error));
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
		g_assert_nonnull(strstr(error->message, CASES[i].message));
		g_assert_false(state_directory_take_lock(directory, NAME, "a:1", &lock, &locked));
		g_assert_error(locked, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
		g_assert_nonnull(strstr(locked->message, CASES[i].message));
		g_assert_false(state_directory_replace(directory, NAME, NULL, "one", NULL, NULL));
		if (state_fixture_has(fixture, NAME ".target")) {
			g_autofree char *left = state_fixture_read(fixture, NAME ".target");

			g_assert_cmpstr(left, ==, "precious");
		}
	}
}

TEST("/state-directory/replace", test_replace)
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

	/* the expected text differs from the file */
	static const char *const OLD[] = {NULL, "", "one", "two "};
	for (guint i = 0; i < G_N_ELEMENTS(OLD); i++) {
		g_assert_false(
			state_directory_replace(directory, NAME, OLD[i], "three", NULL, &error));
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST);
		g_clear_error(&error);
	}
	left = state_fixture_read(fixture, NAME);
	g_assert_cmpstr(left, ==, "two");
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 1);
}

/* Checks whether the written file is still the one at its path. */
TEST("/state-directory/is-at", test_is_at)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *path = g_build_filename(fixture, "state", NULL);
	g_autofree char *away = g_build_filename(fixture, "away", NULL);
	g_autofree char *file = g_build_filename(path, NAME, NULL);
	g_autoptr(StateDirectory) directory = state_directory_prepare(path, NULL);
	g_auto(StateFd) fd = -1;

	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", &fd, NULL));
	g_assert_true(state_directory_is_at(file, fd));

	g_assert_no_errno(rename(path, away));
	g_assert_false(state_directory_is_at(file, fd));
	g_assert_no_errno(rename(away, path));
	g_assert_true(state_directory_is_at(file, fd));

	/* the same text, another file */
	g_assert_true(state_directory_replace(directory, NAME, "one", "one", NULL, NULL));
	g_assert_false(state_directory_is_at(file, fd));
	g_assert_no_errno(unlink(file));
	g_assert_false(state_directory_is_at(file, fd));
}

/* Increments a number in a file. Many processes do so, and no increment may be lost. */
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

TEST("/state-directory/concurrent-replace", test_concurrent_replace)
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

/* If the holder of the lock hangs, the next process must not hang. */
TEST("/state-directory/locked", test_locked)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_auto(StateFd) holder = open(fixture, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autoptr(GError) error = NULL;

	g_assert_no_errno(flock(holder, LOCK_EX));
	g_assert_false(state_directory_replace(directory, NAME, NULL, "one", NULL, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_nonnull(strstr(error->message, "another process holds the lock"));
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 0);

	g_assert_no_errno(flock(holder, LOCK_UN));
	g_assert_true(state_directory_replace(directory, NAME, NULL, "one", NULL, NULL));
}

/* Nothing is removed while another process has the lock, because it may be renaming a new file. */
TEST("/state-directory/clean", test_clean)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = open_directory(fixture);
	g_auto(StateFd) holder = open(fixture, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	state_fixture_write(fixture, "worker-0-1.json", "");
	state_fixture_write(fixture, "worker-0-1.json.1234.new", "");
	state_fixture_write(fixture, "worker-0-1.json.5678.new", "");
	state_fixture_write(fixture, "worker-0-10.json.1234.new", "");
	g_assert_no_errno(flock(holder, LOCK_EX));
	state_directory_clean(directory, "worker-0-1.json");
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 4);
	g_assert_no_errno(flock(holder, LOCK_UN));
	state_directory_clean(directory, "worker-0-1.json");
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 2);
	g_assert_true(state_fixture_has(fixture, "worker-0-1.json"));
	g_assert_true(state_fixture_has(fixture, "worker-0-10.json.1234.new"));
}

/* The identity */

#define IDENTITY "directory.json"
#define MACHINE  "0123"
#define LAYOUT                                                                                     \
	"epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,"           \
	"sequence_bits=12"
#define IDENTITY_TEXT "{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"" MACHINE "\"}"

static const char *start_between; /* (nullable): where another server starts before a listing */

/* Replaces the C library's function. */
DIR *fdopendir(int fd)
{
	DIR *(*original)(int) = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");

	if (start_between != NULL) {
		state_fixture_write(start_between, IDENTITY, IDENTITY_TEXT);
		state_fixture_write(start_between, "worker-0-1.json", "");
	}
	return original(fd);
}

static gboolean check_identity(const char *path, const char *machine_id, GError **error)
{
	g_autoptr(StateDirectory) directory = state_directory_open(path, NULL);

	return state_directory_check_identity(directory, &LAYOUT_TWITTER, machine_id, error);
}

static void assert_identity_refused(const char *directory, const char *machine_id,
				    const char *message)
{
	g_autoptr(GError) error = NULL;

	g_assert_false(check_identity(directory, machine_id, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_test_message("%s", error->message);
	g_assert_nonnull(strstr(error->message, message));
}

static void assert_identity_accepted(const char *directory, const char *machine_id)
{
	g_autoptr(GError) error = NULL;

	g_assert_true(check_identity(directory, machine_id, &error));
	g_assert_no_error(error);
}

TEST("/state-directory/identity-messages", test_messages)
{
	static const struct {
		const char *text, *message;
	} CASES[] = {
		{"{\"format\":2}", "has format 2, but this server supports format 1"},
		{"{\"format\":1,\"layout\":\"other\",\"machine_id\":\"0123\"}",
		 "directory.json is for the layout other, but this server uses " LAYOUT},
		{"{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"none\"}",
		 "is from another machine (machine_id none; this machine is 0123)"},
		{"{\"format\":1}", "directory.json is damaged (\"layout\" is missing"},
	};
	g_autoptr(StateFixture) without = state_fixture_new();

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();

		state_fixture_write(directory, IDENTITY, CASES[i].text);
		assert_identity_refused(directory, MACHINE, CASES[i].message);
	}
	state_fixture_write(without, "worker-31-31.json", "");
	assert_identity_refused(without, MACHINE, "write " IDENTITY_TEXT);
	g_assert_false(state_fixture_has(without, IDENTITY));
}

/* Another server's record comes after its identity, so a server that sees the record reads the
 * identity again. */
TEST("/state-directory/identity-another-start-between", test_another_start_between)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	start_between = directory;
	assert_identity_accepted(directory, MACHINE);
	start_between = NULL;
}

/* The default identity is this machine's, and it is the same twice. */
TEST("/state-directory/identity-this-machine", test_this_machine)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	assert_identity_accepted(directory, NULL);
	assert_identity_accepted(directory, NULL);
	assert_identity_refused(directory, MACHINE, "is from another machine");
}

/* The ID as a registry */

#define ID_FILE "registry.json"

static void assert_id(const char *path, char out_id[static UUID_TEXT_SIZE])
{
	g_autoptr(StateDirectory) directory = state_directory_open(path, NULL);
	g_autoptr(GError) error = NULL;

	g_assert_true(state_directory_get_id(directory, out_id, &error));
	g_assert_no_error(error);
}

/* A directory has an ID of its own, which stays. */
TEST("/state-directory/id", test_id)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateFixture) other = state_fixture_new();
	char id[UUID_TEXT_SIZE], again[UUID_TEXT_SIZE];

	assert_id(fixture, id);
	assert_id(fixture, again);
	g_assert_cmpstr(id, ==, again);
	assert_id(other, again);
	g_assert_cmpstr(id, !=, again);
	/* members of later versions are ignored */
	state_fixture_write(
		fixture, ID_FILE,
		"{\"format\":1,\"id\":\"6BDFBF4E-3A2A-4C6B-9D0E-6A1C3F0B7A55\",\"x\":5}");
	assert_id(fixture, id);
	g_assert_cmpstr(id, ==, "6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55");
	g_assert_cmpuint(state_fixture_count(fixture, ""), ==, 1);
}

TEST("/state-directory/id-damaged", test_id_damaged)
{
	static const struct {
		const char *text, *message;
	} CASES[] = {
		{"", "registry.json, which contains the ID of the directory, is damaged ("},
		{"{\"format\":2,\"id\":\"\"}", "format"},
		{"{\"format\":1}", "\"id\" is missing"},
		{"{\"format\":1,\"id\":\"\"}", "\"\" is not a UUID"},
	};
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autoptr(StateDirectory) directory = state_directory_open(fixture, NULL);

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		char id[UUID_TEXT_SIZE];

		state_fixture_write(fixture, ID_FILE, CASES[i].text);
		g_assert_false(state_directory_get_id(directory, id, &error));
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, CASES[i].message));
	}
}
