/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Reads the text forms of an ID. */

#define CTL_ID_TEXT_ERROR (ctl_id_text_error_quark())
GQuark ctl_id_text_error_quark(void);

typedef enum {
	CTL_ID_TEXT_ERROR_INVALID, /* not the text of an ID in this form */
} CtlIdTextError;

typedef enum {
	CTL_ID_DECIMAL,
	CTL_ID_HEX,       /* up to 16 digits, of either case, after "0x" or not */
	CTL_ID_CROCKFORD, /* base 32, up to 13 digits; case-insensitive, I L -> 1, O -> 0 */
	CTL_ID_BASE62,    /* up to 11 digits: figures, upper, lower */
	CTL_ID_BASE58,    /* up to 11 digits, the alphabet of Flickr */
} CtlIdForm;

/* Sets *@out_form to what "decimal", "hex", "crockford", "base62" or "base58" names; %FALSE: @name
 * is none of them. */
gboolean ctl_id_form_from_name(const char *name, CtlIdForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/* Sets *@out_form to what @text shows by itself, "12" or "0x1f"; %FALSE: it may be any. */
gboolean ctl_id_form_of(const char *text, CtlIdForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/**
 * ctl_id_text_decode:
 * @out_id: (out): 0 to 2^63 - 1; untouched on failure
 *
 * Takes neither sign nor white space. Leading zeros may be there or not, but more digits than the
 * form has are refused.
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which quotes the text
 */
gboolean ctl_id_text_decode(CtlIdForm form, const char *text, gint64 *out_id,
			    GError **error) G_GNUC_WARN_UNUSED_RESULT;
