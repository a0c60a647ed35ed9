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
 * Errors are REGISTRY_ERROR.
 */

/* A descriptor that is closed at the end of its scope; -1: none. */
typedef int StateFd;
void state_directory_close_fd(StateFd fd);
G_DEFINE_AUTO_CLEANUP_FREE_FUNC(StateFd, state_directory_close_fd, -1)

/**
 * state_directory_prepare:
 *
 * Makes the directory and its missing parents, with mode 0750.
 *
 * Returns: %TRUE if it is there and ours; else %FALSE with FAILED, or with FATAL if it is another
 * user's or not a directory
 */
gboolean state_directory_prepare(const char *directory, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_read:
 * @out_text: (out) (transfer full) (nullable): what the file holds, %NULL if there is none
 *
 * Returns: %TRUE, or %FALSE with FAILED, or with FATAL if it holds a NUL
 */
gboolean state_directory_read(const char *directory, const char *name, char **out_text,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * state_directory_replace:
 * @expected: (nullable): what state_directory_read() gave
 * @text: what the file is to hold
 *
 * With FAILED the file may have been replaced all the same: read it again.
 *
 * Returns: %TRUE, or %FALSE with LOST if the file holds something else than @expected, or with
 * FAILED
 */
gboolean state_directory_replace(const char *directory, const char *name, const char *expected,
				 const char *text, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Removes what a crash left of replacements of the file, while nobody else replaces it. */
void state_directory_clean(const char *directory, const char *name);

/* Sets @error to FAILED: "cannot @what @path: " and the text of errno. Returns %FALSE. */
gboolean state_directory_fail(const char *what, const char *path, GError **error);
