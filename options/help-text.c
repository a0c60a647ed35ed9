/* SPDX-License-Identifier: Apache-2.0 */
#include "options/help-text.h"

#include <string.h>

#define MAX_TYPED_BYTES  64 /* no option or command has a longer name */
#define BYTES_FOR_A_STEP 3  /* a name is suggested if it needs at most one edit per 3 bytes */

/* Returns the number of edits that turn @a into @b. */
static guint distance_of(const char *a, const char *b)
{
	gsize columns = strlen(b) + 1;
	/* distances between the prefixes of @a and those of @b, for the last three prefixes of
	 * @a */
	g_autofree guint *cells = g_new(guint, 3 * columns);
	guint *before = cells;
	guint *last = cells + columns;
	guint *row = cells + 2 * columns;

	for (gsize j = 0; j < columns; j++)
		row[j] = (guint)j;
	for (gsize i = 1; a[i - 1] != '\0'; i++) {
		guint *oldest = before;

		before = last;
		last = row;
		row = oldest;
		row[0] = (guint)i;
		for (gsize j = 1; j < columns; j++) {
			row[j] = MIN(last[j], row[j - 1]) + 1;
			row[j] = MIN(row[j], last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
	}
	return row[columns - 1];
}

const char *help_text_suggest(const char *typed, const char *const *names)
{
	gsize length = strlen(typed);
	guint least = (guint)(length + 1) / BYTES_FOR_A_STEP + 1;
	const char *nearest = NULL;

	if (length > MAX_TYPED_BYTES)
		return NULL;
	for (gsize i = 0; names[i] != NULL; i++) {
		guint distance = distance_of(typed, names[i]);

		if (distance < least) {
			least = distance;
			nearest = names[i];
		}
	}
	return nearest;
}

void help_text_wrap(GString *out, const char *text, const char *indent)
{
	g_auto(GStrv) words = g_strsplit(text, " ", -1);
	gsize column = strlen(indent);

	for (guint i = 0; words[i] != NULL; i++) {
		gsize length = strlen(words[i]);

		if (i > 0 && column + 1 + length > HELP_TEXT_COLUMNS) {
			g_string_append_printf(out, "\n%s", indent);
			column = strlen(indent);
		} else if (i > 0) {
			g_string_append_c(out, ' ');
			column++;
		}
		g_string_append(out, words[i]);
		column += length;
	}
	g_string_append_c(out, '\n');
}
