/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS
#pragma GCC visibility push(default)

/* Functions for IDs: their parts, their text forms, the ID range of a time span, ULIDs and UUIDs.
 * They do not call a server; to get IDs from the service, use snowflake-client.h.
 *
 *   g_autoptr(GError) error = NULL;
 *   g_autoptr(SnowflakeLayout) layout = snowflake_layout_new("twitter", &error);
 *   SnowflakeParts parts;
 *
 *   if (layout == NULL || !snowflake_layout_decode(layout, id, &parts, &error))
 *           g_printerr("%s\n", error->message);
 *
 * Times are milliseconds since the Unix epoch. Arguments must not be %NULL, except @error and the
 * arguments of functions that free. All functions are thread-safe, even if threads share a layout
 * or generator. C++ programs can include this header. */

#define SNOWFLAKE_ID_ERROR (snowflake_id_error_quark())
GQuark snowflake_id_error_quark(void);

typedef enum {
	/* A string or a layout is invalid, or a UUID has the wrong version. */
	SNOWFLAKE_ID_ERROR_INVALID,
	/* An ID, a part or a time does not fit the layout, or the range of a ULID or UUID. */
	SNOWFLAKE_ID_ERROR_OUT_OF_RANGE,
	/* No ULIDs are left in this millisecond. Try again in the next one. */
	SNOWFLAKE_ID_ERROR_OVERFLOW,
} SnowflakeIdError;

/* A layout: how the bits of an ID are divided into fields. From the highest bits to the lowest,
 * these are the time in ticks since an epoch, the datacenter ID, the worker ID and the sequence. A
 * layout is immutable and always valid. */
typedef struct _SnowflakeLayout SnowflakeLayout;

/* The parts of an ID. A part that has no bits in the layout is 0. No fields will be added to this
 * struct. */
typedef struct {
	gint64 time_ms; /* after decoding, the start of the tick */
	guint datacenter_id;
	guint worker_id;
	guint sequence; /* counts from 0 within a tick of a worker ID */
} SnowflakeParts;

/* Creates a layout. A tick is 1 to 1000 ms long. The time has at least 1 bit, the other parts have
 * 0 to 31 bits each, and all parts together have at most 63 bits. The last tick must end before the
 * year 10000.
 * @text: one of snowflake_layout_names(), or all six fields as
 * "epoch_ms=N,tick_ms=N,time_bits=N,datacenter_bits=N,worker_bits=N,sequence_bits=N", in any order.
 * If the sum of the bits is not 63, "total_bits=N" must confirm it
 * Returns: (transfer full): a layout, or %NULL with INVALID set */
SnowflakeLayout *snowflake_layout_new(const char *text, GError **error);
void snowflake_layout_free(SnowflakeLayout *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeLayout, snowflake_layout_free)

/* Returns: (transfer full): the names of all named layouts, to be freed with g_strfreev(). The
 * first one is twitter, the servers' default. The command "snowflakectl layouts" shows the
 * layouts. */
char **snowflake_layout_names(void);

/* Returns: (transfer full): all fields, in the form that snowflake_layout_new() accepts */
char *snowflake_layout_to_text(const SnowflakeLayout *self);

/* Makes an ID from its parts.
 * @parts: a time inside a tick is rounded down to the start of the tick
 * @out_id: (out): the ID, never negative; unchanged on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set. The message contains the part, its value and the
 * limit */
gboolean snowflake_layout_encode(const SnowflakeLayout *self, const SnowflakeParts *parts,
				 gint64 *out_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Splits an ID into its parts. This is the inverse of snowflake_layout_encode().
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set and @out_parts unchanged if @id is negative or
 * has more bits than the layout */
gboolean snowflake_layout_decode(const SnowflakeLayout *self, gint64 id, SnowflakeParts *out_parts,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Computes the lowest and the highest possible ID of a time span, for WHERE id BETWEEN first AND
 * last.
 * @from_ms and @to_ms are its first and its last millisecond. It can begin before the layout's
 * epoch or end after its last tick. The range includes ticks that are only partly in the span.
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set and the outputs unchanged if the span ends before
 * it begins or is entirely outside the layout's range */
gboolean snowflake_layout_range(const SnowflakeLayout *self, gint64 from_ms, gint64 to_ms,
				gint64 *out_first, gint64 *out_last,
				GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The text forms of an ID. They do not depend on the layout. */
typedef enum {
	SNOWFLAKE_ID_DECIMAL,
	SNOWFLAKE_ID_HEX,       /* 16 digits; parsed case-insensitively, with or without "0x" */
	SNOWFLAKE_ID_CROCKFORD, /* 13 digits, base 32; parsed case-insensitively, with I and L as 1,
				   O as 0 */
	SNOWFLAKE_ID_BASE62,    /* 11 digits, in the order 0 to 9, A to Z, a to z */
	SNOWFLAKE_ID_BASE58,    /* at most 11 digits of Flickr's alphabet, without leading zeros */
} SnowflakeIdForm;

/* Returns: (transfer full): an ID, which is not negative, as text. In the forms hex, crockford and
 * base62, the text has leading zeros, so the strings sort like their IDs. */
char *snowflake_id_to_text(SnowflakeIdForm form, gint64 id);

/* Parses the digits of an ID, 0 to 2^63 - 1, in the given form. There are at most as many digits as
 * the form has, with or without leading zeros, and without a sign or whitespace. Returns: %TRUE, or
 * %FALSE with INVALID set and @out_id unchanged. The message quotes the text */
gboolean snowflake_id_parse(SnowflakeIdForm form, const char *text, gint64 *out_id,
			    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A UUID (RFC 9562), with the most significant byte first, as in databases and on the wire. */
typedef struct _SnowflakeUuid {
	guint8 bytes[16];
} SnowflakeUuid;

/* A ULID (github.com/ulid/spec): 48 bits of time and 80 random bits, which make it unique. It has
 * the same type as a UUID, so all functions for a SnowflakeUuid accept it. */
typedef struct _SnowflakeUuid SnowflakeUlid;

/* Returns a negative number if @a sorts before @b, 0 if they are equal, otherwise a positive
 * number. The bytes and the text forms sort in the same order. Two ULIDs, or two version 7 UUIDs,
 * also sort by time. */
int snowflake_uuid_compare(const SnowflakeUuid *a, const SnowflakeUuid *b);

/* Returns the time in a ULID or a version 7 UUID, 0 to 2^48 - 1. For other UUIDs, the result is
 * meaningless. */
gint64 snowflake_uuid_get_time_ms(const SnowflakeUuid *self);

/* Returns: (transfer full): hexadecimal digits in the form 8-4-4-4-12, in lowercase */
char *snowflake_uuid_to_text(const SnowflakeUuid *self);

/* Parses a UUID of any version: hexadecimal digits in the form 8-4-4-4-12, case-insensitive.
 * Returns: %TRUE, or %FALSE with INVALID set and @out_uuid unchanged */
gboolean snowflake_uuid_parse(const char *text, SnowflakeUuid *out_uuid,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Makes a version 7 UUID from an ID. The UUID is as unique as the ID and can be converted back to
 * it. Such UUIDs sort like their IDs.
 *
 * The UUID contains the ID's time, the 22 least significant bits of the ID (12 in rand_a, 10 at the
 * top of rand_b), and 52 random bits. Each call therefore makes a different UUID.
 * @id: an ID of the layout "twitter", not negative
 * @out_uuid: (out): the UUID; unchanged on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set */
gboolean snowflake_uuid_from_id(gint64 id, SnowflakeUuid *out_uuid,
				GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets the ID back from a UUID that was made by snowflake_uuid_from_id(). It is not possible to
 * tell whether a version 7 UUID was made from an ID. If it was not, the result is meaningless.
 * Returns: %TRUE, or %FALSE with @out_id unchanged, and with INVALID set if @self has a different
 * version, or with OUT_OF_RANGE if its time is outside the layout's range */
gboolean snowflake_uuid_to_id(const SnowflakeUuid *self, gint64 *out_id,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer full): 26 digits of Crockford's base 32, in uppercase */
char *snowflake_ulid_to_text(const SnowflakeUlid *self);

/* Parses a ULID: 26 case-insensitive digits without I, L, O and U, at most
 * 7ZZZZZZZZZZZZZZZZZZZZZZZZZ. Returns: %TRUE, or %FALSE with INVALID set and @out_ulid unchanged */
gboolean snowflake_ulid_parse(const char *text, SnowflakeUlid *out_ulid,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Makes a random ULID with a time of 0 to 2^48 - 1. ULIDs with the same time are in random order.
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set and @out_ulid unchanged */
gboolean snowflake_ulid_random(gint64 time_ms, SnowflakeUlid *out_ulid,
			       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Generators of increasing ULIDs and UUIDs. If a draw begins after another one has returned, in
 * any thread, its result is greater. The time comes from the system clock (CLOCK_REALTIME). If the
 * clock steps back, the generator keeps its last millisecond until the clock has passed it.
 *
 * In a child created by fork(), a generator skips to a later millisecond, so that parent and child
 * do not produce the same values. If another thread was using the generator during the fork(), the
 * child must not use it.
 *
 * ULIDs are "monotonic" as in the specification: the first one in a millisecond is random, and
 * each further one is the previous one plus 1. Version 7 UUIDs follow RFC 9562, section 6.2,
 * method 1: a 42-bit counter, which starts at a random number in each millisecond, is followed by
 * 32 random bits. */
typedef struct _SnowflakeUlidGenerator SnowflakeUlidGenerator;
typedef struct _SnowflakeUuidGenerator SnowflakeUuidGenerator;

SnowflakeUlidGenerator *snowflake_ulid_generator_new(void);
void snowflake_ulid_generator_free(SnowflakeUlidGenerator *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeUlidGenerator, snowflake_ulid_generator_free)

/* Sets @out_ulid; it is unchanged on failure. Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if
 * the clock is before 1970, or with OVERFLOW set. OVERFLOW has a probability of 1 in 2^80 for each
 * ULID, and does not change the generator */
gboolean snowflake_ulid_generator_draw(SnowflakeUlidGenerator *self, SnowflakeUlid *out_ulid,
				       GError **error) G_GNUC_WARN_UNUSED_RESULT;

SnowflakeUuidGenerator *snowflake_uuid_generator_new(void);
void snowflake_uuid_generator_free(SnowflakeUuidGenerator *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeUuidGenerator, snowflake_uuid_generator_free)

/* Sets @out_uuid, which is not made from an ID, and is unique because of its random bits; it is
 * unchanged on failure. Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the clock is before 1970
 */
gboolean snowflake_uuid_generator_draw(SnowflakeUuidGenerator *self, SnowflakeUuid *out_uuid,
				       GError **error) G_GNUC_WARN_UNUSED_RESULT;

#pragma GCC visibility pop
G_END_DECLS
