/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/time-text.h"

#include <time.h>

#define DATE_PATTERN     "([0-9]{4}-[0-9]{2}-[0-9]{2})"
#define TIME_PATTERN     "([0-9]{2}:[0-9]{2}:[0-5][0-9])"
#define FRACTION_PATTERN "(?:\\.([0-9]+))?"
#define ZONE_PATTERN     "([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

/* @digits: the digits after the point; can be empty */
static gint64 parse_ms(const char *digits)
{
	gint64 ms = 0;

	for (guint i = 0; i < 3; i++) {
		ms = 10 * ms + (*digits != '\0' ? g_ascii_digit_value(*digits) : 0);
		digits += *digits != '\0';
	}
	return ms;
}

gboolean ctl_time_text_parse(const char *text, gint64 *out_time_ms)
{
	/* GLib also accepts other forms of ISO 8601, a second 60, and offsets of a day */
	g_autoptr(GRegex) regex =
		g_regex_new("^" DATE_PATTERN "[Tt ]" TIME_PATTERN FRACTION_PATTERN ZONE_PATTERN "$",
			    G_REGEX_DOLLAR_ENDONLY, 0, NULL);
	g_autoptr(GMatchInfo) match = NULL;
	g_autoptr(GDateTime) time = NULL;
	g_autofree char *plain = NULL, *upper = NULL, *digits = NULL;

	if (!g_regex_match(regex, text, 0, &match))
		return FALSE;
	plain = g_match_info_expand_references(match, "\\1T\\2\\4", NULL);
	upper = g_ascii_strup(plain, -1);
	time = g_date_time_new_from_iso8601(upper, NULL);
	if (time == NULL)
		return FALSE;
	digits = g_match_info_fetch(match, 3);
	*out_time_ms = g_date_time_to_unix(time) * 1000 + parse_ms(digits);
	return TRUE;
}

/* Takes the offset from the C library. GLib confuses standard and daylight saving time if the
 * latter is behind, as in Dublin. */
GDateTime *ctl_time_text_local(gint64 time_ms)
{
	gint64 unix_s = time_ms / 1000;
	time_t seconds = (time_t)unix_s;
	g_autoptr(GDateTime) utc = g_date_time_new_from_unix_utc(unix_s);
	g_autoptr(GTimeZone) zone = NULL;
	struct tm local;

	/* a 32-bit time_t can be too small */
	if (seconds != unix_s ||
	    localtime_r(&seconds, &local) == NULL) /* lint: allow seconds: checked above */
		return g_date_time_to_local(utc);
	zone = g_time_zone_new_offset((gint32)local.tm_gmtoff);
	return g_date_time_to_timezone(utc, zone);
}
