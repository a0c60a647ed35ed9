/* SPDX-License-Identifier: Apache-2.0 */
#include "node/snowflake-node.h"

#include <dirent.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/node/node-fixture.h"
#include "tests/unit/unit-test.h"
#include "tests/unit/worker/state-fixture.h"

#define N_CHILDREN   8
#define N_IDS        2000 /* IDs of each child */
#define WORKER_SHIFT 12
#define WORKER_MASK  31
#define START_MS     10000

/* Checks in a child, where an assertion would print into the TAP output of the parent. */
#define CHILD_CHECK(condition)                                                                     \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(__LINE__ % 256);                                                     \
	} while (0)

static void assert_child_ends_well(pid_t child)
{
	int status;

	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_true(WIFEXITED(status));
	g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

static void check_refused(SnowflakeNode *node)
{
	g_autoptr(GError) error = NULL;
	gint64 id = 0;
	guint count = 0;

	CHILD_CHECK(!snowflake_node_next(node, &id, &error));
	CHILD_CHECK(g_error_matches(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_FORKED));
	CHILD_CHECK(strstr(error->message, "create another one after fork()") != NULL);
	CHILD_CHECK(!snowflake_node_next_run(node, 10, &id, &count, NULL));
	CHILD_CHECK(id == 0 && count == 0);
}

/* Returns the number of descriptors of files in @directory. */
static guint count_descriptors(const char *directory)
{
	g_autofree char *real = g_canonicalize_filename(directory, NULL);
	DIR *listing = opendir("/proc/self/fd");
	guint n = 0;

	for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
		g_autofree char *link = g_build_filename("/proc/self/fd", entry->d_name, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);

		n += target != NULL && g_str_has_prefix(target, real);
	}
	closedir(listing);
	return n;
}

TEST("/node-fork/child-refuses", test_child_refuses)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, NULL);
	gint64 before = next_well(node);
	pid_t child;

	g_assert_cmpuint(count_descriptors(directory), ==, 2); /* the lock and the record */
	child = fork();
	if (child == 0) {
		CHILD_CHECK(count_descriptors(directory) == 0);
		check_refused(node);
		snowflake_node_free(node);
		_exit(0);
	}
	assert_child_ends_well(child);
	g_assert_cmpint(next_well(node), >, before);
	g_assert_cmpuint(count_descriptors(directory), ==, 2);
	/* the worker ID is still locked */
	g_assert_null(node_new(directory, "worker-id=0", START_MS, NULL));
}

/* A child is made without the fork handlers, as another thread library may do. */
TEST("/node-fork/bare-child-refuses", test_bare_child_refuses)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, NULL);
	pid_t child;

	next_well(node);
	child = _Fork();
	if (child == 0) {
		gint64 id;

		CHILD_CHECK(!snowflake_node_next(node, &id, NULL));
		_exit(0);
	}
	assert_child_ends_well(child);
	next_well(node);
}

/* A child that outlives its parent does not hold the parent's worker ID. */
TEST("/node-fork/child-outlives", test_child_outlives)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = NULL;
	int alive[2], ready[2];
	pid_t parent;
	char byte;

	g_assert_no_errno(pipe(alive));
	g_assert_no_errno(pipe(ready));
	parent = fork();
	if (parent == 0) {
		SnowflakeNode *own = node_new(directory, "worker-id=5", START_MS, NULL);

		CHILD_CHECK(own != NULL);
		if (fork() == 0) {
			close(alive[1]);
			CHILD_CHECK(write(ready[1], "r", 1) == 1);
			_exit(read(alive[0], &byte, 1) == 0 ? 0 : 1); /* the test is over */
		}
		pause();
	}
	g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
	g_assert_no_errno(kill(parent, SIGKILL));
	g_assert_cmpint(waitpid(parent, NULL, 0), ==, parent);
	node = node_new_well(directory, "worker-id=5");
	next_well(node);
	close(alive[1]);
	close(alive[0]);
	close(ready[0]);
	close(ready[1]);
}

/* Returns: (transfer full): the owner in the record of a node that a child has made. */
static char *owner_in_child(const char *directory, const char *worker, const char *record)
{
	g_autofree char *text = NULL;
	pid_t child = fork();

	if (child == 0) {
		CHILD_CHECK(node_new(directory, worker, START_MS, NULL) != NULL);
		_exit(0);
	}
	assert_child_ends_well(child);
	text = state_fixture_read(directory, record);
	return g_strdup(strstr(text, "\"owner\""));
}

/* If random numbers continued equally on both sides of a fork(), two nodes would have one owner. */
TEST("/node-fork/owners-differ", test_owners_differ)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *first = NULL;
	g_autofree char *second = NULL;

	g_random_int(); /* both children have these numbers from here on */
	first = owner_in_child(directory, "worker-id=5", "worker-0-5.json");
	second = owner_in_child(directory, "worker-id=6", "worker-0-6.json");
	g_assert_nonnull(first);
	g_assert_cmpstr(first, !=, second);
}

/* A thread that draws. It allocates nothing while other threads fork: with AddressSanitizer, a
 * child would wait for ever for an allocator lock that a thread of the parent held. A starting
 * thread holds such locks too, so no thread forks before has_begun. */
typedef struct {
	sem_t has_begun;
	SnowflakeNode *node;
	GArray *ids; /* (element-type gint64): capacity MOST_DRAWN */
	gint stop;   /* atomic */
} Drawer;

#define MOST_DRAWN (8u << 20)
#define BURST      100

static void see(GHashTable *seen, gint64 id)
{
	g_assert_true(g_hash_table_add(seen, g_memdup2(&id, sizeof id)));
}

static gpointer draw(gpointer data)
{
	Drawer *self = data;

	while (!g_atomic_int_get(&self->stop) && self->ids->len + BURST <= MOST_DRAWN) {
		for (guint i = 0; i < BURST; i++) {
			gint64 id = next_well(self->node);

			g_array_append_val(self->ids, id);
		}
		sem_post(&self->has_begun);
		g_usleep(100); /* lint: allow sleep: the pace of the draws */
	}
	return NULL;
}

static void G_GNUC_NORETURN child_main(SnowflakeNode *inherited, const char *directory, int to)
{
	SnowflakeNode *own;

	check_refused(inherited);
	own = node_new(directory, NULL, START_MS, NULL);
	CHILD_CHECK(own != NULL);
	for (guint i = 0; i < N_IDS; i++) {
		gint64 id;

		CHILD_CHECK(snowflake_node_next(own, &id, NULL));
		CHILD_CHECK(write(to, &id, sizeof id) == sizeof id);
	}
	snowflake_node_free(own);
	_exit(0);
}

static void collect(int from, GHashTable *seen)
{
	gint64 id;
	guint n = 0;

	while (read(from, &id, sizeof id) == sizeof id) {
		see(seen, id);
		n++;
	}
	g_assert_cmpuint(n, ==, N_IDS);
}

/* Prefork while a thread draws: each child makes its own node. */
TEST("/node-fork/under-load", test_under_load)
{
#ifdef __SANITIZE_THREAD__
	g_test_skip("ThreadSanitizer lets no child of a process with threads start one");
	return;
#endif
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(SnowflakeNode) node = node_new_well(directory, NULL);
	g_autoptr(GArray) ids = g_array_sized_new(FALSE, FALSE, sizeof(gint64), MOST_DRAWN);
	g_autoptr(GHashTable) seen =
		g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	Drawer drawer = {.node = node, .ids = ids};
	GThread *thread;

	sem_init(&drawer.has_begun, 0, 0);
	thread = g_thread_new("draw", draw, &drawer);
	sem_wait(&drawer.has_begun);
	for (guint i = 0; i < N_CHILDREN; i++) {
		int ends[2];
		pid_t child;

		g_assert_no_errno(pipe(ends));
		child = fork();
		if (child == 0)
			child_main(node, directory, ends[1]);
		close(ends[1]);
		collect(ends[0], seen);
		close(ends[0]);
		assert_child_ends_well(child);
	}
	g_atomic_int_set(&drawer.stop, TRUE);
	g_thread_join(thread);
	g_assert_cmpuint(ids->len, >, 0);
	for (guint i = 0; i < ids->len; i++)
		see(seen, g_array_index(ids, gint64, i));
}

static _Atomic guint n_forks;

/* A handler of g_log() that starts a process, like a handler that mails errors. */
static void fork_for_line(const char *domain G_GNUC_UNUSED, GLogLevelFlags level G_GNUC_UNUSED,
			  const char *line G_GNUC_UNUSED, gpointer data G_GNUC_UNUSED)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	assert_child_ends_well(child);
	n_forks++;
}

TEST("/node-fork/log-handler-forks", test_log_handler_forks)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	guint handler = g_log_set_handler("Snowflake", G_LOG_LEVEL_MASK, fork_for_line, NULL);
	SnowflakeNode *node = node_new_well(directory, "log-level=info");

	next_well(node);
	snowflake_node_free(node);
	g_log_remove_handler("Snowflake", handler);
	g_assert_cmpuint(n_forks, >, 0);
}
