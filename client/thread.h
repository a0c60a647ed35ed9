/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* Calls pthread_create() with all signals blocked, because the program handles them.
 * Returns: 0, or an error number
 * @name: 15 bytes at most */
int client_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *user_data),
			void *user_data);

/* Waits for the end of @thread. */
void client_thread_join(pthread_t thread);
