/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* Calls pthread_create() with all signals blocked, so that the program's other threads handle them.
 * Returns: 0, or an error number. @name: at most 15 bytes */
int client_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *user_data),
			void *user_data);

/* Waits until @thread has ended. */
void client_thread_join(pthread_t thread);
