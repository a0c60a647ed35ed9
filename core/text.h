/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Functions that escape untrusted text, parse numbers, format times, and set errors about invalid
 * text. */

/* Returns: (transfer full): ASCII that is safe in a log line and in every Thrift client. Printable
 * ASCII is kept, except that backslashes, quotes and all other bytes become \xNN. "..." replaces
 * the input after 64 bytes.
 * @bytes: need not be text; can contain NULs */
char *text_escape(const char *bytes, gsize length);

/* Escapes like text_escape(), but replaces the input after @max_bytes. */
char *text_escape_up_to(const char *bytes, gsize length, gsize max_bytes);

/* Escapes like text_escape(), but never replaces the end of the path. */
char *text_escape_path(const char *path);

/* Parses @text, which must be a number from @min to @max and contain only digits of @base. If not,
 * returns %FALSE, and leaves *@out_number untouched. Unlike g_ascii_string_to_unsigned(), refuses a
 * leading vertical tab. */
gboolean text_parse_number(const char *text, guint base, guint64 min, guint64 max,
			   guint64 *out_number) G_GNUC_WARN_UNUSED_RESULT;

/* Like g_set_error(), but returns FALSE, so that the caller can return the result. */
gboolean text_set_error(GError **error, GQuark domain, int code, const char *format, ...)
	G_GNUC_PRINTF(4, 5);

#define text_set_bad_value(error, ...)                                                             \
	text_set_error((error), G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, __VA_ARGS__)

/* Errors about IDs, UUIDs, ULIDs, layouts and records. */
#define ID_ERROR (id_error_quark())
GQuark id_error_quark(void);

typedef enum {
	ID_ERROR_INVALID,      /* a string does not parse, or a layout or a record is invalid */
	ID_ERROR_OUT_OF_RANGE, /* a part or a time does not fit into this kind of ID */
	ID_ERROR_OVERFLOW,     /* the millisecond has no ULIDs left */
} IdError;

#define id_error_set(error, code, ...) text_set_error((error), ID_ERROR, (code), __VA_ARGS__)

/* Sets a G_OPTION_ERROR_BAD_VALUE with the escaped value in quotes, a blank, and @why. The quotes
 * are single if the value contains a double quote. Returns FALSE. */
gboolean text_refuse_value(GError **error, const char *value, const char *why);

/* Returns: (transfer full): the time in the form of RFC 3339, in UTC with milliseconds:
 * 2010-11-04T01:42:54.657Z. Supports the years 1 to 9999. */
char *text_time_ms(gint64 time_ms);
