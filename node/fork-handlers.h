/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a fork() of the program does to its nodes, beside what fork-mark.h has: the child closes the
 * descriptors that it must not keep, and none of the locks that a node of its own needs is left
 * locked in it by a thread that it does not have.
 *
 * A child made without handlers (_Fork(3), clone(2)) refuses draws as any other, but keeps the
 * descriptors until it ends or calls execve(2).
 */

/* Any thread; again and again. They stay as long as the process. */
void fork_handlers_install(void);
