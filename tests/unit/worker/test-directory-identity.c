/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/directory-identity.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/worker/state-fixture.h"
#include "worker/registry.h"

#define IDENTITY "directory.json"
#define MACHINE  "0123"
#define LAYOUT                                                                                     \
	"epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,"           \
	"sequence_bits=12"

static GArray *synced; /* of ino_t, in order */

/* In the place of the C library's. */
int fsync(int fd)
{
	struct stat info;

	g_assert_no_errno(fstat(fd, &info));
	if (synced != NULL)
		g_array_append_val(synced, info.st_ino);
	return (int)syscall(SYS_fsync, fd);
}

static const char *start_between; /* (nullable): where another server starts before a listing */

static void write_identity(const char *directory, int format, const char *layout,
			   const char *machine)
{
	g_autofree char *text = g_strdup_printf(
		"{\"format\":%d,\"layout\":\"%s\",\"machine_id\":\"%s\"}", format, layout, machine);

	state_fixture_write(directory, IDENTITY, text);
}

/* In the place of the C library's. */
DIR *fdopendir(int fd)
{
	DIR *(*original)(int) = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");

	if (start_between != NULL) {
		write_identity(start_between, 1, LAYOUT, MACHINE);
		state_fixture_write(start_between, "worker-0-1.json", "");
	}
	return original(fd);
}

static gboolean check(const char *path, const char *machine_id, GError **error)
{
	g_autoptr(StateDirectory) directory = state_directory_open(path, NULL);

	return directory_identity_check(directory, &LAYOUT_TWITTER, machine_id, error);
}

static void assert_refused(const char *directory, const char *machine_id, const char *message)
{
	g_autoptr(GError) error = NULL;

	g_assert_false(check(directory, machine_id, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_test_message("%s", error->message);
	g_assert_nonnull(strstr(error->message, message));
}

static void assert_accepted(const char *directory, const char *machine_id)
{
	g_autoptr(GError) error = NULL;

	g_assert_true(check(directory, machine_id, &error));
	g_assert_no_error(error);
}

static void test_other(void)
{
	static const char OTHER[] = "epoch_ms=0,tick_ms=1,time_bits=41,"
				    "datacenter_bits=5,worker_bits=5,sequence_bits=12";
	const struct {
		int format;
		const char *layout, *machine, *message; /* NULL: no error */
	} CASES[] = {
		{1, LAYOUT, MACHINE, NULL},
		{2, LAYOUT, MACHINE, "is of format 2, this server knows format 1"},
		{1, OTHER, MACHINE, "directory.json is for layout epoch_ms=0,"},
		{1, LAYOUT, "4567", "is of another machine (machine_id 4567, this one is 0123)"},
		{1, LAYOUT, "none", "is of another machine (machine_id none, this one is 0123)"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();

		write_identity(directory, CASES[i].format, CASES[i].layout, CASES[i].machine);
		if (CASES[i].message != NULL)
			assert_refused(directory, MACHINE, CASES[i].message);
		else
			assert_accepted(directory, MACHINE);
	}
}

static void test_damaged(void)
{
	static const char *const TEXTS[] = {
		"",
		"{",
		"[]",
		"{\"format\":\"1\"}",
		"{\"format\":1}",
		"{\"format\":01,\"layout\":\"twitter\",\"machine_id\":\"0123\"}",
		"{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"0123\",\"more\":1}",
		"{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"4567\","
		"\"machine_id\":\"0123\"}",
		"{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"0123\"} /* */",
	};

	for (guint i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();

		state_fixture_write(directory, IDENTITY, TEXTS[i]);
		assert_refused(directory, MACHINE, "directory.json is damaged");
	}
}

/* Nobody knows for what layout the records are: it is not made anew. */
static void test_missing(void)
{
	static const struct {
		const char *name;
		gboolean is_record;
	} CASES[] = {
		{"worker-0-1.json", TRUE},  {"worker-31-31.json", TRUE},
		{"worker-0-1.lock", FALSE}, {"worker-0-1.json.1234.new", FALSE},
		{"lost+found", FALSE},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();

		state_fixture_write(directory, CASES[i].name, "");
		if (!CASES[i].is_record) {
			assert_accepted(directory, MACHINE);
			continue;
		}
		assert_refused(directory, MACHINE, " is there without directory.json");
		assert_refused(directory, MACHINE,
			       "write into it {\"format\":1,\"layout\":\"" LAYOUT
			       "\",\"machine_id\":\"" MACHINE "\"}");
		g_assert_false(state_fixture_has(directory, IDENTITY));
		write_identity(directory, 1, LAYOUT, MACHINE);
		assert_accepted(directory, MACHINE);
	}
}

/* Its record comes after its identity, so whoever sees the record looks again. */
static void test_another_start_between(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	start_between = directory;
	assert_accepted(directory, MACHINE);
	start_between = NULL;
}

/* The identity that a directory gets without being told one is this machine's, twice the same. */
static void test_this_machine(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	assert_accepted(directory, NULL);
	assert_accepted(directory, NULL);
	assert_refused(directory, MACHINE, "is of another machine");
}

/* What a crash left while the identity was made goes, and that of records is not touched. */
static void test_leftovers(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	state_fixture_write(directory, IDENTITY ".1234.new", "{");
	state_fixture_write(directory, "worker-0-1.json.1234.new", "{");
	assert_accepted(directory, MACHINE);
	g_assert_cmpuint(state_fixture_count(directory, ""), ==, 2);
	g_assert_true(state_fixture_has(directory, "worker-0-1.json.1234.new"));
}

static ino_t inode_of(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	struct stat info;

	g_assert_no_errno(stat(path, &info));
	return info.st_ino;
}

/* The name of a directory that was there is on the disk before its identity is, and that says so to
 * all who come later. */
static void test_name_is_synced(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *directory = g_build_filename(fixture, "state", NULL);

	g_assert_no_errno(mkdir(directory, 0700));
	synced = g_array_new(FALSE, FALSE, sizeof(ino_t));
	assert_accepted(directory, MACHINE);
	g_assert_cmpuint(synced->len, ==, 2);
	g_assert_cmpuint(g_array_index(synced, ino_t, 0), ==, inode_of(fixture, "."));
	g_assert_cmpuint(g_array_index(synced, ino_t, 1), ==, inode_of(directory, IDENTITY));
	assert_accepted(directory, MACHINE);
	g_assert_cmpuint(synced->len, ==, 2);
	g_clear_pointer(&synced, g_array_unref);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/directory-identity/other", test_other);
	g_test_add_func("/directory-identity/damaged", test_damaged);
	g_test_add_func("/directory-identity/missing", test_missing);
	g_test_add_func("/directory-identity/another-start-between", test_another_start_between);
	g_test_add_func("/directory-identity/this-machine", test_this_machine);
	g_test_add_func("/directory-identity/name-is-synced", test_name_is_synced);
	g_test_add_func("/directory-identity/leftovers", test_leftovers);
	return g_test_run();
}
