/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Functions that escape untrusted text, parse numbers, format times, and set errors about invalid
 * text. */

/**
 * text_escape:
 * @bytes: need not be text; can contain NULs
 *
 * Keeps printable ASCII, except that backslashes, quotes and all other bytes become \xNN. Replaces
 * the input after 64 bytes with "...".
 *
 * Returns: (transfer full): ASCII that is safe in a log line and in every Thrift client
 */
char *text_escape(const char *bytes, gsize length);

/* Parses @text, which must be a number from @min to @max and contain only digits of @base. If not,
 * returns %FALSE, and leaves *@out_number untouched. Unlike g_ascii_string_to_unsigned(), refuses a
 * leading vertical tab. */
gboolean text_parse_number(const char *text, guint base, guint64 min, guint64 max,
			   guint64 *out_number) G_GNUC_WARN_UNUSED_RESULT;

/* Errors about IDs, UUIDs, ULIDs and layouts. */
#define ID_ERROR (id_error_quark())
GQuark id_error_quark(void);

typedef enum {
	ID_ERROR_INVALID,      /* a string does not parse, or a layout is invalid */
	ID_ERROR_OUT_OF_RANGE, /* a part or a time does not fit into this kind of ID */
	ID_ERROR_OVERFLOW,     /* the millisecond has no ULIDs left */
} IdError;

/* Sets an error with this message. Returns FALSE, so that the caller can return the result. */
gboolean id_error_set(GError **error, IdError code, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Sets a G_OPTION_ERROR_BAD_VALUE with this message. Returns FALSE, so that the caller can return
 * the result. */
gboolean text_set_bad_value(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Sets a G_OPTION_ERROR_BAD_VALUE with the escaped value in quotes, a blank, and @why. The quotes
 * are single if the value contains a double quote. Returns FALSE. */
gboolean text_refuse_value(GError **error, const char *value, const char *why);

/* Returns: (transfer full): the time in the form of RFC 3339, in UTC with milliseconds:
 * 2010-11-04T01:42:54.657Z. Supports the years 1 to 9999. */
char *text_time_ms(gint64 time_ms);
