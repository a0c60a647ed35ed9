/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Small files that survive a crash, in a directory on this machine.
 *
 * A file is replaced as a whole, and only while it holds what was read from it:
 * its text is its version. No other process can come between the comparison and
 * the replacement (a lock on the directory, held for an instant), no reader sees
 * half a file, and when a replacement is reported it is on the disk.
 *
 * The directory is nobody else's to write, so what stands in it is ours: regular
 * files of this user, with one name each and of at most 4096 bytes. Anything else
 * is refused, not followed and not waited for.
 *
 * The directories above are not looked at: many are open to a group, and a volume
 * of a container to all. Whoever may write there can put another directory in the
 * place of this one, but nothing into it; a server that runs notices that (see
 * file/registry.h).
 *
 * No fork() waits for a call to the disk, and other threads can see the call (disk-call.h).
 *
 * Errors are REGISTRY_ERROR.
 */
typedef struct _StateDirectory StateDirectory;

/* A descriptor that is closed at the end of its scope; -1: none. A child of fork() has none of them
 * (common/fork-guard.h). */
typedef int StateFd;
void state_directory_close_fd(StateFd fd);
G_DEFINE_AUTO_CLEANUP_FREE_FUNC(StateFd, state_directory_close_fd, -1)

/**
 * state_directory_prepare:
 *
 * Opens the directory. It and its parents are made if they are missing, with mode 0700;
 * state_directory_sync_name() is left to the caller.
 *
 * Returns: (transfer full) (nullable): the directory; %NULL with FAILED, or with FATAL if it is
 * another user's, not a directory, or writable by others
 */
StateDirectory *state_directory_prepare(const char *path, GError **error);

/* (transfer full) (nullable): what stands at @path now, as prepared before. %NULL with FAILED. */
StateDirectory *state_directory_open(const char *path, GError **error);
void state_directory_free(StateDirectory *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StateDirectory, state_directory_free)

/* From here on files that are read may have other names, as in a snapshot of hard links. For a
 * server that runs: what it reads is replaced by another file, so that no link leads it astray. One
 * that is written in place never may. */
void state_directory_allow_links(StateDirectory *self);

/* A directory is only as durable as its name in its parent: syncs that. To be called before the
 * first file is written. %FALSE with FAILED. */
gboolean state_directory_sync_name(const StateDirectory *self,
				   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_open_file:
 * @flags: of open(2): how, and whether to make it, with mode 0600
 *
 * Returns: a descriptor; -1 with FATAL if it is not what is expected here, with FAILED else, and
 * with nothing set if there is no such file
 */
StateFd state_directory_open_file(const StateDirectory *self, const char *name, int flags,
				  GError **error);

/* Takes the lock of an open file, or of the directory itself (@name %NULL), with flock(). Returns:
 * %FALSE with errno set, to EWOULDBLOCK if another process has it */
gboolean state_directory_lock_fd(const StateDirectory *self, const char *name, int fd);

/**
 * state_directory_read:
 * @out_text: (out) (transfer full) (nullable): what the file holds, %NULL if there is none
 *
 * Returns: %TRUE, or %FALSE with FAILED, or with FATAL if it is not what is expected here, or holds
 * a NUL
 */
gboolean state_directory_read(const StateDirectory *self, const char *name, char **out_text,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_replace:
 * @expected: (nullable): what state_directory_read() gave
 * @text: what the file is to hold
 * @out_file: (out) (optional): a descriptor of the file that was written, if it may have been put
 * in place; also with FAILED
 *
 * With FAILED the file may have been replaced all the same: read it again.
 *
 * Returns: %TRUE, or %FALSE with LOST if the file holds something else than @expected, or with
 * FAILED
 */
gboolean state_directory_replace(const StateDirectory *self, const char *name, const char *expected,
				 const char *text, StateFd *out_file,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Makes the file, if there is none; the next replacement in the directory puts it on the disk, too.
 * %FALSE as state_directory_replace(). */
gboolean state_directory_make(const StateDirectory *self, const char *name, const char *text,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_find:
 * @out_name: (out) (transfer full) (nullable): a file whose name begins and ends so, %NULL if there
 * is none
 *
 * Returns: %TRUE, or %FALSE with FAILED
 */
gboolean state_directory_find(const StateDirectory *self, const char *prefix, const char *suffix,
			      char **out_name, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Removes what crashes left of replacements of the file. For when none of another process can
 * succeed any more: to whoever holds the lock of a record, or, of what is made once, when it is
 * there. */
void state_directory_clean(const StateDirectory *self, const char *name);

/* Whether the file that is open is still the one of this name in the directory. */
gboolean state_directory_has(const StateDirectory *self, const char *name, int fd);

/* Whether the file that is open is still the one at @path: %FALSE if that is gone or another;
 * %TRUE also if nobody can tell. */
gboolean state_directory_is_at(const char *path, int fd);

/* (transfer full): for messages. */
char *state_directory_file_path(const StateDirectory *self, const char *name);

/* Sets @error to FAILED: "cannot @what ", the path of the file, and the text of errno. Returns
 * %FALSE. */
gboolean state_directory_fail_file(const StateDirectory *self, const char *what, const char *name,
				   GError **error);
