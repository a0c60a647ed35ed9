/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts a thread that is never joined, for work that can wait for the network without a time
 * limit. The process can exit without waiting for it.
 *
 * Returns: 0, or the error number of pthread_create()
 */
int detached_thread_start(void *(*run)(void *data), void *data);
