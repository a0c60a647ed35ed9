/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <string.h>

#define DAY_MS      G_GINT64_CONSTANT(86400000)
#define JULIAN_1970 719163 /* GDate's day number of 1 January 1970 */

gboolean text_parse_number(const char *text, guint base, guint64 min, guint64 max,
			   guint64 *out_number)
{
	return g_ascii_isxdigit(*text) &&
	       g_ascii_string_to_unsigned(text, base, min, max, out_number, NULL);
}

G_DEFINE_QUARK(id_error_quark, id_error)

gboolean text_set_error(GError **error, GQuark domain, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	g_propagate_error(error, g_error_new_valist(domain, code, format, arguments));
	va_end(arguments);
	return FALSE;
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

#define MAX_ESCAPED_BYTES 64

static char *escape(const char *bytes, gsize length, gsize max_bytes, const char *escaped)
{
	GString *out = g_string_new(NULL);

	for (gsize i = 0; i < MIN(length, max_bytes); i++) {
		char c = bytes[i];

		if (g_ascii_isprint(c) && strchr(escaped, c) == NULL)
			g_string_append_c(out, c);
		else
			g_string_append_printf(out, "\\x%02x", (guchar)c);
	}
	if (length > max_bytes)
		g_string_append(out, "...");
	return g_string_free(out, FALSE);
}

char *text_escape(const char *bytes, gsize length)
{
	return text_escape_up_to(bytes, length, MAX_ESCAPED_BYTES);
}

char *text_escape_up_to(const char *bytes, gsize length, gsize max_bytes)
{
	return escape(bytes, length, max_bytes, "\\\"'");
}

char *text_escape_path(const char *path)
{
	return text_escape_up_to(path, strlen(path), G_MAXSIZE);
}

gboolean text_refuse_value(GError **error, const char *value, const char *why)
{
	/* a value in double quotes is shown as it was typed */
	const char *quote = strchr(value, '"') != NULL ? "'" : "\"";
	g_autofree char *escaped =
		escape(value, strlen(value), MAX_ESCAPED_BYTES, quote[0] == '"' ? "\\\"" : "\\'");

	return text_set_bad_value(error, "%s%s%s %s", quote, escaped, quote, why);
}
