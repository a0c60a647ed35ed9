/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>

#include "core/clock.h"
#include "core/uuid.h"

/*
 * ULIDs (github.com/ulid/spec): 48 bits of milliseconds since the Unix epoch, until the year 10889,
 * and 80 random bits. Their uniqueness is a matter of probability; nothing is reserved.
 *
 * A ULID has 128 bits, like a UUID. uuid.h converts it to 16 bytes, or to the text of a UUID.
 */
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

/**
 * ulid_parse:
 * @text: 26 case-insensitive digits without I, L, O and U, at most 7ZZZZZZZZZZZZZZZZZZZZZZZZZ
 * @out_ulid: (out): untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set
 */
gboolean ulid_parse(const char *text, Ulid *out_ulid, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * ulid_draw:
 * @time_ms: since the Unix epoch, 0 to ULID_MAX_TIME_MS
 * @out_ulids: (out): @count ULIDs in random order, with 80 random bits each; untouched on failure
 *
 * Thread-safe. Keeps no state between calls.
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set
 */
gboolean ulid_draw(gint64 time_ms, gsize count, Ulid *out_ulids,
		   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/*
 * A source of increasing ULIDs ("monotonic" in the specification) for any number of threads: each
 * ULID is greater than every ULID that was returned before its draw began. The first ULID of a
 * millisecond is random, and each further one is its predecessor plus 1. If the clock steps back,
 * the time of the last ULID is used until the clock is past it.
 *
 * A child of fork() continues with new random bits in a later millisecond. If another thread was
 * drawing at the time of the fork, the child must not use the generator.
 */
typedef struct {
	const Clock *clock;
	pthread_mutex_t mutex; /* protects the members below */
	gint64 last_ms;        /* time of the last ULID; -1 if there is none */
	Ulid last;
	guint fork_generation; /* process that drew the last ULID, see fork_generation */
} UlidGenerator;

/* @clock: borrowed; must outlive the generator */
void ulid_generator_init(UlidGenerator *self, const Clock *clock);
void ulid_generator_clear(UlidGenerator *self);

/**
 * ulid_generator_draw:
 * @count: 1 or more
 * @out_ulids: (out): @count consecutive ULIDs of one millisecond; untouched on failure
 *
 * Thread-safe. A batch reads the clock once, which is most of the cost of a single ULID.
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the clock is before 1970, or OVERFLOW if this
 * millisecond has no room for @count more ULIDs (probability: @count / 2^80). An OVERFLOW changes
 * nothing, and the next millisecond has room
 */
gboolean ulid_generator_draw(UlidGenerator *self, gsize count, Ulid *out_ulids,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;
