/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own, as it is all that the client library needs of text.h. */
#include "core/text.h"

#include <string.h>

#define MAX_ESCAPED_BYTES 64

char *text_escape(const char *bytes, gsize length)
{
	GString *out = g_string_new(NULL);

	for (gsize i = 0; i < MIN(length, MAX_ESCAPED_BYTES); i++) {
		char c = bytes[i];

		if (g_ascii_isprint(c) && strchr("\\\"'", c) == NULL)
			g_string_append_c(out, c);
		else
			g_string_append_printf(out, "\\x%02x", (guchar)c);
	}
	if (length > MAX_ESCAPED_BYTES)
		g_string_append(out, "...");
	return g_string_free(out, FALSE);
}
