/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"

/*
 * Small files that survive a crash, in a directory on this machine, with the locks of worker IDs
 * and the identity of the directory.
 *
 * A file is replaced as a whole, and only while it holds what was read from it: its text is its
 * version. No other process can come between the comparison and the replacement (a lock on the
 * directory, held for an instant), no reader sees half a file, and when a replacement is reported
 * it is on the disk.
 *
 * Only this user may write to the directory, so its files are expected to be ours: regular files of
 * this user, with one name each and of at most 4096 bytes. Anything else is refused; it is not
 * followed and not waited for.
 *
 * The directories above are not checked: many are open to a group, and a container's volume to all.
 * A user who can write there can replace this directory, but cannot put a file into it. A running
 * server notices that (see file/registry.h).
 *
 * No fork() waits for a call to the disk, and other threads can see the call (disk-call.h).
 *
 * Errors are REGISTRY_ERROR.
 */
typedef struct _StateDirectory StateDirectory;

/* A descriptor that is closed at the end of its scope; -1: none. A child of fork() has none of them
 * (common/fork-guard.h). */
typedef int StateFd;
/* Does nothing for -1. */
void state_directory_close_fd(StateFd fd);
G_DEFINE_AUTO_CLEANUP_FREE_FUNC(StateFd, state_directory_close_fd, -1)

/**
 * state_directory_prepare:
 *
 * Opens the directory. It and its parents are made if they are missing, with mode 0700. The name of
 * the directory itself is synced by state_directory_check_identity().
 *
 * Returns: (transfer full) (nullable): the directory; %NULL with FAILED, or with FATAL if it is
 * another user's, not a directory, or writable by others
 */
StateDirectory *state_directory_prepare(const char *path, GError **error);

/* (transfer full) (nullable): the directory that is at @path now, as prepared before. %NULL with
 * FAILED. */
StateDirectory *state_directory_open(const char *path, GError **error);
void state_directory_free(StateDirectory *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StateDirectory, state_directory_free)

/* From now on files that are read may have other names, as in a snapshot of hard links. For a
 * server that runs: it replaces the files that it reads, so that no link leads it astray. A file
 * that is written in place may never have another name. */
void state_directory_allow_links(StateDirectory *self);

/**
 * state_directory_check_identity:
 * @machine_id: (nullable): %NULL is this machine's
 *
 * The file directory.json says what the directory was made for: the format of the records, the
 * layout of their ticks, and the machine. In another layout a tick is another time, and a copied
 * directory would be used twice. The first server writes the file, and it is on the disk with the
 * first record. If there is a record without it, its content is unknown, and it is not made again.
 *
 * Returns: %TRUE; or %FALSE with FATAL, which says what differs and what to do, or with FAILED
 */
gboolean state_directory_check_identity(const StateDirectory *self, const Layout *layout,
					const char *machine_id,
					GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_read:
 * @out_text: (out) (transfer full) (nullable): the text of the file, %NULL if there is none
 *
 * Returns: %TRUE, or %FALSE with FAILED, or with FATAL if it is not what is expected here, or holds
 * a NUL
 */
gboolean state_directory_read(const StateDirectory *self, const char *name, char **out_text,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_replace:
 * @expected: (nullable): the text from state_directory_read()
 * @text: the new text of the file
 * @out_file: (out) (optional): a descriptor of the file that was written, if it may have been put
 * in place; also with FAILED
 *
 * With FAILED the file can have been replaced: read it again.
 *
 * Returns: %TRUE, or %FALSE with LOST if the text of the file is not @expected, or with FAILED
 */
gboolean state_directory_replace(const StateDirectory *self, const char *name, const char *expected,
				 const char *text, StateFd *out_file,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Removes what crashes left of replacements of the file. Call it when no replacement of another
 * process can succeed any more: with the lock of a record, or, for the identity, when it exists. */
void state_directory_clean(const StateDirectory *self, const char *name);

/* Whether the open file is still the one at @path: %FALSE if that is gone or another; %TRUE also if
 * it is unknown. */
gboolean state_directory_is_at(const char *path, int fd);

/**
 * state_directory_take_lock:
 * @name: of the lock file
 * @address: of this server, for those that are refused, host:port
 * @fd: (inout): -1: not held; else it is held by this descriptor, in this directory or an earlier
 * one
 *
 * Takes the lock that says which live process holds a worker ID. If the file was removed or
 * replaced since, it is made and locked again. The lock goes with the process, however it ends; the
 * file stays. Its text names the process, for those that are refused.
 *
 * The lock keeps two servers from disturbing each other. Uniqueness does not depend on it: files
 * can be removed by hand.
 *
 * Returns: %TRUE; or %FALSE with LOST and the holder in the message if another process holds it, or
 * with FAILED, or with FATAL if the file is not as expected
 */
gboolean state_directory_take_lock(const StateDirectory *self, const char *name,
				   const char *address, StateFd *fd,
				   GError **error) G_GNUC_WARN_UNUSED_RESULT;
