/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Conversions of the input that several targets need. */

/* Returns: (transfer full): @data up to its first NUL. */
char *input_text(const guint8 *data, gsize size);

/* Returns the path of an unnamed file that contains @data. There is only one such file: the next
 * call replaces its content. Borrowed. */
const char *input_file(const void *data, gsize size);

/* Checks that there is an error if and only if @failed, and that its message is one printable line.
 * Clears the error. */
void input_check_error(gboolean failed, GError **error);
