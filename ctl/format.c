/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/format.h"

#include <string.h>
#include <time.h>

#include "common/strict-json.h"
#include "core/text.h"

#define MAX_ADDRESS_BYTES 259 /* a host name of 253 bytes, a colon and a port */
#define MAX_PATH_BYTES    512
#define MAX_AGENT_BYTES   256 /* maximum length of an agent that servers accept */
#define MAX_ESCAPE_BYTES  64  /* maximum length of a string that text_escape() does not truncate */

static gboolean is_time(gint64 time_ms)
{
	return time_ms > 0 && time_ms <= CTL_FORMAT_MAX_TIME_MS;
}

char *ctl_format_time(gint64 time_ms)
{
	return is_time(time_ms) ? text_time_ms(time_ms) : g_strdup("-");
}

void ctl_format_json_time(JsonObject *object, const char *name, gint64 time_ms)
{
	g_autofree char *text = is_time(time_ms) ? text_time_ms(time_ms) : NULL;

	ctl_format_json_text(object, name, text);
}

char *ctl_format_until(gint64 until_ms, gint64 now_ms)
{
	g_autofree char *time = ctl_format_time(until_ms);

	return is_time(until_ms) && until_ms < now_ms ? g_strconcat(time, " (ended)", NULL)
						      : g_steal_pointer(&time);
}

char *ctl_format_until_short(gint64 until_ms, gint64 now_ms)
{
	gboolean ended = until_ms < now_ms;
	g_autofree char *span = NULL;

	if (!is_time(until_ms))
		return g_strdup("-");
	span = ctl_format_span(ended ? now_ms - until_ms : until_ms - now_ms);
	return ended ? g_strdup_printf("ended %s ago", span) : g_strdup_printf("for %s", span);
}

char *ctl_format_span(gint64 span_ms)
{
	static const struct {
		const char *name;
		gint64 ms;
	} UNITS[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}};

	for (gsize i = 0; i < G_N_ELEMENTS(UNITS); i++) {
		if (span_ms >= 2 * UNITS[i].ms)
			return g_strdup_printf("%" G_GINT64_FORMAT " %s", span_ms / UNITS[i].ms,
					       UNITS[i].name);
	}
	return g_strdup_printf("%" G_GINT64_FORMAT " s", span_ms / 1000);
}

char *ctl_format_text(const char *text)
{
	return text != NULL ? text_escape(text, strlen(text)) : g_strdup("-");
}

static char *escape_text(const char *text, gsize length, gsize max_bytes)
{
	GString *shown = g_string_new(NULL);
	gsize most = MIN(length, max_bytes);

	for (gsize i = 0; i < most; i += MAX_ESCAPE_BYTES) {
		g_autofree char *piece = text_escape(text + i, MIN(most - i, MAX_ESCAPE_BYTES));

		g_string_append(shown, piece);
	}
	if (length > most)
		g_string_append(shown, "...");
	return g_string_free(shown, FALSE);
}

char *ctl_format_address(const char *address)
{
	return address != NULL ? escape_text(address, strlen(address), MAX_ADDRESS_BYTES)
			       : g_strdup("-");
}

char *ctl_format_path(const char *path)
{
	return escape_text(path, strlen(path), MAX_PATH_BYTES);
}

char *ctl_format_agent(const char *agent, gsize length)
{
	return escape_text(agent, length, MAX_AGENT_BYTES);
}

void ctl_format_json_text(JsonObject *object, const char *name, const char *text)
{
	g_autofree char *valid = text != NULL ? g_utf8_make_valid(text, -1) : NULL;

	if (valid != NULL)
		json_object_set_string_member(object, name, valid);
	else
		json_object_set_null_member(object, name);
}

void ctl_format_json_id(JsonObject *object, const char *name, gint64 id)
{
	g_autofree char *decimal = g_strdup_printf("%" G_GINT64_FORMAT, id);

	json_object_set_string_member(object, name, decimal);
}

void ctl_format_json_number(JsonObject *object, const char *name, gboolean is_known, gint64 value)
{
	if (is_known)
		json_object_set_int_member(object, name, value);
	else
		json_object_set_null_member(object, name);
}

char *ctl_format_json(JsonObject *object)
{
	g_autofree char *json = strict_json_print(object);
	GString *escaped = g_string_sized_new(strlen(json));

	/* JSON contains only ASCII outside strings */
	for (const char *next = json; *next != '\0'; next = g_utf8_next_char(next)) {
		gunichar character = g_utf8_get_char(next);

		if (character < 0x7f) {
			g_string_append_c(escaped, (char)character);
			continue;
		}
		/* an escape represents 16 bits, so larger characters need two */
		if (character >= 0x10000) {
			character -= 0x10000;
			g_string_append_printf(escaped, "\\u%04x",
					       0xd800 | (guint)(character >> 10));
			character = 0xdc00 | (character & 0x3ff);
		}
		g_string_append_printf(escaped, "\\u%04x", (guint)character);
	}
	return g_string_free(escaped, FALSE);
}

#define DATE_PATTERN     "([0-9]{4}-[0-9]{2}-[0-9]{2})"
#define TIME_PATTERN     "([0-9]{2}:[0-9]{2}:[0-5][0-9])"
#define FRACTION_PATTERN "(?:\\.([0-9]+))?"
#define ZONE_PATTERN     "([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

gboolean ctl_format_parse_time(const char *text, gint64 *out_time_ms)
{
	/* GLib also accepts other forms of ISO 8601, second 60, and offsets of a day */
	g_autoptr(GRegex) regex =
		g_regex_new("^" DATE_PATTERN "[Tt ]" TIME_PATTERN FRACTION_PATTERN ZONE_PATTERN "$",
			    G_REGEX_DOLLAR_ENDONLY, 0, NULL);
	g_autoptr(GMatchInfo) match = NULL;
	g_autoptr(GDateTime) time = NULL;
	g_autofree char *plain = NULL, *upper = NULL, *digits = NULL;
	gint64 ms = 0;

	if (!g_regex_match(regex, text, 0, &match))
		return FALSE;
	plain = g_match_info_expand_references(match, "\\1T\\2\\4", NULL);
	upper = g_ascii_strup(plain, -1);
	time = g_date_time_new_from_iso8601(upper, NULL);
	if (time == NULL)
		return FALSE;
	digits = g_match_info_fetch(match, 3);
	for (guint i = 0, n = (guint)strlen(digits); i < 3; i++)
		ms = 10 * ms + (i < n ? g_ascii_digit_value(digits[i]) : 0);
	*out_time_ms = g_date_time_to_unix(time) * 1000 + ms;
	return TRUE;
}

/* Uses the C library's offset, because GLib confuses standard and daylight saving time where the
 * latter is behind, as in Dublin. */
GDateTime *ctl_format_local_time(gint64 time_ms)
{
	gint64 unix_s = time_ms / 1000;
	time_t seconds = (time_t)unix_s;
	g_autoptr(GDateTime) utc = g_date_time_new_from_unix_utc(unix_s);
	g_autoptr(GTimeZone) zone = NULL;
	struct tm local;

	/* a 32-bit time_t may be too small */
	if (seconds != unix_s ||
	    localtime_r(&seconds, &local) == NULL) /* lint: allow seconds: checked above */
		return g_date_time_to_local(utc);
	zone = g_time_zone_new_offset((gint32)local.tm_gmtoff);
	return g_date_time_to_timezone(utc, zone);
}
