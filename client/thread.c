/* SPDX-License-Identifier: Apache-2.0 */
#include "client/thread.h"

#include <signal.h>

int client_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *user_data),
			void *user_data)
{
	sigset_t all, before;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(out_thread, NULL, run, user_data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code == 0)
		pthread_setname_np(*out_thread, name);
	return code;
}

void client_thread_join(pthread_t thread)
{
	pthread_join(thread, NULL);
}
