/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The text forms of an ID. */

typedef enum {
	ID_TEXT_DECIMAL,
	ID_TEXT_HEX,       /* up to 16 digits, of either case, after "0x" or not */
	ID_TEXT_CROCKFORD, /* base 32, up to 13 digits; case-insensitive, I L -> 1, O -> 0 */
	ID_TEXT_BASE62,    /* up to 11 digits: figures, upper, lower */
	ID_TEXT_BASE58,    /* up to 11 digits, the alphabet of Flickr */
} IdTextForm;

/* (nullable): "decimal" and so on; %NULL: there are not as many forms. */
const char *id_text_form_name(IdTextForm form);

/* Sets *@out_form to what "decimal", "hex", "crockford", "base62" or "base58" names; %FALSE: @name
 * is none of them. */
gboolean id_text_form_from_name(const char *name, IdTextForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/* Sets *@out_form to what @text shows by itself, "12" or "0x1f"; %FALSE: it may be any. */
gboolean id_text_form_of(const char *text, IdTextForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/**
 * id_text_encode:
 * @id: not negative
 *
 * Hex, crockford and base62 have all their digits, with leading zeros, so that the texts of a form
 * sort as the IDs do; decimal and base58 have no more than they need.
 *
 * Returns: (transfer full): what id_text_decode() reads
 */
char *id_text_encode(IdTextForm form, gint64 id);

/**
 * id_text_decode:
 * @out_id: (out): 0 to 2^63 - 1; untouched on failure
 *
 * Takes neither sign nor white space. Leading zeros may be there or not, but more digits than the
 * form has are refused.
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which quotes the text
 */
gboolean id_text_decode(IdTextForm form, const char *text, gint64 *out_id,
			GError **error) G_GNUC_WARN_UNUSED_RESULT;
