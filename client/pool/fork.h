/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What the pools of a process do about fork(), beside having their IDs in memory that it wipes
 * (hand.h), on which alone it rests that no ID comes twice.
 *
 * There is a lock. A thread that fetches holds it whenever it is at work, which takes microseconds,
 * and lets go of it to wait; fork() takes it. So the child finds what such a thread owns as that
 * leaves it when it waits, and all its descriptors in the list, which it closes at once, before
 * fork() returns. It says nothing to the servers: the connections are still the parent's.
 *
 * This holds for fork(). Whatever else makes a child is to call exec(), at which the kernel closes
 * them.
 */

/* Before the first pool of the process. */
void pool_fork_init(void);

void pool_fork_lock(void);
void pool_fork_unlock(void);

/* Under the lock. Puts *@fd on the list. Where it lies is to stay, until pool_fork_close(): a child
 * finds -1 there. */
void pool_fork_add(int *fd);

/* Under the lock. Closes *@fd and sets it to -1, as it may be already. */
void pool_fork_close(int *fd);
