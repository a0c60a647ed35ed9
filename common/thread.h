/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* Starts a thread in which all signals are blocked, except those for its own faults, because the
 * program handles them. Threads that it starts inherit this.
 * @name: 15 bytes at most
 * Returns: 0, or the error number of pthread_create() */
int thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *data), void *data);

/* Starts such a thread that is never joined, for work that can wait for the network without a
 * limit. The process can end without waiting for it. */
int thread_start_detached(const char *name, void *(*run)(void *data), void *data);
