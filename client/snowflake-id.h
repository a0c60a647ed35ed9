/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/*
 * What IDs are: their parts, their text forms, the IDs of a span of time, ULIDs and UUIDs. Nothing
 * here speaks to a server: the IDs of a service come from snowflake-client.h.
 *
 *   g_autoptr(GError) error = NULL;
 *   g_autoptr(SnowflakeLayout) layout = snowflake_layout_new("twitter", &error);
 *   SnowflakeParts parts;
 *
 *   if (layout == NULL || !snowflake_layout_decode(layout, id, &parts, &error))
 *           g_printerr("%s\n", error->message);
 *
 * Times are milliseconds since the Unix epoch. No argument may be %NULL, but for @error and what is
 * freed. Any thread may call anything, also with the same layout or generator. Usable from C++.
 */

#ifndef SNOWFLAKE_CLIENT_EXPORT
#define SNOWFLAKE_CLIENT_EXPORT __attribute__((visibility("default")))
#endif

#define SNOWFLAKE_ID_ERROR (snowflake_id_error_quark())
SNOWFLAKE_CLIENT_EXPORT GQuark snowflake_id_error_quark(void);

typedef enum {
	/* A text is not what it should be, a layout cannot work, or a UUID is of another kind. */
	SNOWFLAKE_ID_ERROR_INVALID,
	/* An ID, a part or a time is outside of the layout, or of what the kind can hold. */
	SNOWFLAKE_ID_ERROR_OUT_OF_RANGE,
	/* No ULIDs are left in this millisecond: ask again in the next one. */
	SNOWFLAKE_ID_ERROR_OVERFLOW,
} SnowflakeIdError;

/*
 * How the bits of an ID divide, high to low: time, in ticks since an epoch, datacenter, worker,
 * sequence. Immutable, and always one that can work.
 */
typedef struct _SnowflakeLayout SnowflakeLayout;

/* The parts of an ID. A part that the layout has no bits for is 0. */
typedef struct {
	gint64 time_ms; /* when decoded, the start of the tick */
	guint datacenter_id;
	guint worker_id;
	guint sequence; /* from 0 within one worker and tick */
} SnowflakeParts;

/**
 * snowflake_layout_new:
 * @text: one of snowflake_layout_names(), or all six fields as
 *   "epoch_ms=N,tick_ms=N,time_bits=N,datacenter_bits=N,worker_bits=N,sequence_bits=N", in any
 *   order. Bits that are not 63 in all have to be meant: "total_bits=N" says so
 *
 * A tick has 1 to 1000 ms, the time 1 bit or more, the other parts 0 to 31 each, all of them 63 at
 * most. The last tick ends before the year 10000.
 *
 * Returns: (transfer full): a layout, or %NULL with INVALID set
 */
SNOWFLAKE_CLIENT_EXPORT SnowflakeLayout *snowflake_layout_new(const char *text, GError **error);
SNOWFLAKE_CLIENT_EXPORT void snowflake_layout_free(SnowflakeLayout *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeLayout, snowflake_layout_free)

/* Returns: (transfer full): the names of the layouts that have one, for g_strfreev(): twitter, the
 * servers' default, comes first. snowflakectl(1), layouts, draws them. */
SNOWFLAKE_CLIENT_EXPORT char **snowflake_layout_names(void);

/* Returns: (transfer full): all fields, as snowflake_layout_new() reads them */
SNOWFLAKE_CLIENT_EXPORT char *snowflake_layout_to_text(const SnowflakeLayout *self);

/**
 * snowflake_layout_encode:
 * @parts: a time within a tick counts as the start of it
 * @out_id: (out): the ID, never negative; untouched on failure
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set, which names the part, its value and the limit
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_layout_encode(const SnowflakeLayout *self,
							 const SnowflakeParts *parts,
							 gint64 *out_id,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_layout_decode:
 * @out_parts: (out): the inverse of snowflake_layout_encode(); untouched on failure
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if @id is negative or has bits above those of the
 * layout
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_layout_decode(const SnowflakeLayout *self, gint64 id,
							 SnowflakeParts *out_parts,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_layout_range:
 * @from_ms, @to_ms: both are in the span
 * @out_first, @out_last: (out): the lowest and the highest ID that can be of it; untouched on
 *   failure
 *
 * The IDs of a span of time, for WHERE id BETWEEN first AND last. The span may begin before the
 * layout or end after it. A tick that it has only a part of counts as a whole.
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the span ends before it begins, or if all of
 * it is outside the layout
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_layout_range(const SnowflakeLayout *self, gint64 from_ms,
							gint64 to_ms, gint64 *out_first,
							gint64 *out_last,
							GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The text forms of an ID, of any layout. */
typedef enum {
	SNOWFLAKE_ID_DECIMAL,
	SNOWFLAKE_ID_HEX,       /* 16 digits; read in either case, after "0x" or not */
	SNOWFLAKE_ID_CROCKFORD, /* 13 of base 32; read in either case, I and L as 1, O as 0 */
	SNOWFLAKE_ID_BASE62,    /* 11 digits: figures, capital letters, small letters */
	SNOWFLAKE_ID_BASE58,    /* the alphabet of Flickr; as many digits as needed, 11 at most */
} SnowflakeIdForm;

/**
 * snowflake_id_to_text:
 * @id: not negative
 *
 * The texts of hex, crockford and base62 have leading zeros, and so sort as their IDs do.
 *
 * Returns: (transfer full): the text
 */
SNOWFLAKE_CLIENT_EXPORT char *snowflake_id_to_text(SnowflakeIdForm form, gint64 id);

/**
 * snowflake_id_parse:
 * @text: digits of @form, with or without leading zeros, no more than the form has; no sign and no
 *   white space
 * @out_id: (out): 0 to 2^63 - 1; untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which quotes the text
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_id_parse(SnowflakeIdForm form, const char *text,
						    gint64 *out_id,
						    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A UUID (RFC 9562), with the highest byte first, as databases and the wire have it. */
typedef struct _SnowflakeUuid {
	guint8 bytes[16];
} SnowflakeUuid;

/* A ULID (github.com/ulid/spec): 48 bits of time and 80 that are random, unique by chance. Its
 * bytes are also a UUID, so what is said of a SnowflakeUuid goes for it too. */
typedef struct _SnowflakeUuid SnowflakeUlid;

/* Below 0, 0 or above it: the order of bytes, of texts and, of one kind, of times. */
SNOWFLAKE_CLIENT_EXPORT int snowflake_uuid_compare(const SnowflakeUuid *a, const SnowflakeUuid *b);

/* The time of a ULID, or of a UUID of version 7, 0 to 2^48 - 1; of another it means nothing. */
SNOWFLAKE_CLIENT_EXPORT gint64 snowflake_uuid_get_time_ms(const SnowflakeUuid *self);

/* Returns: (transfer full): 8-4-4-4-12 digits, with small letters */
SNOWFLAKE_CLIENT_EXPORT char *snowflake_uuid_to_text(const SnowflakeUuid *self);

/**
 * snowflake_uuid_parse:
 * @text: 8-4-4-4-12 digits in either case; any version
 * @out_uuid: (out): untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_uuid_parse(const char *text, SnowflakeUuid *out_uuid,
						      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_uuid_from_id:
 * @id: of the layout "twitter", not negative
 * @out_uuid: (out): untouched on failure
 *
 * A UUID of version 7 that is as unique as the ID, sorts as it does among such UUIDs, and converts
 * back to it: the ID's time, its 22 low bits (12 in rand_a, 10 at the top of rand_b), and 52 random
 * bits. Each call makes another one.
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_uuid_from_id(gint64 id, SnowflakeUuid *out_uuid,
							GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_uuid_to_id:
 * @out_id: (out): what snowflake_uuid_from_id() was given; untouched on failure
 *
 * Nothing in a UUID of version 7 tells whether it was made from an ID: one that was not gives a
 * number that means nothing.
 *
 * Returns: %TRUE, or %FALSE with INVALID set if @self is of another version, or with OUT_OF_RANGE
 * if its time is outside of the layout
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_uuid_to_id(const SnowflakeUuid *self, gint64 *out_id,
						      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer full): 26 digits of Crockford's base 32, with capital letters */
SNOWFLAKE_CLIENT_EXPORT char *snowflake_ulid_to_text(const SnowflakeUlid *self);

/**
 * snowflake_ulid_parse:
 * @text: 26 digits in either case, 7ZZZZZZZZZZZZZZZZZZZZZZZZZ at most, none of them I, L, O or U
 * @out_ulid: (out): untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_ulid_parse(const char *text, SnowflakeUlid *out_ulid,
						      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_ulid_random:
 * @time_ms: 0 to 2^48 - 1
 * @out_ulid: (out): a ULID of that time, in no order with others of it; untouched on failure
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_ulid_random(gint64 time_ms, SnowflakeUlid *out_ulid,
						       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/*
 * Sources of what increases, whichever threads draw it: one that is drawn after another was
 * returned is greater. The time is the system's (CLOCK_REALTIME); where that steps back, the
 * millisecond of the last one goes on until the clock is past it. In a child of fork() they go on
 * in a later millisecond. (If another thread was in a call at the fork, the child must not use
 * them.)
 *
 * ULIDs ("monotonic" in the specification): the first of a millisecond is random, each further one
 * is the last plus 1. UUIDs of version 7: by RFC 9562, section 6.2, method 1, a counter of 42 bits
 * that starts each millisecond at a random number, and 32 random bits after it.
 */
typedef struct _SnowflakeUlidGenerator SnowflakeUlidGenerator;
typedef struct _SnowflakeUuidGenerator SnowflakeUuidGenerator;

SNOWFLAKE_CLIENT_EXPORT SnowflakeUlidGenerator *snowflake_ulid_generator_new(void);
SNOWFLAKE_CLIENT_EXPORT void snowflake_ulid_generator_free(SnowflakeUlidGenerator *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeUlidGenerator, snowflake_ulid_generator_free)

/**
 * snowflake_ulid_generator_draw:
 * @out_ulid: (out): untouched on failure
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set as the clock is before 1970, or with OVERFLOW,
 * which has a chance of 1 in 2^80 for each; it changes nothing
 */
SNOWFLAKE_CLIENT_EXPORT gboolean
snowflake_ulid_generator_draw(SnowflakeUlidGenerator *self, SnowflakeUlid *out_ulid,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

SNOWFLAKE_CLIENT_EXPORT SnowflakeUuidGenerator *snowflake_uuid_generator_new(void);
SNOWFLAKE_CLIENT_EXPORT void snowflake_uuid_generator_free(SnowflakeUuidGenerator *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeUuidGenerator, snowflake_uuid_generator_free)

/**
 * snowflake_uuid_generator_draw:
 * @out_uuid: (out): unique by chance, made from no ID; untouched on failure
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set as the clock is before 1970
 */
SNOWFLAKE_CLIENT_EXPORT gboolean
snowflake_uuid_generator_draw(SnowflakeUuidGenerator *self, SnowflakeUuid *out_uuid,
			      GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
