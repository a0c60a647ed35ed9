/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#define CTL_FORMAT_MAX_TIME_MS G_GINT64_CONSTANT(253402300799999) /* the end of the year 9999 */

/* Values that can be missing, for tables ("-") and for JSON (null); and times as operators write
 * them. */

/* (transfer full): RFC 3339; missing if @time_ms is 0 or outside of what RFC 3339 can express. */
char *ctl_format_time(gint64 time_ms);
void ctl_format_json_time(JsonObject *object, const char *name, gint64 time_ms);

/* (transfer full): the end of a reservation, with "(ended)" if it is past; missing as above. */
char *ctl_format_until(gint64 until_ms, gint64 now_ms);
/* The same in a short form: "for 8 s", "ended 3 min ago". */
char *ctl_format_until_short(gint64 until_ms, gint64 now_ms);
/* (transfer full): whole seconds; or minutes, hours or days, if there are two or more. */
char *ctl_format_span(gint64 span_ms);

/* (transfer full): @text, (nullable), safe to print; cut at 64 bytes. */
char *ctl_format_text(const char *text);
/* The same for HOST:PORT, cut at the longest possible address. */
char *ctl_format_address(const char *address);
/* The same for a path in ZooKeeper or a file, cut at 512 bytes. */
char *ctl_format_path(const char *path);
/* The same for a useragent, which can contain NULs, cut at 256 bytes. */
char *ctl_format_agent(const char *agent, gsize length);
/* @text: (nullable): any bytes; what is not UTF-8 becomes U+FFFD. */
void ctl_format_json_text(JsonObject *object, const char *name, const char *text);

/* (transfer full): one line of ASCII, with escapes for all other characters.
 * @object: (transfer full): its texts are UTF-8 */
char *ctl_format_json(JsonObject *object);

/* Sets *out_time_ms to the time that @text states in RFC 3339, in milliseconds since the Unix
 * epoch. Ignores digits after the milliseconds. Refuses a leap second (60), because no ID has such
 * a time. Returns: %FALSE if @text is not such a time */
gboolean ctl_format_parse_time(const char *text, gint64 *out_time_ms);

/* (transfer full): local time. @time_ms: 0 to CTL_FORMAT_MAX_TIME_MS, or the time of an ID */
GDateTime *ctl_format_local_time(gint64 time_ms);
