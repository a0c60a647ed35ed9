/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/types.h>

/*
 * What a library does about a fork() of the program that uses it. IDs do not come twice because the
 * kernel wipes memory in the child (ForkMark and fork_guard_new_memory()), whether or not the
 * handlers of this file run. The handlers keep order: a child closes descriptors that it must not
 * keep, and no lock that it needs stays locked by a thread that it does not have.
 *
 * The handlers run for fork(). A child of _Fork() or clone() keeps the descriptors until it ends or
 * calls execve(2).
 *
 * All functions are for any thread. The state is process-wide, as fork() is.
 */

/* Locks that fork() takes after those of this file, and what unlocks them after it. */
typedef struct {
	void (*hold)(void);
	void (*release)(void);
	void (*release_in_child)(void);
} ForkGuardLocks;

/* Installs the handlers of fork(), which stay as long as the process. Only the first call has an
 * effect. @locks: (nullable): must stay */
void fork_guard_install(const ForkGuardLocks *locks);

/* The handlers, for tests: before fork(), and after it in the parent and in the child. */
void fork_guard_hold(void);
void fork_guard_release(void);
void fork_guard_release_in_child(void);

/* A lock that fork() takes. Hold it for microseconds: never wait under it. What it protects is
 * whole in a child. */
void fork_guard_lock(void);
void fork_guard_unlock(void);

/*
 * Work. A thread at work can hold locks of GLib (types, quarks, random numbers). A lock that is
 * held at a fork() stays locked in the child for ever. Therefore fork() waits while any thread
 * works. A thread pauses its work while it waits, for a disk too.
 *
 * The keeper's thread works in this sense. The threads that resolve names, open sessions and probe
 * other servers do not, because their waits have no limit. They exist at the start and, with
 * ZooKeeper, after a session is lost. A node of a child that is forked then may fail to start.
 */

/* The thread works until it leaves. Meanwhile it must call fork() only between pause and resume. */
void fork_guard_enter(void);
void fork_guard_leave(void);

/* Enclose a wait, or a call of the program's own code, such as a handler of g_log(), which can call
 * fork(). In a thread that does not work they do nothing. They keep errno. */
void fork_guard_pause(void);
void fork_guard_resume(void);

/*
 * Descriptors that a child closes before fork() returns. Connections are still the parent's, so
 * nothing is sent on them. A lock of flock() lasts until its last descriptor is closed, in any
 * process, so a child that kept one would hold the worker ID of a parent that is dead. The child
 * unlocks nothing, because that would unlock the parent's lock.
 */

/* Both under fork_guard_lock(). Notes *@fd, whose address must stay valid until
 * fork_guard_close_noted(): a child finds -1 there. That function closes *@fd and sets it to -1; it
 * can be -1 already. */
void fork_guard_note(int *fd);
void fork_guard_close_noted(int *fd);

/* Calls openat() and notes the descriptor. fork() does not wait for the disk: if a fork() took
 * place meanwhile, the child can have an unnoted copy. Then the file is closed, removed if @flags
 * has O_EXCL, and opened again; after three tries with fork() kept waiting. */
int fork_guard_open(int directory_fd, const char *path, int flags, mode_t mode);

/* Closes a descriptor of fork_guard_open(). Keeps errno. */
void fork_guard_close(int fd);

/* Enclose another call that closes such a descriptor, for example closedir(). */
void fork_guard_begin_close(int fd);
void fork_guard_end_close(int fd);

/* Returns memory that the kernel fills with zeros in every child of this process, whether fork(),
 * _Fork() or clone() made it (MADV_WIPEONFORK, Linux 4.14), so only one process has its contents.
 * It is filled with zeros, and uses pages only once they are written. @bytes: rounded up to pages.
 * (nullable): %NULL, with G_FILE_ERROR set, if the kernel cannot wipe memory, or if an emulator
 * accepts every advice and ignores it, as qemu-user does */
void *fork_guard_new_memory(gsize bytes, GError **error);

/* @memory: (nullable); @bytes: as given to fork_guard_new_memory() */
void fork_guard_free_memory(void *memory, gsize bytes);

/*
 * Whether this process made the mark, for the price of a load. It is in a page of its own that the
 * kernel wipes in every child, however it was made. A process ID would not do, because another
 * process can have it by now.
 *
 * Read the mark after a draw from memory that fork() copies: then a draw from a copy is recognised
 * even if a signal handler has forked in between.
 */
typedef volatile gint ForkMark;

/* Returns: (nullable): %NULL, with an error of one line set, if the kernel has no such pages */
ForkMark *fork_mark_new(GError **error);

/* In the process that made it. */
void fork_mark_free(ForkMark *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ForkMark, fork_mark_free)

static inline gboolean fork_mark_is_mine(const ForkMark *self)
{
	return G_LIKELY(*self != 0);
}
