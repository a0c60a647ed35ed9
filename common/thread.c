/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thread.h"

#include <signal.h>
#include <stddef.h>

int thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *data), void *data)
{
	static const int FAULTS[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	sigset_t blocked, before;
	int code;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++)
		sigdelset(&blocked, FAULTS[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	code = pthread_create(out_thread, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code == 0)
		pthread_setname_np(*out_thread, name);
	return code;
}

int thread_start_detached(const char *name, void *(*run)(void *data), void *data)
{
	pthread_t thread;
	int code = thread_start(&thread, name, run, data);

	if (code == 0)
		pthread_detach(thread);
	return code;
}
