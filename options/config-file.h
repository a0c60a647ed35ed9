/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Reads config files: lines with KEY=VALUE in one group, and comments, which begin with #. */

/* Handles a key and its value, which contains no escapes, as on the command line. Can change
 * @value. @line: counted from 1. To stop reading, returns %FALSE with an error set. */
typedef gboolean (*ConfigFileFunc)(const char *key, char *value, guint line, gpointer user_data,
				   GError **error);

/* Calls @take for each key, in the order of the file.
 * @group: the name of the only group that the file can contain
 * Returns: %FALSE with a GFileError set, which names the file, if it cannot be read; with another
 * error set, which begins with the file and the line, if it is not a config file, if a key is
 * given twice, or if @take fails */
gboolean config_file_read(const char *path, const char *group, ConfigFileFunc take,
			  gpointer user_data, GError **error);

/* Errors of a ConfigFileFunc */

/* Sets an error about an unknown key. @meant: (nullable): the key that the user probably meant to
 * type. @lister: the command that lists all keys. Returns FALSE. */
gboolean config_file_refuse_key(const char *key, const char *meant, const char *lister,
				GError **error);

/* Returns what to do with an invalid value, for the end of its error, or "". */
const char *config_file_find_remedy(const char *text, gboolean is_list);

/* Returns %FALSE with an error set if @path is relative, or contains a comment. It can be empty. */
gboolean config_file_check_path(const char *key, const char *path, GError **error);
