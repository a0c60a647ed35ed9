/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>

#include "core/clock.h"

/* UUIDs (RFC 9562): 128 bits, represented as a number in two halves, as 16 bytes with the most
 * significant byte first, or as text. ulid.h uses the same type. */

#define UUID_BYTES     16
#define UUID_TEXT_SIZE 37 /* including the final NUL */

typedef struct {
	guint64 high;
	guint64 low;
} Uuid;

/* Returns a version 4 UUID. The kernel provides its bits at each call, so two processes never
 * have the same UUID, not even a parent and a child of _Fork() or clone(). */
Uuid uuid_random(void);

void uuid_to_bytes(Uuid self, guint8 out_bytes[static UUID_BYTES]);
Uuid uuid_from_bytes(const guint8 bytes[static UUID_BYTES]);

/* Writes hexadecimal digits in the form 8-4-4-4-12, in lowercase. */
void uuid_to_text(Uuid self, char out_text[static UUID_TEXT_SIZE]);

/* Returns: %TRUE, or %FALSE with INVALID set
 * @text: hexadecimal digits in the form 8-4-4-4-12, case-insensitive, and nothing else; any
 * version and variant
 * @out_uuid: (out): untouched on failure */
gboolean uuid_parse(const char *text, Uuid *out_uuid, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Two kinds of version 7 UUIDs (RFC 9562, section 5.7). Both begin with 48 bits of milliseconds
 * since the Unix epoch, and sort by them.
 *
 *            48 bits       4   12                            2   62
 *   plain    unix_ts_ms    7   counter, high                10   counter, low 30, then 32 random
 *   reserved unix_ts_ms    7   ID, bits 21 to 10            10   ID, bits 9 to 0, then 52 random
 *
 * The uniqueness of the plain kind is a matter of probability. The reserved kind contains a
 * Snowflake ID of the default layout (LAYOUT_TWITTER), so it is as unique as the ID. It contains
 * the ID's time and its low 22 bits: datacenter ID, worker ID and sequence. It sorts like its ID,
 * and converts back to it.
 *
 * The bits do not show which kind a UUID is. A plain UUID whose time is in the layout's range may
 * also be converted to an ID, but that ID is meaningless. */
#define UUID_COUNTER_BITS 42

/* Returns unix_ts_ms, the 48-bit time of a version 7 UUID. */
static inline gint64 uuid_time_ms(Uuid uuid)
{
	return (gint64)(uuid.high >> 16);
}

/* Returns: the UUID of the reserved kind
 * @id: an ID of LAYOUT_TWITTER, not negative
 * @random: a random_u64(), of which the low 52 bits are used */
Uuid uuid_from_id(gint64 id, guint64 random);

/* Returns: %TRUE, or %FALSE with INVALID set if @uuid is of another version or variant, or with
 * OUT_OF_RANGE if its time is outside LAYOUT_TWITTER's range
 * @out_id: (out): the ID that was passed to uuid_from_id(); untouched on failure */
gboolean uuid_to_id(Uuid uuid, gint64 *out_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A source of increasing ULIDs (ulid.h), or of increasing UUIDs of the plain kind, for any number
 * of threads. Each is greater than all those that were returned before its draw began. If the clock
 * steps back, the time of the last one is used until the clock is past it.
 *
 * A child of fork() continues in a later millisecond. If another thread was drawing at the time of
 * the fork, the child must not use the generator. */
typedef struct {
	const Clock *clock;
	pthread_mutex_t mutex; /* protects the members below */
	gint64 last_ms;        /* time of the last draw; -1 if there is none */
	Uuid last;             /* the last ULID; for UUIDs, only low is used: the last counter */
	guint fork_generation; /* process that drew last, see random_fork_generation() */
} UuidGenerator;

/* @clock: borrowed; must outlive the generator */
void uuid_generator_init(UuidGenerator *self, const Clock *clock);
void uuid_generator_clear(UuidGenerator *self);

/* Draws UUIDs by RFC 9562, section 6.2, method 1. In each millisecond, the counter starts at a
 * random number whose highest bit is 0, and increases by 1. It is followed by 32 random bits, which
 * are new in each UUID. If the counter overflows, after at least 2^41 UUIDs in a millisecond, the
 * time of the next UUID is a millisecond ahead of the clock. So calls neither wait nor are refused.
 * Thread-safe. A batch reads the clock once.
 * @count: 1 to 2^41
 * @out_uuids: (out): @count consecutive UUIDs of one millisecond; untouched on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the clock is before 1970 */
gboolean uuid_generator_draw(UuidGenerator *self, gsize count, Uuid *out_uuids,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;
