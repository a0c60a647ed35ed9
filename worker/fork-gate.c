/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/fork-gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

/* Threads that work read; fork() writes, and does not wait for those that come after it. */
static const pthread_rwlock_t OPEN = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Thread_local bool works;

void fork_gate_enter(void)
{
	pthread_rwlock_rdlock(&gate);
	works = true;
}

void fork_gate_leave(void)
{
	works = false;
	pthread_rwlock_unlock(&gate);
}

void fork_gate_pause(void)
{
	int code = errno;

	if (works)
		pthread_rwlock_unlock(&gate);
	errno = code;
}

void fork_gate_resume(void)
{
	int code = errno;

	if (works)
		pthread_rwlock_rdlock(&gate);
	errno = code;
}

void fork_gate_hold(void)
{
	pthread_rwlock_wrlock(&gate);
}

void fork_gate_go_on(void)
{
	pthread_rwlock_unlock(&gate);
}

/* It is held by a thread of the parent's number, which the child cannot let go of. */
void fork_gate_go_on_in_child(void)
{
	gate = OPEN;
}
