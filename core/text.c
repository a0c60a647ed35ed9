/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#define DAY_MS      G_GINT64_CONSTANT(86400000)
#define JULIAN_1970 719163 /* 1 January 1970, as GDate counts days */

gboolean text_parse_number(const char *text, guint base, guint64 min, guint64 max,
			   guint64 *out_number)
{
	return g_ascii_isxdigit(*text) &&
	       g_ascii_string_to_unsigned(text, base, min, max, out_number, NULL);
}

/* Does not use gmtime(), because a 32-bit time_t ends in 2038. */
char *text_time_ms(gint64 time_ms)
{
	gint64 days = time_ms / DAY_MS - (time_ms % DAY_MS < 0);
	gint64 ms = time_ms - days * DAY_MS;
	GDate date;

	g_date_clear(&date, 1);
	g_date_set_julian(&date, (guint32)(days + JULIAN_1970));
	return g_strdup_printf("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", g_date_get_year(&date),
			       (int)g_date_get_month(&date), g_date_get_day(&date),
			       (int)(ms / 3600000), (int)(ms / 60000 % 60), (int)(ms / 1000 % 60),
			       (int)(ms % 1000));
}
