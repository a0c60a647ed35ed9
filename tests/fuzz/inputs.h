/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* What several targets make of their input. */

/* Returns: (transfer full): @data up to its first NUL. */
char *input_text(const guint8 *data, gsize size);

/* The path of a file without a name that holds @data. There is one such file: it is another's with
 * the next call. Borrowed. */
const char *input_file(const void *data, gsize size);

/* Checks that there is an error if, and only if, @failed, and that its message is one printable
 * line. Clears it. */
void input_check_error(gboolean failed, GError **error);
