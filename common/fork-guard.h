/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/types.h>

/* Protects a library from a fork() of the program that uses it. IDs stay unique because the kernel
 * wipes memory in the child (ForkMark and fork_guard_new_memory()), whether or not the handlers of
 * this file run. The handlers make the library usable in the child. They close descriptors that the
 * child must not keep, and ensure that no lock is held by a thread that the child does not have.
 *
 * The handlers run only for fork(). A child of _Fork() or clone() keeps the descriptors until it
 * ends or calls execve(2).
 *
 * Any thread can call these functions. The state belongs to the process. */

/* Functions that take further locks before a fork(), after the locks of this file, and release them
 * afterwards. */
typedef struct {
	void (*hold)(void);
	void (*release)(void);
	void (*release_in_child)(void);
} ForkGuardLocks;

/* Installs the handlers of fork() until the process ends. The first call with @locks sets them;
 * later calls ignore the argument. @locks: (nullable): must stay valid */
void fork_guard_install(const ForkGuardLocks *locks);

/* The handlers, for tests: before fork(), and after it in the parent and in the child. */
void fork_guard_hold(void);
void fork_guard_release(void);
void fork_guard_release_in_child(void);

/* A lock that fork() takes, so that the data under it is consistent in a child. Hold it for
 * microseconds only, and never wait while you hold it. */
void fork_guard_lock(void);
void fork_guard_unlock(void);

/* Work. A working thread may hold GLib's locks (types, quarks, random numbers). A lock that is
 * held during a fork() stays locked in the child for ever. Therefore fork() waits while any thread
 * works. While a thread waits, even for a disk, its work is paused.
 *
 * The keeper's thread counts as working. The threads that resolve names, open sessions and
 * probe other servers do not, because their waits have no time limit. Such threads exist at the
 * start and, with ZooKeeper, after a session has been lost. If the program forks while they exist,
 * a new node in the child may fail to start. */

/* The calling thread counts as working from enter to leave. In between, it may call fork() only
 * between pause and resume. */
void fork_guard_enter(void);
void fork_guard_leave(void);

/* Call these before and after a wait, or a call into the program's code that can call fork(), such
 * as a handler of g_log(). They do nothing in a thread that does not count as working. They
 * preserve errno. */
void fork_guard_pause(void);
void fork_guard_resume(void);

/* Descriptors that a child closes before fork() returns. The child sends nothing on connections,
 * which still belong to the parent. A flock() lock lasts until its last descriptor is closed in all
 * processes. So a child that kept a descriptor would hold the worker ID even after the parent has
 * died. The child does not unlock, because that would release the parent's lock. */

/* Call both under fork_guard_lock(). fork_guard_note() registers *@fd, which a child finds closed
 * and set to -1. @fd must stay valid until fork_guard_close_noted(), which closes *@fd and sets it
 * to -1, unless it is already -1. */
void fork_guard_note(int *fd);
void fork_guard_close_noted(int *fd);

/* Calls openat(), and registers the descriptor. fork() does not wait for the disk, so if it is
 * called during openat(), the child may have an unregistered copy. Then the file is closed and
 * opened again; if @flags contains O_EXCL, it is removed in between. The last of three tries makes
 * fork() wait. */
int fork_guard_open(int directory_fd, const char *path, int flags, mode_t mode);

/* Closes a descriptor of fork_guard_open(). Preserves errno. */
void fork_guard_close(int fd);

/* Call these before and after another call that closes such a descriptor, for example
 * closedir(). */
void fork_guard_begin_close(int fd);
void fork_guard_end_close(int fd);

/* Returns zeroed memory that the kernel zeroes again in every child of this process
 * (MADV_WIPEONFORK, Linux 4.14). So only one process has its contents, whether fork(), _Fork() or
 * clone() made the child. Pages are allocated when they are first written. @bytes: rounded up to
 * whole pages.
 * Returns: (nullable): %NULL, with G_FILE_ERROR set, if the kernel cannot wipe memory, or if an
 * emulator such as qemu-user accepts every kind of advice but ignores it */
void *fork_guard_new_memory(gsize bytes, GError **error);

/* @memory: (nullable); @bytes: as passed to fork_guard_new_memory() */
void fork_guard_free_memory(void *memory, gsize bytes);

/* A mark of the process that made it: memory that the kernel wipes in every child, no matter how
 * the child was created. A process ID would not suffice, because the kernel reuses it. To make a
 * mark, get its memory from fork_guard_new_memory(), and set it to 1.
 *
 * After a draw from memory that fork() copies, read the mark: this detects a draw from a copy even
 * if a signal handler has called fork() in between. It costs one load. */
typedef volatile gint ForkMark;

static inline gboolean fork_mark_is_mine(const ForkMark *self)
{
	return G_LIKELY(*self != 0);
}
