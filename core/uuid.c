/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uuid.h"

#include <string.h>

#include "core/random.h"
#include "core/text.h"

G_DEFINE_QUARK(uuid_error_quark, uuid_error)

Uuid uuid_random(void)
{
	Uuid self;

	random_from_kernel(&self, sizeof(self));
	self.high = (self.high & ~G_GUINT64_CONSTANT(0xf000)) | 0x4000;
	self.low = self.low >> 2 | G_GUINT64_CONSTANT(1) << 63;
	return self;
}

void uuid_to_bytes(Uuid self, guint8 out_bytes[static UUID_BYTES])
{
	const guint64 halves[] = {GUINT64_TO_BE(self.high), GUINT64_TO_BE(self.low)};

	memcpy(out_bytes, halves, UUID_BYTES);
}

Uuid uuid_from_bytes(const guint8 bytes[static UUID_BYTES])
{
	guint64 halves[2];

	memcpy(halves, bytes, UUID_BYTES);
	return (Uuid){GUINT64_FROM_BE(halves[0]), GUINT64_FROM_BE(halves[1])};
}

/* Whether a hyphen stands there in the text. */
static gboolean is_hyphen_at(gsize position)
{
	return position == 8 || position == 13 || position == 18 || position == 23;
}

void uuid_to_text(Uuid self, char out_text[static UUID_TEXT_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (gsize i = 0; i < UUID_TEXT_SIZE - 1; i++) {
		if (is_hyphen_at(i)) {
			out_text[i] = '-';
			continue;
		}
		out_text[i] = digits[self.high >> 60];
		self.high = self.high << 4 | self.low >> 60;
		self.low <<= 4;
	}
	out_text[UUID_TEXT_SIZE - 1] = '\0';
}

gboolean uuid_parse(const char *text, Uuid *out_uuid, GError **error)
{
	gsize length = strlen(text);
	gboolean valid = length == UUID_TEXT_SIZE - 1;
	Uuid uuid = {0};

	for (gsize i = 0; valid && i < length; i++) {
		if (is_hyphen_at(i)) {
			valid = text[i] == '-';
			continue;
		}
		valid = g_ascii_isxdigit(text[i]);
		uuid.high = uuid.high << 4 | uuid.low >> 60;
		uuid.low = uuid.low << 4 | (guint64)g_ascii_xdigit_value(text[i]);
	}
	if (!valid) {
		g_autofree char *shown = text_escape(text, length);

		g_set_error(error, UUID_ERROR, UUID_ERROR_INVALID,
			    "\"%s\" is not a UUID: 8-4-4-4-12 digits of 0-9 and a-f", shown);
		return FALSE;
	}
	*out_uuid = uuid;
	return TRUE;
}
