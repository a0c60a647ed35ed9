/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* As pthread_create(), for a thread with all signals blocked: they are the program's to handle.
 * @name: 15 bytes at most */
int client_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *user_data),
			void *user_data);

/* Waits for the end of @thread. */
void client_thread_join(pthread_t thread);
