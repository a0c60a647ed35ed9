/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/registry.h"

#include <glib/gstdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"

/*
 * Tests the registry's messages, its exact ends, and cases that need a real file system or real
 * processes. tests/simulation/simulation-directory.c tests the registry with all faults of a host.
 */

#define RECORD  "worker-0-3.json"
#define LOCK    "worker-0-3.lock"
#define NOW     G_GINT64_CONSTANT(500000000000)
#define LENGTH  1000
#define ADDRESS "127.0.0.1:7609"
#define MACHINE "0123"
#define IDENTITY                                                                                   \
	"{\"format\":1,\"layout\":\"epoch_ms=1288834974657,tick_ms=1,time_bits=41,"                \
	"datacenter_bits=5,worker_bits=5,sequence_bits=12\",\"machine_id\":\"" MACHINE "\"}"

static void free_registry(Registry *registry)
{
	registry->ops->free(registry);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Registry, free_registry)

/* Returns a registry in @directory. @worker_id: -1 for any */
static Registry *registry_of_layout(const char *directory, const Layout *layout, gint worker_id,
				    const char *nonce)
{
	return file_registry_new(&(FileRegistryConfig){
		.directory = directory,
		.layout = layout,
		.worker_id = worker_id,
		.nonce = nonce,
		.address = ADDRESS,
		.machine_id = MACHINE,
	});
}

static Registry *new_registry(const char *directory, const char *nonce)
{
	return registry_of_layout(directory, &LAYOUT_TWITTER, 3, nonce);
}

static RegistryResult poll_registry(Registry *registry, gint64 now_tick)
{
	RegistryReport report, again;

	g_assert_true(registry->ops->poll(registry, now_tick, 0, &report));
	g_assert_false(registry->ops->poll(registry, now_tick, 0, &again));
	return report.result;
}

static RegistryResult claim(Registry *registry, gint64 now_tick)
{
	registry->ops->begin(registry, REGISTRY_CLAIM, LENGTH);
	return poll_registry(registry, now_tick);
}

static Reservation claim_well(Registry *registry, gint64 now_tick)
{
	RegistryResult result = claim(registry, now_tick);

	g_assert_no_error(result.error);
	return result.reservation;
}

static gint64 extend_well(Registry *registry, gint64 end_tick)
{
	RegistryResult result;

	registry->ops->begin(registry, REGISTRY_EXTEND, end_tick);
	result = poll_registry(registry, NOW);
	g_assert_no_error(result.error);
	return result.end_tick;
}

static RegistryResult release(Registry *registry, gint64 last_tick)
{
	registry->ops->begin(registry, REGISTRY_RELEASE, last_tick);
	return poll_registry(registry, NOW);
}

static void assert_failed(const RegistryResult *result, RegistryError code, const char *message)
{
	g_autoptr(GError) error = result->error;

	g_assert_error(error, REGISTRY_ERROR, (gint)code);
	g_test_message("%s", error->message);
	g_assert_nonnull(strstr(error->message, message));
}

static void assert_claim_fails(Registry *registry, RegistryError code, const char *message)
{
	RegistryResult result = claim(registry, NOW);

	assert_failed(&result, code, message);
}

static void assert_extend_fails(Registry *registry, RegistryError code, const char *message)
{
	RegistryResult result;

	registry->ops->begin(registry, REGISTRY_EXTEND, NOW + 2 * LENGTH);
	result = poll_registry(registry, NOW);
	assert_failed(&result, code, message);
}

static char *record_text(gint64 end_tick, const char *owner)
{
	return g_strdup_printf("{\"reserved_until_tick\":%" G_GINT64_FORMAT
			       ",\"owner\":\"%s\",\"address\":\"other:1\"}",
			       end_tick, owner);
}

static void write_text(const char *directory, const char *text)
{
	if (!state_fixture_has(directory, "directory.json"))
		state_fixture_write(directory, "directory.json", IDENTITY);
	state_fixture_write(directory, RECORD, text);
}

static void write_record(const char *directory, gint64 end_tick, const char *owner)
{
	g_autofree char *text = record_text(end_tick, owner);

	write_text(directory, text);
}

static void write_in_place(const char *directory, const char *text)
{
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);
	FILE *file = g_fopen(path, "w");

	g_assert_no_errno(fputs(text, file) < 0 ? -1 : 0);
	g_assert_no_errno(fclose(file));
}

static void assert_must_wait(const RegistryResult *result)
{
	g_autofree char *until = layout_tick_text(&LAYOUT_TWITTER, result->wait_until_tick);
	g_autofree char *remedy = g_strdup_printf(
		"wait until %s, correct the clock, or use another --worker-id", until);

	g_assert_nonnull(strstr(result->error->message, "is reserved until"));
	assert_failed(result, REGISTRY_ERROR_WAIT, remedy);
}

/* The record decides which reservation the next run gets. */
TEST("/file-registry/next-run", test_next_run)
{
	const gint64 MAX_TICK = layout_max_tick(&LAYOUT_TWITTER);
	const struct {
		gint64 record_end, now;
		gint64 first, end; /* ticks of the reservation, or 0 */
		gint64 wait_until; /* tick in the error WAIT, or 0 */
	} CASES[] = {
		{0, NOW, 1, NOW + 1000, 0},
		{NOW - 5000, NOW, NOW - 4999, NOW + 1000, 0},
		{NOW, NOW, NOW + 1, NOW + 1000, 0},
		{NOW + 999, NOW, NOW + 1000, NOW + 1000, 0},
		{NOW + 1000, NOW, 0, 0, NOW + 1},
		{NOW + 1000, NOW + 1, NOW + 1001, NOW + 1001, 0},
		{NOW + 3600000, NOW, 0, 0, NOW + 3600000 - 999},
		{MAX_TICK - 1, MAX_TICK - 1, MAX_TICK, MAX_TICK, 0},
		{MAX_TICK - 1, MAX_TICK, MAX_TICK, MAX_TICK, 0},
		{MAX_TICK, MAX_TICK - 10, 0, 0, 0}, /* FATAL: no tick is left */
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = new_registry(directory, "n2");
		RegistryResult result;

		g_test_message("case %u", i);
		write_record(directory, CASES[i].record_end, "n1");
		result = claim(registry, CASES[i].now);
		g_assert_cmpint(result.reservation.first_tick, ==, CASES[i].first);
		g_assert_cmpint(result.reservation.end_tick, ==, CASES[i].end);
		g_assert_cmpint(result.wait_until_tick, ==, CASES[i].wait_until);
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==,
				CASES[i].end != 0 ? CASES[i].end : CASES[i].record_end);
		if (CASES[i].end != 0)
			g_assert_no_error(result.error);
		else if (CASES[i].wait_until != 0)
			assert_must_wait(&result);
		else
			assert_failed(&result, REGISTRY_ERROR_FATAL, "the end of the layout");
	}
}

/* An extension that failed after its write has still changed the record. */
TEST("/file-registry/extend-after-doubt", test_extend_after_doubt)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = new_registry(directory, "n1");

	g_autofree char *text = record_text(NOW + 1500, "n1");

	claim_well(registry, NOW);
	write_in_place(directory, text);
	g_assert_cmpint(extend_well(registry, NOW + 1400), ==, NOW + 1500);
	g_assert_cmpint(extend_well(registry, NOW + 1600), ==, NOW + 1600);
}

TEST("/file-registry/end-of-layout", test_end_of_layout)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = new_registry(directory, "n1");
	gint64 max_tick = layout_max_tick(&LAYOUT_TWITTER);

	claim_well(registry, max_tick - 2000);
	g_assert_cmpint(extend_well(registry, max_tick + 5), ==, max_tick);
}

TEST("/file-registry/damage-is-named", test_damage_is_named)
{
	static const struct {
		const char *record, *fault;
	} CASES[] = {
		{"hello", RECORD " is damaged (\"hello\" is not a JSON object"},
		{"{\"owner\":\"n\",\"address\":\"a:1\"}",
		 "(\"reserved_until_tick\" is missing), so the"},
		{"{\"reserved_until_tick\":5,\"owner\":\"n\",\"address\":\"a:1\",\"format\":2}",
		 "has format 2"},
		{"{\"reserved_until_tick\":2199023255552,\"owner\":\"n\",\"address\":\"a:1\"}",
		 "(its reserved_until_tick is past the end of the layout)"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = new_registry(directory, "n");
		g_autofree char *left = NULL;

		write_text(directory, CASES[i].record);
		assert_claim_fails(registry, REGISTRY_ERROR_FATAL, CASES[i].fault);
		left = state_fixture_read(directory, RECORD);
		g_assert_cmpstr(left, ==, CASES[i].record);
	}
}

/* An editor, or a restore from a backup, can write the record while a server runs. */
TEST("/file-registry/edited-while-held", test_edited_while_held)
{
	const struct {
		char *text;
		RegistryError code;
		const char *message;
	} CASES[] = {
		{g_strdup(""), REGISTRY_ERROR_FATAL, RECORD " is damaged"},
		{record_text(NOW + LENGTH - 1, "n1"), REGISTRY_ERROR_LOST, RECORD " was set back"},
		{record_text(NOW + LENGTH, "n2"), REGISTRY_ERROR_LOST,
		 RECORD " now belongs to other:1 (owner n2)"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = new_registry(directory, "n1");

		claim_well(registry, NOW);
		write_in_place(directory, CASES[i].text);
		assert_extend_fails(registry, CASES[i].code, CASES[i].message);
		g_free(CASES[i].text);
	}
}

/* Waits until @start is closed, claims, writes to @out whether it has a worker ID, and exits when
 * @end is closed. */
static void G_GNUC_NORETURN child_main(const char *directory, guint worker_id, int start, int out,
				       int end)
{
	g_autofree char *nonce = g_strdup_printf("child-%d", (int)getpid());
	Registry *registry = registry_of_layout(directory, &LAYOUT_TWITTER, (gint)worker_id, nonce);
	RegistryResult result;
	char has_claimed;

	if (read(start, &has_claimed, 1) != 0)
		_exit(1);
	result = claim(registry, NOW);
	has_claimed = (char)(result.error == NULL);
	if (!has_claimed && result.error->code != REGISTRY_ERROR_FATAL)
		_exit(1);
	if (write(out, &has_claimed, 1) != 1)
		_exit(1);
	_exit(read(end, &has_claimed, 1) == 0 ? 0 : 1);
}

/* Starts @n servers at once in a directory that does not exist yet.
 * Returns: the number of servers with a worker ID */
static guint start_at_once(guint n, gboolean same_worker)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *directory = g_build_filename(fixture, "not", "there", "yet", NULL);
	guint n_claimed = 0;
	int start[2], out[2], end[2];

	g_assert_no_errno(pipe(start));
	g_assert_no_errno(pipe(out));
	g_assert_no_errno(pipe(end));
	for (guint i = 0; i < n; i++) {
		if (fork() != 0)
			continue;
		close(start[1]);
		close(end[1]);
		child_main(directory, same_worker ? 3 : i, start[0], out[1], end[0]);
	}
	close(out[1]);
	close(start[1]);
	for (guint i = 0; i < n; i++) {
		char has_claimed;

		g_assert_cmpint(read(out[0], &has_claimed, 1), ==, 1);
		n_claimed += (guint)has_claimed;
	}
	close(end[1]);
	for (guint i = 0; i < n; i++) {
		int status;

		g_assert_cmpint(wait(&status), >, 0);
		g_assert_cmpint(status, ==, 0);
	}
	close(start[0]);
	close(out[0]);
	close(end[0]);
	g_assert_cmpuint(state_fixture_count(directory, ".new"), ==, 0);
	g_assert_cmpuint(state_fixture_count(directory, "directory.json"), ==, 1);
	return n_claimed;
}

TEST("/file-registry/first-starts-at-once", test_first_starts_at_once)
{
	g_assert_cmpuint(start_at_once(32, FALSE), ==, 32);
	g_assert_cmpuint(start_at_once(16, TRUE), ==, 1);
}

/* GLib reads the environment once per process, so there is one test for all of it. */
TEST("/file-registry/default-directory", test_default_directory)
{
	g_autofree char *relative = g_canonicalize_filename("some", NULL);
	const struct {
		const char *named, *directory; /* NULL if unset; the default of the user applies */
	} CASES[] = {
		{"/var/lib/some", "/var/lib/some"},
		{"/var/lib/some:/var/lib/other", "/var/lib/some"},
		{":/var/lib/some", "/var/lib/some"},
		{"::/var/lib/some:", "/var/lib/some"},
		{"some", relative},
		{":", NULL},
		{"", NULL},
		{NULL, NULL},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *directory = NULL;

		g_unsetenv("STATE_DIRECTORY");
		if (CASES[i].named != NULL)
			g_setenv("STATE_DIRECTORY", CASES[i].named, TRUE);
		directory = file_registry_default_directory();
		g_assert_true(g_path_is_absolute(directory));
		if (CASES[i].directory != NULL)
			g_assert_cmpstr(directory, ==, CASES[i].directory);
		else if (geteuid() == 0)
			g_assert_cmpstr(directory, ==, "/var/lib/snowflaked");
		else
			g_assert_true(g_str_has_suffix(directory, "/snowflaked"));
	}
}

/* The end in the record after a release depends on the last used tick, and on the end that was
 * written to the record meanwhile. The reservation is from NOW + 1 to NOW + LENGTH. */
TEST("/file-registry/release", test_release)
{
	enum { NOTHING = -1 };
	static const struct {
		gint64 last, put, end;
	} CASES[] = {
		{NOW, NOTHING, NOW},
		{NOW + 1, NOTHING, NOW + 1},
		{NOW + 700, NOTHING, NOW + 700},
		{0, NOTHING, NOW},
		{NOW + 3 * LENGTH, NOTHING, NOW + LENGTH},
		/* the record was set back */
		{NOW + 700, NOW + 300, NOW + 700},
		{NOW + 700, 0, NOW + 700},
		{NOW + LENGTH, NOW + LENGTH - 1, NOW + LENGTH},
		{NOW + 3 * LENGTH, NOW + 300, NOW + LENGTH},
		{0, NOW - 5, NOW},
		{NOW + 700, NOW + 2 * LENGTH, NOW + 700},
		/* an extension in doubt */
		{NOW + 3 * LENGTH, NOW + 2 * LENGTH, NOW + 2 * LENGTH},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = new_registry(directory, "n1");
		g_autofree char *text = record_text(CASES[i].put, "n1");

		g_test_message("case %u", i);
		write_record(directory, NOW, "n0");
		claim_well(registry, NOW);
		if (CASES[i].put != NOTHING)
			write_in_place(directory, text);
		/* release twice, because the first result may be unknown */
		for (guint n = 0; n < (CASES[i].put != NOTHING ? 1 : 2); n++) {
			RegistryResult result = release(registry, CASES[i].last);

			g_assert_no_error(result.error);
		}
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, CASES[i].end);
	}
}

static const char *claim_and_get_id(Registry *registry)
{
	RegistryReport report;

	registry->ops->begin(registry, REGISTRY_CLAIM, LENGTH);
	g_assert_true(registry->ops->poll(registry, NOW, 0, &report));
	g_assert_no_error(report.result.error);
	return report.registry_id;
}

/* Servers with one directory report one ID. If the directory is replaced, its ID changes, but the
 * reported one stays valid. */
TEST("/file-registry/id", test_id)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = new_registry(directory, "a");
	g_autoptr(Registry) other = registry_of_layout(directory, &LAYOUT_TWITTER, 4, "b");
	g_autofree char *before = g_strdup(claim_and_get_id(registry));
	const char *id = claim_and_get_id(other);

	g_assert_true(g_uuid_string_is_valid(id));
	g_assert_cmpstr(id, ==, before);
	state_fixture_write(directory, "registry.json",
			    "{\"format\":1,\"id\":\"6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55\"}");
	release(other, 0);
	g_assert_cmpstr(claim_and_get_id(other), ==, "6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55");
	g_assert_cmpstr(id, ==, before);
}

/* A new file can get the inode of a removed file, but not while the removed file is open. */
TEST("/file-registry/inode-is-kept", test_inode_is_kept)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = new_registry(directory, "n1");
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);
	g_autofree char *text = NULL;
	RegistryResult result;
	GStatBuf before, after;

	claim_well(registry, NOW);
	text = state_fixture_read(directory, RECORD);
	g_assert_no_errno(g_stat(path, &before));
	for (int i = 0; i < 20; i++) {
		g_assert_no_errno(g_unlink(path));
		write_in_place(directory, text);
		g_assert_no_errno(g_stat(path, &after));
		g_assert_cmpint(before.st_ino, !=, after.st_ino);
	}
	result = poll_registry(registry, NOW);
	assert_failed(&result, REGISTRY_ERROR_LOST, "was replaced");
}

TEST("/file-registry/lock-restored", test_lock_restored)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autofree char *holder =
		g_strdup_printf("is held by pid %d (" ADDRESS ", started 20", (int)getpid());
	g_autoptr(Registry) first = new_registry(directory, "n1");
	g_autoptr(Registry) second = new_registry(directory, "n2");

	claim_well(first, NOW);
	g_unlink(path);
	g_assert_cmpint(extend_well(first, NOW + 1500), ==, NOW + 1500);
	assert_claim_fails(second, REGISTRY_ERROR_FATAL, holder);
}

/* The server writes its lock file in place, so a file with a second name is refused. */
TEST("/file-registry/lock-with-two-names", test_lock_with_two_names)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = new_registry(directory, "n1");
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autofree char *other = g_strconcat(path, ".link", NULL);
	g_autofree char *left = NULL;

	claim_well(registry, NOW);
	g_assert_no_errno(g_unlink(path));
	state_fixture_write(directory, LOCK, "precious");
	g_assert_no_errno(link(path, other));
	assert_extend_fails(registry, REGISTRY_ERROR_FATAL,
			    LOCK " was changed by another program: it has 2 links");
	left = state_fixture_read(directory, LOCK);
	g_assert_cmpstr(left, ==, "precious");
}

TEST("/file-registry/none-free", test_none_free)
{
	const Layout layout = {0, 1, 41, 0, 1, 12}; /* two worker IDs */
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) first = registry_of_layout(directory, &layout, -1, "n1");
	g_autoptr(Registry) second = registry_of_layout(directory, &layout, -1, "n2");
	g_autoptr(Registry) third = registry_of_layout(directory, &layout, -1, "n3");
	RegistryResult result;

	claim_well(first, NOW);
	claim_well(second, NOW);
	result = claim(third, NOW);
	g_assert_cmpint(result.wait_until_tick, ==, NOW + LENGTH);
	assert_failed(&result, REGISTRY_ERROR_WAIT,
		      "none of the 2 worker IDs of datacenter 0 is free in ");

	/* the failed claim does not block other claims */
	release(second, NOW);
	g_clear_pointer(&second, free_registry);
	second = registry_of_layout(directory, &layout, -1, "n4");
	g_assert_cmpuint(claim_well(second, NOW + 1).worker_id, ==, 1);
}
