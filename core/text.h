/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Untrusted text made safe to print, numbers that people write, times as text, and the errors of
 * what does not parse. */

/**
 * text_escape:
 * @bytes: not necessarily text, can contain NULs
 *
 * Keeps printable ASCII; backslash, quotes and every other byte become \xNN. Input after 64
 * bytes becomes "...".
 *
 * Returns: (transfer full): ASCII that is safe in a log line and in every Thrift client
 */
char *text_escape(const char *bytes, gsize length);

/* Whether @text is a number from @min to @max in digits of @base, and nothing else; *@out_number is
 * untouched if it is not. g_ascii_string_to_unsigned() takes a vertical tab before it, too. */
gboolean text_parse_number(const char *text, guint base, guint64 min, guint64 max,
			   guint64 *out_number) G_GNUC_WARN_UNUSED_RESULT;

/* The errors of IDs, UUIDs, ULIDs, and layouts. */
#define ID_ERROR (id_error_quark())
GQuark id_error_quark(void);

typedef enum {
	ID_ERROR_INVALID,      /* a text does not parse, or a layout cannot work */
	ID_ERROR_OUT_OF_RANGE, /* no ID of this kind has that part or that time */
	ID_ERROR_OVERFLOW,     /* no ULIDs are left in the millisecond */
} IdError;

/* Sets an error with this message. Returns FALSE, for the caller to return. */
gboolean id_error_set(GError **error, IdError code, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Sets a G_OPTION_ERROR_BAD_VALUE with this message. Returns FALSE, for the caller to return. */
gboolean text_set_bad_value(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Likewise: "VALUE" is escaped and quoted, and followed by a blank and @why. */
gboolean text_refuse_value(GError **error, const char *value, const char *why);

/* (transfer full): RFC 3339 in UTC with milliseconds, as 2010-11-04T01:42:54.657Z. Years 1 to
 * 9999. */
char *text_time_ms(gint64 time_ms);
