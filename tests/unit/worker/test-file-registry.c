/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/registry.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/file-fixture.h"
#include "tests/unit/worker/state-fixture.h"

static void assert_handed_back(Registry *registry, gint64 last_tick)
{
	RegistryResult result = file_fixture_hand_back(registry, last_tick);

	g_assert_no_error(result.error);
}

static void test_life(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	g_autofree char *text = NULL;
	Reservation reservation = file_fixture_claim_well(registry, NOW);

	g_assert_cmpuint(reservation.datacenter_id, ==, 0);
	g_assert_cmpuint(reservation.worker_id, ==, 3);
	g_assert_cmpint(reservation.first_tick, ==, 1);
	g_assert_cmpint(reservation.end_tick, ==, NOW + LENGTH);
	text = state_fixture_read(directory, RECORD);
	g_assert_cmpstr(text, ==,
			"{\"reserved_until_tick\":500000001000,\"owner\":\"n1\","
			"\"address\":\"" ADDRESS "\"}");

	g_assert_cmpint(file_fixture_extend_well(registry, NOW + 1250), ==, NOW + 1250);
	g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, NOW + 1250);
	assert_handed_back(registry, NOW + 300);
	g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, NOW + 300);
}

/* What the next life gets, by what stands in the record. */
static void test_next_life(void)
{
	const gint64 MAX_TICK = layout_max_tick(&LAYOUT_TWITTER);
	const struct {
		gint64 record_end, now;
		gint64 first, end; /* of the reservation, or 0 */
		gint64 wait_until; /* with WAIT, or 0 */
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
		{MAX_TICK, MAX_TICK - 10, 0, 0, 0}, /* FATAL: there is nothing left */
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = file_fixture_registry(directory, "n2");
		RegistryResult result;

		g_test_message("case %u", i);
		file_fixture_write_record(directory, CASES[i].record_end, "n1");
		result = file_fixture_claim(registry, CASES[i].now);
		g_assert_cmpint(result.reservation.first_tick, ==, CASES[i].first);
		g_assert_cmpint(result.reservation.end_tick, ==, CASES[i].end);
		g_assert_cmpint(result.wait_until_tick, ==, CASES[i].wait_until);
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==,
				CASES[i].end != 0 ? CASES[i].end : CASES[i].record_end);
		if (CASES[i].end != 0)
			g_assert_no_error(result.error);
		else if (CASES[i].wait_until != 0)
			file_fixture_assert_failed(&result, REGISTRY_ERROR_WAIT,
						   "is reserved up to");
		else
			file_fixture_assert_failed(&result, REGISTRY_ERROR_FATAL,
						   "the end of the layout");
	}
}

static void test_wait_message(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n2");
	g_autofree char *until = layout_tick_text(&LAYOUT_TWITTER, NOW + 3600000 - LENGTH + 1);
	g_autofree char *remedy = g_strdup_printf(
		"wait until %s, set the clock right, or use another --worker-id", until);

	file_fixture_write_record(directory, NOW + 3600000, "n1");
	file_fixture_assert_claim_fails(registry, REGISTRY_ERROR_WAIT, remedy);
}

/* The end that is handed back, by the last tick used; the reservation begins at NOW + 1. */
static void test_hand_back(void)
{
	static const struct {
		gint64 last, end;
	} CASES[] = {{NOW, NOW},
		     {NOW + 1, NOW + 1},
		     {NOW + 700, NOW + 700},
		     {0, NOW},
		     {NOW + 3 * LENGTH, NOW + LENGTH}};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = file_fixture_registry(directory, "n2");

		file_fixture_write_record(directory, NOW, "n1");
		file_fixture_claim_well(registry, NOW);
		assert_handed_back(registry, CASES[i].last);
		assert_handed_back(registry, CASES[i].last); /* the first one may be in doubt */
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, CASES[i].end);
	}
}

/* An extension that failed after it was written has moved the record on. */
static void test_extend_after_doubt(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");

	g_autofree char *text = file_fixture_record_text(NOW + 1500, "n1");

	file_fixture_claim_well(registry, NOW);
	file_fixture_write_in_place(directory, text);
	g_assert_cmpint(file_fixture_extend_well(registry, NOW + 1400), ==, NOW + 1500);
	g_assert_cmpint(file_fixture_extend_well(registry, NOW + 1600), ==, NOW + 1600);
}

static void test_end_of_layout(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	gint64 max_tick = layout_max_tick(&LAYOUT_TWITTER);

	file_fixture_claim_well(registry, max_tick - 2000);
	g_assert_cmpint(file_fixture_extend_well(registry, max_tick + 5), ==, max_tick);
}

static void test_damaged_record(void)
{
	static const char *const RECORDS[] = {
		"",
		"\n",
		"{",
		"{\"reserved_until_tick\":500000",
		"{\"reserved_until_tick\":5,\"owner\":\"n\",\"address\":\"a:1\"",
		"{\"reserved_until_tick\":5,\"owner\":\"n\",\"address\":\"a:1\"}}",
		"hello",
		"5",
		"[]",
		"{}",
		"null",
		"{\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":5,\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":5,\"owner\":\"n\"}",
		"{\"reserved_until_tick\":5,\"owner\":\"n\",\"address\":\"a:1\",\"more\":1}",
		"{\"reserved_until_tick\":0506475077573,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":0x10,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":5,\"owner\":\"n\",\"address\":\"a:1\"} // 9",
		"{\"reserved_until_tick\":9,\"owner\":\"\",\"owner\":\"n\",\"address\":\"\"}",
		"{\"reserved_until_tick\":\"5\",\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":5.5,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":null,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":5,\"owner\":7,\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":-1,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":2199023255552,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":9223372036854775808,\"owner\":\"n\",\"address\":\"a:1\"}",
		"{\"reserved_until_tick\":18446744073709551617,\"owner\":\"n\",\"address\":\"a\"}",
	};

	for (guint i = 0; i < G_N_ELEMENTS(RECORDS); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = file_fixture_registry(directory, "n");
		g_autofree char *left = NULL;

		g_test_message("%s", RECORDS[i]);
		file_fixture_write_text(directory, RECORDS[i]);
		file_fixture_assert_claim_fails(registry, REGISTRY_ERROR_FATAL,
						RECORD " is damaged");
		left = state_fixture_read(directory, RECORD);
		g_assert_cmpstr(left, ==, RECORDS[i]);
	}
}

static void test_damage_is_named(void)
{
	static const struct {
		const char *record, *fault;
	} CASES[] = {
		{"hello", RECORD " is damaged (\"hello\" is not a JSON object"},
		{"{\"owner\":\"n\",\"address\":\"a:1\"}",
		 "(\"reserved_until_tick\" is missing), so that"},
		{"{\"reserved_until_tick\":5,\"owner\":\"n\",\"address\":\"a:1\",\"more\":1}",
		 "(there are 4 members, not 3)"},
		{"{\"reserved_until_tick\":2199023255552,\"owner\":\"n\",\"address\":\"a:1\"}",
		 "(its reserved_until_tick is past the end of the layout)"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StateFixture) directory = state_fixture_new();
		g_autoptr(Registry) registry = file_fixture_registry(directory, "n");

		file_fixture_write_text(directory, CASES[i].record);
		file_fixture_assert_claim_fails(registry, REGISTRY_ERROR_FATAL, CASES[i].fault);
	}
}

/* What befalls the directory of a server that runs. */

/* Other processes: each does one thing, says so over a pipe, and lives until it is killed or the
 * other end of the pipe is closed. */
typedef struct {
	pid_t pid;
	int to, from;
} Child;

typedef struct {
	gboolean claimed;
	gint code;
} Answer;

static void G_GNUC_NORETURN child_main(const char *directory, guint worker_id, int in, int out)
{
	g_autofree char *nonce = g_strdup_printf("child-%d", (int)getpid());
	Registry *registry = file_registry_new(&(FileRegistryConfig){
		.directory = directory,
		.layout = &LAYOUT_TWITTER,
		.worker_id = worker_id,
		.nonce = nonce,
		.address = "child:1",
		.machine_id = MACHINE,
	});
	Answer answer = {0};
	RegistryResult result;
	char go;

	if (read(in, &go, 1) != 1)
		_exit(1);
	result = file_fixture_claim(registry, NOW);
	answer.claimed = result.error == NULL;
	answer.code = result.error != NULL ? result.error->code : 0;
	if (write(out, &answer, sizeof answer) != sizeof answer)
		_exit(1);
	_exit(read(in, &go, 1) == 0 ? 0 : 1); /* at the end of file */
}

static Child start_child(const char *directory, guint worker_id)
{
	int in[2], out[2];
	pid_t pid;

	g_assert_no_errno(pipe(in));
	g_assert_no_errno(pipe(out));
	pid = fork();
	if (pid == 0) {
		/* only the parent's end keeps the child alive */
		for (int fd = 3; fd < 1024; fd++)
			if (fd != in[0] && fd != out[1])
				close(fd);
		child_main(directory, worker_id, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	return (Child){pid, in[1], out[0]};
}

static void let_go(const Child *child)
{
	g_assert_cmpint(write(child->to, "g", 1), ==, 1);
}

static Answer get_answer(const Child *child)
{
	Answer answer;

	g_assert_cmpint(read(child->from, &answer, sizeof answer), ==, sizeof answer);
	return answer;
}

static int end_child(const Child *child)
{
	int status;

	close(child->to);
	close(child->from);
	g_assert_cmpint(waitpid(child->pid, &status, 0), ==, child->pid);
	return status;
}

static void test_held_by_live_process(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	Child child = start_child(directory, 3);
	g_autofree char *holder =
		g_strdup_printf("is held by pid %d (child:1, started 20", (int)child.pid);

	let_go(&child);
	g_assert_true(get_answer(&child).claimed);
	file_fixture_assert_claim_fails(registry, REGISTRY_ERROR_FATAL, holder);

	/* killed, it lets go of the lock, but not of what it had reserved */
	kill(child.pid, SIGKILL);
	g_assert_cmpint(end_child(&child), ==, SIGKILL);
	g_assert_cmpint(file_fixture_claim_well(registry, NOW + 1).first_tick, ==,
			NOW + LENGTH + 1);
}

/* Many servers find nothing there, all at once. */
static void start_at_once(guint n, gboolean same_worker, guint *out_claimed)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *directory = g_build_filename(fixture, "not", "there", "yet", NULL);
	g_autofree Child *children = g_new(Child, n);

	*out_claimed = 0;
	for (guint i = 0; i < n; i++)
		children[i] = start_child(directory, same_worker ? 3 : i);
	for (guint i = 0; i < n; i++)
		let_go(&children[i]);
	for (guint i = 0; i < n; i++) {
		Answer answer = get_answer(&children[i]);

		*out_claimed += (guint)answer.claimed;
		if (!answer.claimed)
			g_assert_cmpint(answer.code, ==, REGISTRY_ERROR_FATAL);
	}
	for (guint i = 0; i < n; i++)
		g_assert_cmpint(end_child(&children[i]), ==, 0);
	g_assert_cmpuint(state_fixture_count(directory, ".new"), ==, 0);
	g_assert_cmpuint(state_fixture_count(directory, "directory.json"), ==, 1);
}

static void test_first_starts_at_once(void)
{
	guint claimed;

	start_at_once(32, FALSE, &claimed);
	g_assert_cmpuint(claimed, ==, 32);
	start_at_once(16, TRUE, &claimed);
	g_assert_cmpuint(claimed, ==, 1);
}

static void test_holder_not_named(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autoptr(Registry) first = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");

	file_fixture_claim_well(first, NOW);
	g_assert_no_errno(truncate(path, 0));
	file_fixture_assert_claim_fails(second, REGISTRY_ERROR_FATAL, "is held by another process");
}

static void test_leftovers(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");

	state_fixture_write(directory, RECORD ".1234.new", "{\"reserved_un");
	state_fixture_write(directory, "directory.json.1234.new", "{");
	g_assert_cmpint(file_fixture_claim_well(registry, NOW).first_tick, ==, 1);
	g_assert_cmpuint(state_fixture_count(directory, ".new"), ==, 0);
}

/* What the check says is in its own test; here, that a claim asks it before it writes. */
static void test_other_identity(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");

	state_fixture_write(directory, "directory.json", "{}");
	file_fixture_assert_claim_fails(registry, REGISTRY_ERROR_FATAL,
					"directory.json is damaged");
	g_assert_false(state_fixture_has(directory, RECORD));
}

static void test_read_only(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");

	if (!state_fixture_mount(directory))
		return;
	state_fixture_set_read_only(directory, TRUE);
	file_fixture_assert_claim_fails(registry, REGISTRY_ERROR_FAILED, "Read-only file system");
	state_fixture_set_read_only(directory, FALSE);
	file_fixture_claim_well(registry, NOW);
}

static void test_full_disk(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) first = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");

	if (!state_fixture_mount(directory))
		return;
	file_fixture_claim_well(first, NOW - 1);
	state_fixture_fill(directory);
	file_fixture_assert_extend_fails(first, REGISTRY_ERROR_FAILED, "No space left on device");
	g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, NOW - 1 + LENGTH);

	g_clear_pointer(&first, file_fixture_free);
	file_fixture_assert_claim_fails(second, REGISTRY_ERROR_FAILED, "No space left on device");
	state_fixture_empty(directory);
	g_assert_cmpint(file_fixture_claim_well(second, NOW).first_tick, ==, NOW + LENGTH);
}

/* The environment is read once per process by GLib, hence one test for all of it. */
static void test_default_directory(void)
{
	g_autofree char *relative = g_canonicalize_filename("some", NULL);
	const struct {
		const char *named, *directory; /* NULL: unset, and what the user has without it */
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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/file-registry/life", test_life);
	g_test_add_func("/file-registry/next-life", test_next_life);
	g_test_add_func("/file-registry/wait-message", test_wait_message);
	g_test_add_func("/file-registry/hand-back", test_hand_back);
	g_test_add_func("/file-registry/extend-after-doubt", test_extend_after_doubt);
	g_test_add_func("/file-registry/end-of-layout", test_end_of_layout);
	g_test_add_func("/file-registry/damaged-record", test_damaged_record);
	g_test_add_func("/file-registry/damage-is-named", test_damage_is_named);
	g_test_add_func("/file-registry/held-by-live-process", test_held_by_live_process);
	g_test_add_func("/file-registry/first-starts-at-once", test_first_starts_at_once);
	g_test_add_func("/file-registry/holder-not-named", test_holder_not_named);
	g_test_add_func("/file-registry/leftovers", test_leftovers);
	g_test_add_func("/file-registry/other-identity", test_other_identity);
	g_test_add_func("/file-registry/read-only", test_read_only);
	g_test_add_func("/file-registry/full-disk", test_full_disk);
	g_test_add_func("/file-registry/default-directory", test_default_directory);
	return g_test_run();
}
