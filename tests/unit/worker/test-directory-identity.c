/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/directory-identity.h"

#include <dirent.h>
#include <dlfcn.h>

#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"
#include "worker/registry.h"

#define IDENTITY "directory.json"
#define MACHINE  "0123"
#define LAYOUT                                                                                     \
	"epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=5,"           \
	"sequence_bits=12"
#define IDENTITY_TEXT "{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"" MACHINE "\"}"

static const char *start_between; /* (nullable): where another server starts before a listing */

/* In the place of the C library's. */
DIR *fdopendir(int fd)
{
	DIR *(*original)(int) = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");

	if (start_between != NULL) {
		state_fixture_write(start_between, IDENTITY, IDENTITY_TEXT);
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

TEST("/directory-identity/messages", test_messages)
{
	static const struct {
		const char *text, *message;
	} CASES[] = {
		{"{\"format\":2}", "is of format 2, this server knows format 1"},
		{"{\"format\":1,\"layout\":\"other\",\"machine_id\":\"0123\"}",
		 "directory.json is for layout other, this server's is " LAYOUT},
		{"{\"format\":1,\"layout\":\"" LAYOUT "\",\"machine_id\":\"none\"}",
		 "is of another machine (machine_id none, this one is 0123)"},
		{"{\"format\":1}", "directory.json is damaged, \"layout\" is missing"},
		{"{\"format\":1,\"layout\":\"a\",\"machine_id\":\"b\",\"more\":1}",
		 "directory.json is damaged, there are 4 members, not 3"},
	};
	g_autoptr(StateFixture) without = state_fixture_new();

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();

		state_fixture_write(directory, IDENTITY, CASES[i].text);
		assert_refused(directory, MACHINE, CASES[i].message);
	}
	state_fixture_write(without, "worker-31-31.json", "");
	assert_refused(without, MACHINE, "write into it " IDENTITY_TEXT);
	g_assert_false(state_fixture_has(without, IDENTITY));
}

/* Its record comes after its identity, so whoever sees the record looks again. */
TEST("/directory-identity/another-start-between", test_another_start_between)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	start_between = directory;
	assert_accepted(directory, MACHINE);
	start_between = NULL;
}

/* The identity that a directory gets without being told one is this machine's, twice the same. */
TEST("/directory-identity/this-machine", test_this_machine)
{
	g_autoptr(StateFixture) directory = state_fixture_new();

	assert_accepted(directory, NULL);
	assert_accepted(directory, NULL);
	assert_refused(directory, MACHINE, "is of another machine");
}
