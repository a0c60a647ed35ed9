/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fork-gate.h"
#include "tests/unit/unit-test.h"

#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_FORKS 300
#define WORK    20000 /* rounds of a loop, enough for most forks to happen during it */

/* Stands for a lock of GLib, which no thread must hold during a fork. */
static pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;
static _Atomic gboolean stops;
static _Atomic guint rounds;

static void work(void)
{
	pthread_mutex_lock(&foreign);
	for (volatile guint i = 0; i < WORK; i++)
		;
	pthread_mutex_unlock(&foreign);
	atomic_fetch_add(&rounds, 1);
}

/* Works inside the gate, and pauses between rounds. */
static void *run(void *user_data G_GNUC_UNUSED)
{
	fork_gate_enter();
	while (!atomic_load(&stops)) {
		work();
		errno = ENOSPC;
		fork_gate_pause();
		g_assert_cmpint(errno, ==, ENOSPC);
		fork_gate_resume();
		g_assert_cmpint(errno, ==, ENOSPC);
	}
	fork_gate_leave();
	return NULL;
}

/* The lock is free in the child, and threads of the child can work. */
static void G_GNUC_NORETURN child_main(void)
{
	if (pthread_mutex_trylock(&foreign) != 0)
		_exit(1);
	fork_gate_enter();
	fork_gate_leave();
	fork_gate_hold();
	fork_gate_go_on();
	_exit(0);
}

TEST("/fork-gate/no-fork-while-threads-work", test_no_fork_while_threads_work)
{
	pthread_t threads[2];
	guint before;

	g_assert_no_errno(
		pthread_atfork(fork_gate_hold, fork_gate_go_on, fork_gate_go_on_in_child));
	for (gsize i = 0; i < G_N_ELEMENTS(threads); i++)
		g_assert_no_errno(pthread_create(&threads[i], NULL, run, NULL));
	for (guint i = 0; i < N_FORKS; i++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			child_main();
		g_assert_cmpint(waitpid(child, &status, 0), ==, child);
		g_assert_cmpint(status, ==, 0);
	}
	/* the threads continue */
	before = atomic_load(&rounds);
	while (atomic_load(&rounds) < before + 2)
		sched_yield();
	atomic_store(&stops, TRUE);
	for (gsize i = 0; i < G_N_ELEMENTS(threads); i++)
		pthread_join(threads[i], NULL);
}

/* In a thread that does not work, these functions do nothing. */
TEST("/fork-gate/outside", test_outside)
{
	fork_gate_pause();
	fork_gate_resume();
	fork_gate_hold();
	fork_gate_go_on();
}
