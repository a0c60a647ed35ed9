/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* 128 bits as a UUID (RFC 9562) or a ULID has them: as a number of two halves, as 16 bytes with the
 * highest first, and as a UUID's text. What the bits say is in ulid.h and uuid7.h. */

#define UUID_BYTES     16
#define UUID_TEXT_SIZE 37 /* with the NUL at the end */

#define UUID_ERROR (uuid_error_quark())
GQuark uuid_error_quark(void);

typedef enum {
	UUID_ERROR_INVALID,      /* the text is no UUID, or the UUID is none of that kind */
	UUID_ERROR_OUT_OF_RANGE, /* there is no UUID of that time */
} UuidError;

typedef struct {
	guint64 high;
	guint64 low;
} Uuid;

/* Below 0, 0 or above it. Bytes and texts (of one case) sort alike. */
static inline int uuid_compare(Uuid a, Uuid b)
{
	if (a.high != b.high)
		return a.high < b.high ? -1 : 1;
	return (a.low > b.low) - (a.low < b.low);
}

/* Returns a UUID of version 4. The kernel provides its bits at each call, so two processes never
 * have the same UUID, not even a parent and a child of _Fork() or clone(). */
Uuid uuid_random(void);

void uuid_to_bytes(Uuid self, guint8 out_bytes[static UUID_BYTES]);
Uuid uuid_from_bytes(const guint8 bytes[static UUID_BYTES]);

/* As 8-4-4-4-12 digits, with small letters. */
void uuid_to_text(Uuid self, char out_text[static UUID_TEXT_SIZE]);

/**
 * uuid_parse:
 * @text: 8-4-4-4-12 digits with small or capital letters, and nothing else; any version and variant
 * @out_uuid: (out): untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set
 */
gboolean uuid_parse(const char *text, Uuid *out_uuid, GError **error) G_GNUC_WARN_UNUSED_RESULT;
