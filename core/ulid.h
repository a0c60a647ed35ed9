/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/uuid.h"

/* ULIDs (github.com/ulid/spec): 48 bits of milliseconds since the Unix epoch, until the year 10889,
 * and 80 random bits. Their uniqueness is a matter of probability; nothing is reserved.
 *
 * A ULID has 128 bits, like a UUID. uuid.h converts it to 16 bytes, or to the text of a UUID. */
typedef Uuid Ulid;

#define ULID_TEXT_SIZE   27 /* including the final NUL */
#define ULID_MAX_TIME_MS ((G_GINT64_CONSTANT(1) << 48) - 1)

/* Returns the time, 0 to ULID_MAX_TIME_MS. */
static inline gint64 ulid_time_ms(Ulid self)
{
	return (gint64)(self.high >> 16);
}

/* Writes 26 digits of Crockford's base 32, in uppercase. The strings sort like their ULIDs. */
void ulid_to_text(Ulid self, char out_text[static ULID_TEXT_SIZE]);

/* Returns: %TRUE, or %FALSE with INVALID set
 * @text: 26 case-insensitive digits without I, L, O and U, at most 7ZZZZZZZZZZZZZZZZZZZZZZZZZ
 * @out_ulid: (out): untouched on failure */
gboolean ulid_parse(const char *text, Ulid *out_ulid, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Thread-safe. Keeps no state between calls.
 * @time_ms: since the Unix epoch, 0 to ULID_MAX_TIME_MS
 * @out_ulids: (out): @count ULIDs in random order, with 80 random bits each; untouched on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set */
gboolean ulid_draw(gint64 time_ms, gsize count, Ulid *out_ulids,
		   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Draws increasing ULIDs ("monotonic" in the specification). The first ULID of a millisecond is
 * random, and each further one is its predecessor plus 1. Thread-safe. A batch reads the clock
 * once, which is most of the cost of a single ULID.
 * @count: 1 or more
 * @out_ulids: (out): @count consecutive ULIDs of one millisecond; untouched on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the clock is before 1970, or OVERFLOW if this
 * millisecond has no room for @count more ULIDs (probability: @count / 2^80). An OVERFLOW changes
 * nothing, and the next millisecond has room */
gboolean ulid_generator_draw(UuidGenerator *self, gsize count, Ulid *out_ulids,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;
