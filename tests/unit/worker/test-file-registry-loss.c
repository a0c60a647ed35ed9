/* SPDX-License-Identifier: Apache-2.0 */

/* What befalls the record and the directory of a server that runs. */
#include <glib/gstdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/worker/file-fixture.h"
#include "tests/unit/worker/state-fixture.h"

static const char *goes_unlocked; /* (nullable): a file that is removed when it was opened, and is
				     about to be locked */

/* In the place of the C library's. */
int flock(int fd, int operation)
{
	struct stat opened, named;

	if (goes_unlocked != NULL && fstat(fd, &opened) == 0 && stat(goes_unlocked, &named) == 0 &&
	    opened.st_ino == named.st_ino) {
		g_assert_no_errno(unlink(goes_unlocked));
		goes_unlocked = NULL;
	}
	return (int)syscall(SYS_flock, fd, operation);
}

static void test_damaged_while_held(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");

	file_fixture_claim_well(registry, NOW);
	file_fixture_write_in_place(directory, "");
	file_fixture_assert_extend_fails(registry, REGISTRY_ERROR_FATAL, RECORD " is damaged");
}

static void test_set_back(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	g_autofree char *text = file_fixture_record_text(NOW + LENGTH - 1, "n1");

	file_fixture_claim_well(registry, NOW);
	file_fixture_write_in_place(directory, text);
	file_fixture_assert_extend_fails(registry, REGISTRY_ERROR_LOST, RECORD " was set back");
}

/* The end that is handed back, by the last tick used and by what was put into the record of a
 * reservation from NOW + 1 to NOW + LENGTH. */
static void test_hand_back_after_set_back(void)
{
	static const struct {
		gint64 last, put, end;
	} CASES[] = {
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
		g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
		g_autofree char *text = file_fixture_record_text(CASES[i].put, "n1");
		RegistryResult result;

		g_test_message("case %u", i);
		file_fixture_write_record(directory, NOW, "n0");
		file_fixture_claim_well(registry, NOW);
		file_fixture_write_in_place(directory, text);
		result = file_fixture_hand_back(registry, CASES[i].last);
		g_assert_no_error(result.error);
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, CASES[i].end);
	}
}

static void remove_record(const char *directory)
{
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);

	g_assert_no_errno(g_unlink(path));
}

static void damage_record(const char *directory)
{
	state_fixture_write(directory, RECORD, "{");
}

static void take_record(const char *directory)
{
	file_fixture_write_record(directory, NOW + 3 * LENGTH, "n2");
}

static void copy_record(const char *directory)
{
	g_autofree char *text = state_fixture_read(directory, RECORD);

	state_fixture_write(directory, RECORD, text);
}

static void move_away(const char *directory)
{
	g_autofree char *away = g_strconcat(directory, ".away", NULL);

	g_assert_no_errno(g_rename(directory, away));
}

static void put_a_file_there(const char *directory)
{
	move_away(directory);
	g_assert_true(g_file_set_contents(directory, "", -1, NULL));
}

static void put_another_there(const char *directory)
{
	move_away(directory);
	g_assert_no_errno(g_mkdir(directory, 0700));
}

static void put_one_in_use_there(const char *directory)
{
	g_autoptr(Registry) other = file_fixture_registry(directory, "n2");

	put_another_there(directory);
	file_fixture_claim_well(other, NOW);
}

static void test_noticed(void)
{
	static const struct {
		void (*befall)(const char *directory);
		const char *message;
	} CASES[] = {
		{remove_record, RECORD " is gone"},
		{damage_record, RECORD " was replaced"},
		{take_record, RECORD " is now of other:1 (owner n2)"},
		{copy_record, RECORD " was replaced"},
		{move_away, RECORD " is gone"},
		{put_a_file_there, RECORD " is gone"},
		{put_another_there, RECORD " is gone"},
		{put_one_in_use_there, RECORD " is now of " ADDRESS " (owner n2)"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		for (guint busy = 0; busy < 2; busy++) {
			g_autoptr(StateFixture) fixture = state_fixture_new();
			g_autofree char *directory = g_build_filename(fixture, "state", NULL);
			g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
			RegistryResult result;

			g_test_message("case %u", i);
			file_fixture_claim_well(registry, NOW);
			file_fixture_extend_well(registry, NOW + LENGTH + 100);
			g_assert_cmpint(registry->poll_at_us, <=,
					g_get_monotonic_time() + 100 * G_TIME_SPAN_MILLISECOND);
			CASES[i].befall(directory);
			if (busy)
				registry->ops->extend(registry, NOW + 2 * LENGTH);
			result = file_fixture_poll(registry, NOW);
			file_fixture_assert_failed(&result, REGISTRY_ERROR_LOST, CASES[i].message);
			g_assert_cmpint(registry->poll_at_us, ==, G_MAXINT64);
		}
	}
}

/* What is no more can be claimed anew. */
static void test_made_anew(void)
{
	g_autoptr(StateFixture) fixture = state_fixture_new();
	g_autofree char *directory = g_build_filename(fixture, "state", NULL);
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");
	RegistryResult result;

	file_fixture_claim_well(registry, NOW);
	move_away(directory);
	result = file_fixture_poll(registry, NOW);
	file_fixture_assert_failed(&result, REGISTRY_ERROR_LOST, "is gone");
	g_assert_cmpint(file_fixture_claim_well(registry, NOW + 100).end_tick, ==,
			NOW + 100 + LENGTH);
	g_assert_cmpint(file_fixture_extend_well(registry, NOW + 2 * LENGTH), ==, NOW + 2 * LENGTH);
	file_fixture_assert_claim_fails(second, REGISTRY_ERROR_FATAL, "is held by pid ");
}

/* A new file may have the inode of one that is gone; not while that is open. */
static void test_inode_is_kept(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);
	g_autofree char *text = NULL;
	RegistryResult result;
	GStatBuf before, after;

	file_fixture_claim_well(registry, NOW);
	text = state_fixture_read(directory, RECORD);
	g_assert_no_errno(g_stat(path, &before));
	for (int i = 0; i < 20; i++) {
		g_assert_no_errno(g_unlink(path));
		file_fixture_write_in_place(directory, text);
		g_assert_no_errno(g_stat(path, &after));
		g_assert_cmpint(before.st_ino, !=, after.st_ino);
	}
	result = file_fixture_poll(registry, NOW);
	file_fixture_assert_failed(&result, REGISTRY_ERROR_LOST, "was replaced");
}

static void test_record_of_another(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	RegistryResult result;

	file_fixture_claim_well(registry, NOW);
	file_fixture_write_record(directory, NOW + LENGTH - 1, "n2");
	file_fixture_assert_extend_fails(registry, REGISTRY_ERROR_LOST,
					 "is now of other:1 (owner n2)");
	file_fixture_write_record(directory, NOW + 1700, "n2");
	file_fixture_assert_extend_fails(registry, REGISTRY_ERROR_LOST,
					 "is now of other:1 (owner n2)");
	result = file_fixture_hand_back(registry, NOW);
	file_fixture_assert_failed(&result, REGISTRY_ERROR_LOST, "is now of other:1 (owner n2)");
	g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, NOW + 1700);
	g_assert_cmpint(file_fixture_claim_well(registry, NOW + 1000).first_tick, ==, NOW + 1701);
}

static void test_record_removed(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);

	file_fixture_claim_well(registry, NOW);
	g_unlink(path);
	file_fixture_assert_extend_fails(registry, REGISTRY_ERROR_LOST, "is gone");
	g_assert_cmpint(file_fixture_claim_well(registry, NOW).end_tick, ==, NOW + LENGTH);
}

/* Two servers behind two lock files of one name: uniqueness does not rest on the lock. */
static void test_lock_removed(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autoptr(Registry) first = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");

	file_fixture_claim_well(first, NOW);
	g_unlink(path);
	g_assert_cmpint(file_fixture_claim_well(second, NOW + 1).first_tick, ==, NOW + LENGTH + 1);
	file_fixture_assert_extend_fails(first, REGISTRY_ERROR_LOST,
					 "is now of " ADDRESS " (owner n2)");
	file_fixture_assert_claim_fails(first, REGISTRY_ERROR_FATAL, "is held by pid ");
	g_assert_cmpint(file_fixture_extend_well(second, NOW + 1500), ==, NOW + 1500);
}

static void test_lock_removed_and_made_again(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autoptr(Registry) first = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");

	file_fixture_claim_well(first, NOW);
	g_unlink(path);
	g_assert_cmpint(file_fixture_extend_well(first, NOW + 1500), ==, NOW + 1500);
	file_fixture_assert_claim_fails(second, REGISTRY_ERROR_FATAL, "is held by pid ");
}

/* Whoever comes after finds the file that has the name, and a lock on it. */
static void test_lock_removed_before_it_is_locked(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autoptr(Registry) first = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");

	goes_unlocked = path;
	file_fixture_claim_well(first, NOW);
	g_assert_null(goes_unlocked);
	file_fixture_assert_claim_fails(second, REGISTRY_ERROR_FATAL, "is held by pid ");
}

/* cp -al */
static void link_file(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *other = g_strconcat(path, ".link", NULL);

	g_assert_no_errno(link(path, other));
}

static void unlink_other(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *other = g_strconcat(path, ".link", NULL);

	g_assert_no_errno(g_unlink(other));
}

/* What a snapshot of hard links does to a server that runs is nothing; a start, which may be one on
 * a copy in use, is refused. */
static void test_links(void)
{
	static const char *const NAMES[] = {"directory.json", LOCK, RECORD};
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) first = file_fixture_registry(directory, "n1");
	g_autoptr(Registry) second = file_fixture_registry(directory, "n2");
	RegistryResult result;

	file_fixture_claim_well(first, NOW);
	for (guint i = 0; i < G_N_ELEMENTS(NAMES); i++)
		link_file(directory, NAMES[i]);
	g_assert_cmpint(file_fixture_extend_well(first, NOW + 1500), ==, NOW + 1500);
	unlink_other(directory, RECORD);
	link_file(directory, RECORD);
	result = file_fixture_hand_back(first, NOW + 600);
	g_assert_no_error(result.error);
	unlink_other(directory, RECORD);
	link_file(directory, RECORD);
	g_assert_cmpint(file_fixture_claim_well(first, NOW + 700).first_tick, ==, NOW + 601);
	result = file_fixture_hand_back(first, NOW + 800);
	g_assert_no_error(result.error);
	g_clear_pointer(&first, file_fixture_free);

	for (guint i = 0; i < G_N_ELEMENTS(NAMES); i++)
		unlink_other(directory, NAMES[i]);
	for (guint i = 0; i < G_N_ELEMENTS(NAMES); i++) {
		g_test_message("%s", NAMES[i]);
		link_file(directory, NAMES[i]);
		file_fixture_assert_claim_fails(second, REGISTRY_ERROR_FATAL,
						"cp -p FILE x && mv x FILE");
		unlink_other(directory, NAMES[i]);
	}
	file_fixture_claim_well(second, NOW);
}

/* It is written in place: made anew for a server that runs, it may be no other file either. */
static void test_lock_with_two_names(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) registry = file_fixture_registry(directory, "n1");
	g_autofree char *path = g_build_filename(directory, LOCK, NULL);
	g_autofree char *left = NULL;

	file_fixture_claim_well(registry, NOW);
	g_assert_no_errno(g_unlink(path));
	state_fixture_write(directory, LOCK, "precious");
	link_file(directory, LOCK);
	file_fixture_assert_extend_fails(registry, REGISTRY_ERROR_FATAL,
					 LOCK " is not as a server leaves it, it has 2 links");
	left = state_fixture_read(directory, LOCK);
	g_assert_cmpstr(left, ==, "precious");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/file-registry-loss/damaged-while-held", test_damaged_while_held);
	g_test_add_func("/file-registry-loss/set-back", test_set_back);
	g_test_add_func("/file-registry-loss/hand-back-after-set-back",
			test_hand_back_after_set_back);
	g_test_add_func("/file-registry-loss/noticed", test_noticed);
	g_test_add_func("/file-registry-loss/made-anew", test_made_anew);
	g_test_add_func("/file-registry-loss/inode-is-kept", test_inode_is_kept);
	g_test_add_func("/file-registry-loss/record-of-another", test_record_of_another);
	g_test_add_func("/file-registry-loss/record-removed", test_record_removed);
	g_test_add_func("/file-registry-loss/lock-removed", test_lock_removed);
	g_test_add_func("/file-registry-loss/lock-made-again", test_lock_removed_and_made_again);
	g_test_add_func("/file-registry-loss/lock-removed-before-it-is-locked",
			test_lock_removed_before_it_is_locked);
	g_test_add_func("/file-registry-loss/links", test_links);
	g_test_add_func("/file-registry-loss/lock-with-two-names", test_lock_with_two_names);
	return g_test_run();
}
