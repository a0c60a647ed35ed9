/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* Starts a thread in which all signals are blocked, because the program handles them elsewhere.
 * Signals for the thread's own faults are not blocked. Threads that it starts inherit this.
 * @name: 15 bytes at most
 * Returns: 0, or the error number of pthread_create() */
int thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *data), void *data);

/* Starts such a thread that is never joined, for work that can wait for the network
 * indefinitely. The process can end without waiting for it. */
int thread_start_detached(const char *name, void *(*run)(void *data), void *data);
