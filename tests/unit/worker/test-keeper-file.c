/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/keeper-fixture.h"
#include "tests/unit/worker/state-fixture.h"
#include "worker/file/registry.h"

/* The keeper on a real directory. */

#define RECORD "worker-0-0.json"

static Registry *file_registry(const char *directory, const char *nonce)
{
	return file_registry_new(&(FileRegistryConfig){
		.directory = directory,
		.layout = &LAYOUT_TWITTER,
		.nonce = nonce,
		.address = "127.0.0.1:7609",
	});
}

static void test_life(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	gint64 last = 0;

	for (int life = 0; life < 3; life++) {
		g_auto(Server) server;
		gint64 id;

		server_init(&server);
		server_start_on(&server, file_registry(directory, life % 2 == 0 ? "n1" : "n2"));
		id = server_draw_in_time(&server);
		g_assert_cmpint(id, >, last);
		last = id;
		server_stop(&server);
		/* all but what was used */
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, tick_of_id(last));
	}
}

static void test_idle(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);
	struct stat before, after;
	g_auto(Server) server;
	gint64 end_tick, id;
	KeeperStatus status;

	server_init(&server);
	server_start_on(&server, file_registry(directory, "n1"));
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
	g_assert_no_errno(stat(path, &before));
	end_tick = state_fixture_record_end(directory, RECORD);
	keeper_get_status(server.keeper, &status);
	g_assert_cmpint(status.reserved_until_ms, ==,
			layout_tick_start_ms(&LAYOUT_TWITTER, end_tick));
	g_assert_cmpint(ABS(status.claimed_at_ms + 1000 - status.reserved_until_ms), <=, 1);
	WAIT_FOR(server_tick(&server) > end_tick + MAX_AHEAD_MS);
	keeper_get_status(server.keeper, &status);
	g_assert_cmpint(status.reserved_until_ms, ==, 0);
	g_assert_cmpint(status.state, ==, KEEPER_SERVING);
	g_assert_no_errno(stat(path, &after));
	g_assert_cmpint(before.st_ino, ==, after.st_ino);
	g_assert_cmpint(before.st_mtim.tv_nsec, ==, after.st_mtim.tv_nsec);
	g_assert_cmpint(server_draw(&server, &id), ==, DRAW_UNRESERVED);
	id = server_draw_in_time(&server);
	g_assert_cmpint(state_fixture_record_end(directory, RECORD), >=, tick_of_id(id));
}

static void test_full_disk(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	gint64 before;

	if (!state_fixture_mount(directory))
		return;

	g_auto(Server) server;

	server_init(&server);
	server_start_on(&server, file_registry(directory, "n1"));
	before = server_draw_in_time(&server);
	state_fixture_fill(directory);
	WAIT_FOR(server_state(&server) == KEEPER_UNAVAILABLE);
	assert_logged(LOG_EXTEND_FAILED, 1, "No space left on device");
	g_assert_null(keeper_error(server.keeper));
	state_fixture_empty(directory);
	g_assert_cmpint(server_draw_in_time(&server), >, before);
	WAIT_FOR(server_state(&server) == KEEPER_SERVING);
}

static void test_unusable(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *below = g_build_filename(directory, "file", "below", NULL);
	g_autoptr(GError) error = NULL;
	g_auto(Server) server;

	server_init(&server);
	state_fixture_write(directory, "file", "");
	server_start_on(&server, file_registry(below, "n1"));
	WAIT_FOR((error = keeper_error(server.keeper)) != NULL);
	g_assert_nonnull(strstr(error->message, "Not a directory"));
}

/* The property that everything rests on: whenever an ID exists, the record covers its tick. */
typedef struct {
	Server *server;
	const char *directory;
	_Atomic gboolean done;
	_Atomic guint64 drawn;
	pthread_t thread;
} Drawer;

static void *draw_and_check(void *user_data)
{
	Drawer *self = user_data;
	guint64 drawn = 0;

	while (!atomic_load(&self->done)) {
		gint64 id = server_draw_in_time(self->server);

		/* reading a file takes as long as drawing a hundred IDs */
		if (++drawn % 64 == 0)
			g_assert_cmpint(state_fixture_record_end(self->directory, RECORD), >=,
					tick_of_id(id));
	}
	atomic_store(&self->drawn, drawn);
	return NULL;
}

static void test_record_covers_ids(void)
{
	enum { THREADS = 2, EXTENSIONS = 8 };
	g_autoptr(StateFixture) directory = state_fixture_new();
	Drawer drawers[THREADS];
	g_auto(Server) server;
	gint64 end_tick;

	server_init_real(&server);
	server_start_on(&server, file_registry(directory, "n1"));
	server_draw_in_time(&server);
	for (int i = 0; i < THREADS; i++) {
		drawers[i] = (Drawer){.server = &server, .directory = directory};
		g_assert_cmpint(
			pthread_create(&drawers[i].thread, NULL, draw_and_check, &drawers[i]), ==,
			0);
	}
	end_tick = state_fixture_record_end(directory, RECORD);
	for (int i = 0; i < EXTENSIONS; i++) {
		WAIT_FOR(state_fixture_record_end(directory, RECORD) > end_tick);
		end_tick = state_fixture_record_end(directory, RECORD);
	}
	for (int i = 0; i < THREADS; i++) {
		atomic_store(&drawers[i].done, TRUE);
		pthread_join(drawers[i].thread, NULL);
		g_assert_cmpuint(atomic_load(&drawers[i].drawn), >, 1000);
	}
}

/* A life that draws and reports each ID until it is killed. */
static void G_GNUC_NORETURN draw_until_killed(const char *directory, int out)
{
	g_autofree char *nonce = g_strdup_printf("life-%d", (int)getpid());
	Server server;

	server_init_real(&server);
	server_start_on(&server, file_registry(directory, nonce));
	for (;;) {
		gint64 id = server_draw_in_time(&server);

		if (write(out, &id, sizeof id) != sizeof id)
			_exit(1);
	}
}

static void test_killed_in_a_loop(void)
{
	enum { LIVES = 4, IDS = 20000 };
	g_autoptr(StateFixture) directory = state_fixture_new();
	gint64 last = 0;

	for (int life = 0; life < LIVES; life++) {
		int pipe_fds[2], status;
		pid_t pid;
		gint64 id;

		g_assert_no_errno(pipe(pipe_fds));
		pid = fork();
		if (pid == 0)
			draw_until_killed(directory, pipe_fds[1]);
		close(pipe_fds[1]);
		for (int n = 0; read(pipe_fds[0], &id, sizeof id) == sizeof id; n++) {
			g_assert_cmpint(id, >, last); /* than every ID of every life */
			last = id;
			if (n == IDS)
				kill(pid, SIGKILL);
		}
		close(pipe_fds[0]);
		g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
		g_assert_true(WIFSIGNALED(status));
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), >=, tick_of_id(last));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keeper-file/life", test_life);
	g_test_add_func("/keeper-file/idle", test_idle);
	g_test_add_func("/keeper-file/full-disk", test_full_disk);
	g_test_add_func("/keeper-file/unusable", test_unusable);
	g_test_add_func("/keeper-file/record-covers-ids", test_record_covers_ids);
	g_test_add_func("/keeper-file/killed-in-a-loop", test_killed_in_a_loop);
	return g_test_run();
}
