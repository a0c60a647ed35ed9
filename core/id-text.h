/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The text forms of an ID. */

typedef enum {
	ID_TEXT_DECIMAL,
	ID_TEXT_HEX, /* up to 16 digits in either case, with or without "0x" */
	/* base 32, up to 13 digits; case-insensitive; I and L are read as 1, O as 0 */
	ID_TEXT_CROCKFORD,
	ID_TEXT_BASE62, /* up to 11 digits: 0-9, A-Z, a-z */
	ID_TEXT_BASE58, /* up to 11 digits of Flickr's alphabet */
} IdTextForm;

/* Returns: (nullable): the name, for example "decimal"; %NULL after the last form. */
const char *id_text_form_name(IdTextForm form);

/* Sets *@out_form to the form named "decimal", "hex", "crockford", "base62" or "base58". Returns
 * %FALSE if @name is none of them. */
gboolean id_text_form_from_name(const char *name, IdTextForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/* Recognises "12" as decimal and "0x1f" as hex. Returns %FALSE if the form of @text is ambiguous.
 */
gboolean id_text_form_of(const char *text, IdTextForm *out_form) G_GNUC_WARN_UNUSED_RESULT;

/* The hex, crockford and base62 forms have leading zeros, so that they sort like the IDs. The
 * decimal and base58 forms do not.
 * @id: not negative
 * Returns: (transfer full): the text, which id_text_decode() can read */
char *id_text_encode(IdTextForm form, gint64 id);

/* Accepts no sign and no whitespace. Leading zeros are optional, but a string with more digits than
 * the form's maximum is refused.
 * @out_id: (out): 0 to 2^63 - 1; untouched on failure
 * Returns: %TRUE, or %FALSE with INVALID set, which quotes the text */
gboolean id_text_decode(IdTextForm form, const char *text, gint64 *out_id,
			GError **error) G_GNUC_WARN_UNUSED_RESULT;
