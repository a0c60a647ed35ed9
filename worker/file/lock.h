/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/file/state-directory.h"

/*
 * A lock file that says which live process holds a worker ID. The lock goes with
 * the process, however it ends; the file stays. What it holds names the process,
 * for whoever is refused.
 *
 * It keeps two servers apart before they get into each other's way. Uniqueness
 * does not rest on it: files can be removed by hand.
 *
 * Errors are REGISTRY_ERROR.
 */
typedef struct _FileLock FileLock;

/**
 * file_lock_new:
 * @name: of the file
 * @address: what to tell those who are refused, host:port
 *
 * Returns: (transfer full): a lock that is not held
 */
FileLock *file_lock_new(const char *name, const char *address);
/* Lets it go. */
void file_lock_free(FileLock *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FileLock, file_lock_free)

/**
 * file_lock_take:
 *
 * Takes the lock, if it is not held already in this directory: a file that was removed or replaced
 * since is made and locked anew.
 *
 * Returns: %TRUE; or %FALSE with LOST and who it is in the message if another process holds it, or
 * with FAILED, or with FATAL if the file is not as expected in a state directory
 */
gboolean file_lock_take(FileLock *self, const StateDirectory *directory,
			GError **error) G_GNUC_WARN_UNUSED_RESULT;
