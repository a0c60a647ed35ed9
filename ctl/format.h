/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#define CTL_FORMAT_MAX_TIME_MS G_GINT64_CONSTANT(253402300799999) /* the end of the year 9999 */

/* Formats values that may be missing, for tables ("-") and for JSON (null), and parses times that
 * operators type. */

/* Returns: (transfer full): the time in RFC 3339 form; "-" if @time_ms is 0, or if RFC 3339 cannot
 * express the time. */
char *ctl_format_time(gint64 time_ms);
void ctl_format_json_time(JsonObject *object, const char *name, gint64 time_ms);

/* Returns: (transfer full): the end of a reservation: "for 8 s", "ended 3 min ago"; "-" as above.
 */
char *ctl_format_until(gint64 until_ms, gint64 now_ms);
/* Returns: (transfer full): a duration in days, hours or minutes: the largest unit in which it is
 * two or more; otherwise in seconds. */
char *ctl_format_span(gint64 span_ms);

/* Returns: (transfer full): @text (nullable), made safe to print, and truncated to 64 bytes. */
char *ctl_format_text(const char *text);
/* Like ctl_format_text(), for an address, or a path of a znode or a file: truncates to 512 bytes.
 */
char *ctl_format_path(const char *path);
/* Like ctl_format_text(), for a useragent, which can contain NULs: truncates to 256 bytes. */
char *ctl_format_agent(const char *agent, gsize length);
/* Sets a member. @text: (nullable): any bytes; invalid UTF-8 becomes U+FFFD. */
void ctl_format_json_text(JsonObject *object, const char *name, const char *text);
/* Sets a member to the decimal number as a string, because JavaScript's numbers cannot represent
 * all IDs. */
void ctl_format_json_id(JsonObject *object, const char *name, gint64 id);
/* Sets a member to @value, or to null if it is not known. */
void ctl_format_json_number(JsonObject *object, const char *name, gboolean is_known, gint64 value);

/* Returns: (transfer full): one line of ASCII, with escapes for other characters. @object:
 * (transfer full): contains UTF-8 */
char *ctl_format_json(JsonObject *object);

/* Parses @text, a time in RFC 3339 form, and sets *out_time_ms to the time in milliseconds since
 * the Unix epoch. Ignores digits after the milliseconds. Rejects a leap second (60), because no ID
 * has such a time. Returns: %FALSE if @text is not such a time */
gboolean ctl_format_parse_time(const char *text, gint64 *out_time_ms);
