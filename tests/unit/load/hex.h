/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* (transfer full): @hex as bytes; spaces are left out. */
static inline GByteArray *hex_bytes(const char *hex)
{
	GByteArray *out = g_byte_array_new();

	for (; *hex != '\0'; hex++) {
		guint8 byte;

		if (*hex == ' ')
			continue;
		byte = (guint8)(g_ascii_xdigit_value(hex[0]) << 4 | g_ascii_xdigit_value(hex[1]));
		g_byte_array_append(out, &byte, 1);
		hex++;
	}
	return out;
}
