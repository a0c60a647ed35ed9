/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <time.h>

gboolean text_parse_number(const char *text, guint base, guint64 min, guint64 max,
			   guint64 *out_number)
{
	return g_ascii_isxdigit(*text) &&
	       g_ascii_string_to_unsigned(text, base, min, max, out_number, NULL);
}

char *text_time_ms(gint64 time_ms)
{
	time_t seconds = time_ms / 1000;
	struct tm utc;

	gmtime_r(&seconds, &utc);
	return g_strdup_printf("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
			       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
			       (int)(time_ms % 1000));
}
