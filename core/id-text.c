/* SPDX-License-Identifier: Apache-2.0 */
#include "core/id-text.h"

#include <string.h>

#include "core/text.h"

typedef struct {
	const char *name;
	const char *digits; /* the digits from 0 upwards; the length of the string is the base */
	guint max_digits;
	gboolean padded; /* padded with leading zeros to max_digits */
} Form;

static const Form forms[] = {
	[ID_TEXT_DECIMAL] = {"decimal", "0123456789", 19, FALSE},
	[ID_TEXT_HEX] = {"hex", "0123456789abcdef", 16, TRUE},
	[ID_TEXT_CROCKFORD] = {"crockford", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13, TRUE},
	[ID_TEXT_BASE62] = {"base62",
			    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11,
			    TRUE},
	[ID_TEXT_BASE58] = {"base58", "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ",
			    11, FALSE},
};

const char *id_text_form_name(IdTextForm form)
{
	return form < G_N_ELEMENTS(forms) ? forms[form].name : NULL;
}

gboolean id_text_form_from_name(const char *name, IdTextForm *out_form)
{
	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++) {
		if (strcmp(name, forms[i].name) == 0) {
			*out_form = (IdTextForm)i;
			return TRUE;
		}
	}
	return FALSE;
}

gboolean id_text_form_of(const char *text, IdTextForm *out_form)
{
	gboolean is_hex = g_ascii_strncasecmp(text, "0x", 2) == 0;
	gboolean is_decimal = text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';

	*out_form = is_hex ? ID_TEXT_HEX : ID_TEXT_DECIMAL;
	return is_hex || is_decimal;
}

char *id_text_encode(IdTextForm form, gint64 id)
{
	const Form *self = &forms[form];
	gint64 base = (gint64)strlen(self->digits);
	gsize min_digits = self->padded ? self->max_digits : 1;
	GString *text = g_string_new(NULL);

	do {
		g_string_prepend_c(text, self->digits[id % base]);
		id /= base;
	} while (id > 0 || text->len < min_digits);
	return g_string_free(text, FALSE);
}

static gboolean read_digits(IdTextForm form, const char *text, gint64 *out_id, GError **error)
{
	const Form *self = &forms[form];
	gint64 base = (gint64)strlen(self->digits);
	const char *digits = text;
	gint64 id = 0;

	if (form == ID_TEXT_HEX && g_ascii_strncasecmp(text, "0x", 2) == 0)
		digits += 2;
	if (*digits == '\0')
		return id_error_set(error, ID_ERROR_INVALID, "it has no digits");
	if (strlen(digits) > self->max_digits)
		return id_error_set(error, ID_ERROR_INVALID, "it has more than %u digits",
				    self->max_digits);
	for (const char *c = digits; *c != '\0'; c++) {
		char canonical = *c;
		const char *found;
		gint64 digit;

		/* if a form's digits have only one case, accept both cases */
		if (form == ID_TEXT_HEX)
			canonical = g_ascii_tolower(*c);
		else if (form == ID_TEXT_CROCKFORD && strchr("ILil", *c) != NULL)
			canonical = '1';
		else if (form == ID_TEXT_CROCKFORD)
			canonical = *c == 'O' || *c == 'o' ? '0' : g_ascii_toupper(*c);
		found = strchr(self->digits, canonical);
		if (found == NULL)
			return id_error_set(error, ID_ERROR_INVALID, "character %d is not a digit",
					    (int)(c - text) + 1);
		digit = found - self->digits;
		if (id > (G_MAXINT64 - digit) / base)
			return id_error_set(error, ID_ERROR_INVALID,
					    "it is above %" G_GINT64_FORMAT, G_MAXINT64);
		id = id * base + digit;
	}
	*out_id = id;
	return TRUE;
}

gboolean id_text_decode(IdTextForm form, const char *text, gint64 *out_id, GError **error)
{
	g_autofree char *quoted = NULL;

	if (read_digits(form, text, out_id, error))
		return TRUE;
	quoted = text_escape(text, strlen(text));
	g_prefix_error(error, "\"%s\" is not an ID in %s: ", quoted, forms[form].name);
	return FALSE;
}
