/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The text forms of an ID, written and read. */

#define CTL_ID_TEXT_ERROR (ctl_id_text_error_quark())
GQuark ctl_id_text_error_quark(void);

typedef enum {
	CTL_ID_TEXT_ERROR_INVALID, /* not the text of an ID in this form */
} CtlIdTextError;

typedef enum {
	CTL_ID_DECIMAL,
	CTL_ID_HEX,       /* 16 digits, zero padded, lower case; reads upper case and a "0x", too */
	CTL_ID_CROCKFORD, /* base 32, 13 digits, zero padded; case-insensitive, I L -> 1, O -> 0 */
	CTL_ID_BASE62,    /* digits, upper, lower; 11 digits, zero padded */
	CTL_ID_BASE58,    /* the alphabet of Flickr; no padding */
} CtlIdForm;

/* Sets *@out_form to what "decimal", "hex", "crockford", "base62" or "base58" names; %FALSE: @name
 * is none of them. */
gboolean ctl_id_form_from_name(const char *name, CtlIdForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/* Room for any form and its NUL. */
#define CTL_ID_TEXT_MAX 24

/* Writes @id, which must not be negative, and returns @buffer. */
char *ctl_id_text_encode(CtlIdForm form, gint64 id, char buffer[static CTL_ID_TEXT_MAX]);

/**
 * ctl_id_text_decode:
 * @out_id: (out): 0 to 2^63 - 1; untouched on failure
 *
 * Takes neither sign nor white space. Padding may be left out where a form pads, but more digits
 * than the form has are refused.
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which quotes the text
 */
gboolean ctl_id_text_decode(CtlIdForm form, const char *text, gint64 *out_id,
			    GError **error) G_GNUC_WARN_UNUSED_RESULT;
