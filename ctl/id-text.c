/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/id-text.h"

#include <string.h>

#include "core/text.h"

G_DEFINE_QUARK(ctl_id_text_error_quark, ctl_id_text_error)

typedef struct {
	const char *name;
	const char *digits; /* from 0 up: as many as the base */
	guint max_digits;
} Form;

static const Form forms[] = {
	[CTL_ID_DECIMAL] = {"decimal", "0123456789", 19},
	[CTL_ID_HEX] = {"hex", "0123456789abcdef", 16},
	[CTL_ID_CROCKFORD] = {"crockford", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13},
	[CTL_ID_BASE62] = {"base62",
			   "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11},
	[CTL_ID_BASE58] = {"base58", "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ",
			   11},
};

gboolean ctl_id_form_from_name(const char *name, CtlIdForm *out_form)
{
	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++) {
		if (strcmp(name, forms[i].name) == 0) {
			*out_form = (CtlIdForm)i;
			return TRUE;
		}
	}
	return FALSE;
}

gboolean ctl_id_form_of(const char *text, CtlIdForm *out_form)
{
	gboolean is_hex = g_ascii_strncasecmp(text, "0x", 2) == 0;
	gboolean is_decimal = text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';

	*out_form = is_hex ? CTL_ID_HEX : CTL_ID_DECIMAL;
	return is_hex || is_decimal;
}

/* The digit that @c stands for: a form whose digits have one case reads both. */
static char canonical_digit(CtlIdForm form, char c)
{
	if (form == CTL_ID_HEX)
		return g_ascii_tolower(c);
	if (form != CTL_ID_CROCKFORD)
		return c;
	c = g_ascii_toupper(c);
	if (c == 'I' || c == 'L')
		return '1';
	return c == 'O' ? '0' : c;
}

G_GNUC_PRINTF(4, 5)
static gboolean refuse(CtlIdForm form, const char *text, GError **error, const char *format, ...)
{
	g_autofree char *quoted = text_escape(text, strlen(text));
	g_autofree char *reason = NULL;
	va_list args;

	va_start(args, format);
	reason = g_strdup_vprintf(format, args);
	va_end(args);
	g_set_error(error, CTL_ID_TEXT_ERROR, CTL_ID_TEXT_ERROR_INVALID,
		    "\"%s\" is not an ID in %s: %s", quoted, forms[form].name, reason);
	return FALSE;
}

gboolean ctl_id_text_decode(CtlIdForm form, const char *text, gint64 *out_id, GError **error)
{
	const Form *self = &forms[form];
	gint64 base = (gint64)strlen(self->digits);
	const char *digits = text;
	gint64 id = 0;

	if (form == CTL_ID_HEX && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
		digits += 2;
	if (*digits == '\0')
		return refuse(form, text, error, "it has no digits");
	if (strlen(digits) > self->max_digits)
		return refuse(form, text, error, "it has more than %u digits", self->max_digits);

	for (; *digits != '\0'; digits++) {
		const char *found = strchr(self->digits, canonical_digit(form, *digits));

		if (found == NULL)
			return refuse(form, text, error, "character %d is no digit of it",
				      (int)(digits - text) + 1);

		gint64 digit = found - self->digits;

		if (id > (G_MAXINT64 - digit) / base)
			return refuse(form, text, error, "it is above %" G_GINT64_FORMAT,
				      G_MAXINT64);
		id = id * base + digit;
	}
	*out_id = id;
	return TRUE;
}
