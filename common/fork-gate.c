/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fork-gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned working; /* threads that are within */
static unsigned forking; /* that want nobody within */

static _Thread_local bool works;

static void go_in(void)
{
	pthread_mutex_lock(&mutex);
	while (forking > 0)
		pthread_cond_wait(&changed, &mutex);
	working++;
	pthread_mutex_unlock(&mutex);
}

static void go_out(void)
{
	pthread_mutex_lock(&mutex);
	working--;
	if (working == 0)
		pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

void fork_gate_enter(void)
{
	go_in();
	works = true;
}

void fork_gate_leave(void)
{
	works = false;
	go_out();
}

void fork_gate_pause(void)
{
	int code = errno;

	if (works)
		go_out();
	errno = code;
}

void fork_gate_resume(void)
{
	int code = errno;

	if (works)
		go_in();
	errno = code;
}

/* The mutex stays locked over the fork(). */
void fork_gate_hold(void)
{
	pthread_mutex_lock(&mutex);
	forking++;
	while (working > 0)
		pthread_cond_wait(&changed, &mutex);
}

void fork_gate_go_on(void)
{
	forking--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

/* Threads that wait, to work or to fork, are the parent's. */
void fork_gate_go_on_in_child(void)
{
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	forking = 0;
	pthread_mutex_unlock(&mutex);
}
