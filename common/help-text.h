/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* What somebody probably meant who typed a name that there is not. Names are near if few steps make
 * one of the other: a byte more, a byte less, another one, or two neighbours swapped. */

/**
 * help_text_suggest:
 * @names: NULL-terminated
 *
 * Returns: (transfer none) (nullable): the name that is nearest to @typed, and the first of those;
 *   %NULL if none is so near that it may be meant: a step for three bytes
 */
const char *help_text_suggest(const char *typed, const char *const *names);

/* How wide what --help prints may be. */
#define HELP_TEXT_COLUMNS 80

/* Appends the words of @text, and a newline, in lines of up to HELP_TEXT_COLUMNS; all of them but
 * the first begin with @indent, for which the first has the room already. */
void help_text_wrap(GString *out, const char *text, const char *indent);
