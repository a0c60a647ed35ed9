/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thread of ours that works may hold locks that are not ours: GLib's, of its types, its quarks,
 * its random numbers. A child of fork() has none of our threads. It would find such a lock as it
 * was, for ever, and a node of its own would wait for it. So while a thread works, no fork() takes
 * place, if fork_gate_hold() is a handler of it; and threads step outside to wait, for a disk too
 * (worker/file/disk-call.h).
 *
 * The keeper's thread is one that works. Those that look names up, open sessions and ask other
 * servers are not: what they wait for has no limit. They are there at the start and, with
 * ZooKeeper, when a session is lost; whoever forks then may get a child whose node does not start.
 *
 * Any number of threads work at a time. Process-wide, as fork() is.
 */

/* The thread works, until it leaves. It calls fork() only where it pauses. */
void fork_gate_enter(void);
void fork_gate_leave(void);

/* Around a wait, of a thread that works, and around code of the program's, such as a handler of
 * g_log(), which may call fork() too; of any other thread they do nothing. They leave errno as it
 * is.
 */
void fork_gate_pause(void);
void fork_gate_resume(void);

/* For handlers of pthread_atfork(): before, and in the parent and in the child after it. */
void fork_gate_hold(void);
void fork_gate_go_on(void);
void fork_gate_go_on_in_child(void);
