/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* How wide what --help prints may be. */
#define WRAP_COLUMNS 80

/* Appends the words of @text, and a newline, in lines of up to WRAP_COLUMNS; all of them but the
 * first begin with @indent, for which the first has the room already. */
void wrap_append(GString *out, const char *text, const char *indent);
