/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps fork() from happening while a thread of a node works.
 *
 * Such a thread may hold locks of GLib (types, quarks, random numbers). A lock that it holds at a
 * fork() stays locked in the child for ever, and a node of the child would wait for it. Therefore
 * fork() waits while a thread works, if fork_gate_hold() is a handler of pthread_atfork(). A thread
 * pauses its work while it waits, for a disk too (worker/file/disk-call.h).
 *
 * The keeper's thread is such a thread. The threads that look up names, open sessions and ask other
 * servers are not, because their waits have no limit. They exist at the start and, with ZooKeeper,
 * after a session is lost. A node of a child that is forked then may not start.
 *
 * Any number of threads may work at the same time. There is one gate in a process.
 */

/* The thread works until it leaves. Meanwhile it calls fork() only between pause and resume. */
void fork_gate_enter(void);
void fork_gate_leave(void);

/* Enclose a wait, or a call of the program's own code, such as a handler of g_log(), which may call
 * fork(). In a thread that does not work they do nothing. They keep errno. */
void fork_gate_pause(void);
void fork_gate_resume(void);

/* For handlers of pthread_atfork(): before, and in the parent and in the child after it. */
void fork_gate_hold(void);
void fork_gate_go_on(void);
void fork_gate_go_on_in_child(void);
