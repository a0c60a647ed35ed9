/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Text for command lines: suggestions for mistyped names, and wrapped lines. */

/* Finds the name that the user probably meant: the name that differs from @typed by the fewest
 * edits. An edit adds, removes or replaces a byte, or swaps two adjacent bytes.
 * @names: NULL-terminated
 * Returns: (transfer none) (nullable): the first of the closest names; %NULL if none is within one
 * edit per three bytes */
const char *help_text_suggest(const char *typed, const char *const *names);

/* The width of --help. */
#define HELP_TEXT_COLUMNS 80

/* Appends the words of @text in lines of up to HELP_TEXT_COLUMNS, and a newline. All lines except
 * the first begin with @indent. The caller has already written the start of the first line, which
 * must be as wide as @indent. */
void help_text_wrap(GString *out, const char *text, const char *indent);
