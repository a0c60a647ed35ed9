/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wrap.h"

#include <string.h>

void wrap_append(GString *out, const char *text, const char *indent)
{
	g_auto(GStrv) words = g_strsplit(text, " ", -1);
	gsize column = strlen(indent);

	for (guint i = 0; words[i] != NULL; i++) {
		gsize length = strlen(words[i]);

		if (i > 0 && column + 1 + length > WRAP_COLUMNS) {
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
