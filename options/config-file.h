/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Reads config files: lines with KEY=VALUE in one group, and comments, which begin with #. */

/* Takes a key and its value, in which there are no escapes, as on the command line. Can change
 * @value. @line: from 1. Returns %FALSE with an error set to end the reading. */
typedef gboolean (*ConfigFileFunc)(const char *key, char *value, guint line, gpointer user_data,
				   GError **error);

/* Calls @take for each key, in the order of the file.
 * @group: the name of the only group that the file can have
 * Returns: %FALSE with a GFileError set, which names the file, if it cannot be read; with another
 * error set, which begins with the file and the line, if it is not a config file, if a key is
 * given twice, or if @take fails */
gboolean config_file_read(const char *path, const char *group, ConfigFileFunc take,
			  gpointer user_data, GError **error);
