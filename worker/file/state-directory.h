/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "core/uuid.h"

/* Small files that survive a crash, in a directory on this machine. The directory also contains the
 * locks of worker IDs, and its own identity.
 *
 * A file is replaced as a whole, and only if it still contains the text that was read: the text
 * serves as its version. A lock on the directory, which is held only briefly, keeps other processes
 * from intervening between the comparison and the replacement. No reader sees half a file. A
 * replacement succeeds only when it is on the disk.
 *
 * Only this user may write to the directory. So its files must be regular files of this user, each
 * with one name and at most 4096 bytes. Other files are rejected; symbolic links are not followed,
 * and FIFOs do not block.
 *
 * The parent directories are not checked: many of them are writable by a group, and a container's
 * volume is writable by all. A user who can write there can replace this directory, but cannot put
 * a file into it. A running server detects a replacement (see file/registry.h).
 *
 * fork() does not wait for disk calls, and other threads can see them (disk-call.h).
 *
 * Errors are REGISTRY_ERROR. */
typedef struct _StateDirectory StateDirectory;

/* A descriptor that is closed at the end of its scope; -1 if none. A child of fork() does not
 * inherit it (common/fork-guard.h). */
typedef int StateFd;
/* Closes @fd, unless it is -1. */
void state_directory_close_fd(StateFd fd);
G_DEFINE_AUTO_CLEANUP_FREE_FUNC(StateFd, state_directory_close_fd, -1)

/* Opens the directory. If it or its parents are missing, creates them with mode 0700.
 * state_directory_check_identity() syncs the name of the directory itself.
 * Returns: (transfer full) (nullable): the directory; %NULL with FAILED, or with FATAL if it
 * belongs to another user, is not a directory, or is writable by others */
StateDirectory *state_directory_prepare(const char *path, GError **error);

/* Reopens a prepared directory. Returns: (transfer full) (nullable): the directory that is now at
 * @path; %NULL with FAILED. */
StateDirectory *state_directory_open(const char *path, GError **error);
void state_directory_free(StateDirectory *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StateDirectory, state_directory_free)

/* From now on, reads files that have several names (hard links), as in a snapshot that consists of
 * hard links. This is safe in a running server, because it replaces the files that it reads. A file
 * that is written in place must never have another name. */
void state_directory_allow_links(StateDirectory *self);

/* Checks the file directory.json, which contains the format of the records, the layout of their
 * ticks, and the machine. The layout is checked because the same tick means a different time in
 * another layout. The machine is checked because a copy of the directory could otherwise be used on
 * a second machine. The first server writes the file, and syncs it before it writes the first
 * record. If a record exists without the file, the file's content is unknown, and it is not created
 * again.
 * @machine_id: (nullable): %NULL for this machine's ID
 * Returns: %TRUE; or %FALSE with FATAL set, which describes the difference and the remedy, or with
 * FAILED set */
gboolean state_directory_check_identity(const StateDirectory *self, const Layout *layout,
					const char *machine_id,
					GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets the ID of the directory as a registry, from the file registry.json. The first server writes
 * it. Uniqueness does not depend on the ID, which shows that two servers use different directories.
 * @out_id: (out): a UUID; untouched on failure
 *
 * Returns: %TRUE; or %FALSE with FATAL set if the file is damaged, or with FAILED set */
gboolean state_directory_get_id(const StateDirectory *self, char out_id[static UUID_TEXT_SIZE],
				GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* @out_text: (out) (transfer full) (nullable): the text of the file, %NULL if there is none
 * Returns: %TRUE, or %FALSE with FAILED set, or with FATAL set if the file is not as expected, or
 * contains a NUL */
gboolean state_directory_read(const StateDirectory *self, const char *name, char **out_text,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* After FAILED, the file may have been replaced: read it again.
 * @expected: (nullable): the text from state_directory_read()
 * @text: the new text of the file
 * @out_file: (out) (optional): a descriptor of the new file, if it may be in place, even after
 * FAILED
 * Returns: %TRUE, or %FALSE with LOST set if the text of the file is not @expected, or with FAILED
 * set */
gboolean state_directory_replace(const StateDirectory *self, const char *name, const char *expected,
				 const char *text, StateFd *out_file,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Removes temporary files that were left by crashes. Call it only when no other process can still
 * replace the file: for a record, while holding its lock; for the identity, once it exists. */
void state_directory_clean(const StateDirectory *self, const char *name);

/* Returns %FALSE if @path is gone or is another file; %TRUE if the open file is still at @path, or
 * if this is unknown. */
gboolean state_directory_is_at(const char *path, int fd);

/* Takes the lock that shows which live process holds a worker ID. If the file has been removed or
 * replaced since it was locked, creates and locks it again. The lock is released when the process
 * ends for any reason; the file remains. Its text describes the process, for error messages of
 * servers that are refused.
 *
 * The lock keeps two servers from disturbing each other. Uniqueness does not depend on it, because
 * an operator can remove files.
 * @name: name of the lock file
 * @address: host:port of this server, for error messages of servers that are refused
 * @fd: (inout): -1 if not held; otherwise the descriptor that holds it, in this directory or an
 * earlier one
 * Returns: %TRUE; or %FALSE with LOST set, and the holder in the message, if another process holds
 * the lock; or with FAILED set; or with FATAL set if the file is not as expected */
gboolean state_directory_take_lock(const StateDirectory *self, const char *name,
				   const char *address, StateFd *fd,
				   GError **error) G_GNUC_WARN_UNUSED_RESULT;
