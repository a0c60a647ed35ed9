/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* IDs as text, and text from the wire made safe to print. */

#define TEXT_ERROR (text_error_quark())
GQuark text_error_quark(void);

typedef enum {
	TEXT_ERROR_INVALID, /* not the text of an ID in this form */
} TextError;

typedef enum {
	TEXT_DECIMAL,
	TEXT_HEX,       /* 16 digits, zero padded, lower case; reads upper case and a "0x", too */
	TEXT_CROCKFORD, /* base 32, 13 digits, zero padded; case-insensitive, I L -> 1, O -> 0 */
	TEXT_BASE62,    /* digits, upper, lower; 11 digits, zero padded */
	TEXT_BASE58,    /* the alphabet of Flickr; no padding */
} TextForm;

/* "decimal", "hex", "crockford", "base62", "base58". */
const char *text_form_name(TextForm form);
/* %TRUE and @out_form, or %FALSE if there is no such name. */
gboolean text_form_from_name(const char *name, TextForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/* Room for any form and its NUL. */
#define TEXT_MAX 24

/* Writes @id, which must not be negative, and returns @buffer. */
char *text_encode(TextForm form, gint64 id, char buffer[static TEXT_MAX]);

/**
 * text_decode:
 * @out_id: (out): 0 to 2^63 - 1; untouched on failure
 *
 * Takes neither sign nor white space. Padding may be left out where a form pads, but more digits
 * than the form has are refused.
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which quotes the text
 */
gboolean text_decode(TextForm form, const char *text, gint64 *out_id,
		     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * text_escape:
 * @bytes: not necessarily text, may hold NULs
 *
 * Printable ASCII stays; backslash, quotes and every other byte become \xNN. Cut at 64 bytes of
 * input, with "..." behind.
 *
 * Returns: (transfer full): ASCII that is safe in a log line and in every Thrift client
 */
char *text_escape(const char *bytes, gsize length);

/* (transfer full): RFC 3339 in UTC with milliseconds, as 2010-11-04T01:42:54.657Z. Years 1970 to
 * 9999. */
char *text_time_ms(gint64 time_ms);
