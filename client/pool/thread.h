/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* As pthread_create(), of a thread that hears no signals: those are for the program's own.
 * @name: 15 bytes at most */
int pool_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *user_data),
		      void *user_data);

/* Waits for the end of @thread. */
void pool_thread_join(pthread_t thread);
