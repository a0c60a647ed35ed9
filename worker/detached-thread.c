/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/detached-thread.h"

#include <pthread.h>

int detached_thread_start(void *(*run)(void *data), void *data)
{
	pthread_attr_t detached;
	pthread_t thread;
	int code;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	code = pthread_create(&thread, &detached, run, data);
	pthread_attr_destroy(&detached);
	return code;
}
