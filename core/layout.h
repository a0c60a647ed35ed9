/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * How the 63 bits of an ID divide, high to low: tick, datacenter, worker,
 * sequence. The sign bit stays clear, so that IDs sort alike signed and unsigned.
 *
 * A tick is the unit of time of a layout, a whole number of milliseconds; tick
 * 0 begins at the epoch. A cursor is the position of an ID among those of one
 * worker: tick << sequence_bits | sequence.
 */

#define LAYOUT_ERROR (layout_error_quark())
GQuark layout_error_quark(void);

typedef enum {
	LAYOUT_ERROR_INVALID,      /* the layout cannot work, or its text does not parse */
	LAYOUT_ERROR_OUT_OF_RANGE, /* a part does not fit its field, a time is outside the layout */
} LayoutError;

/* Plain data; valid once layout_check() says so. */
typedef struct {
	gint64 epoch_ms; /* the time that encodes as tick 0, since the Unix epoch; 0 or more */
	gint64 tick_ms;  /* 1 to 1000 */
	guint time_bits; /* 1 or more; the four fields make 63 bits in all */
	guint datacenter_bits; /* 0 to 31 */
	guint worker_bits;     /* 0 to 31 */
	guint sequence_bits;   /* 0 to 31 */
} Layout;

/* Twitter's of 2010, the default: 41 bits of milliseconds since
 * 2010-11-04T01:42:54.657Z, 5 of datacenter, 5 of worker, 12 of sequence. */
extern const Layout LAYOUT_TWITTER;

typedef struct {
	gint64 time_ms; /* since the Unix epoch; when decoded, the start of the tick */
	guint datacenter_id;
	guint worker_id;
	guint sequence;
} LayoutParts;

/**
 * layout_check:
 *
 * A layout can work if every field is in the range above, the bits add up to 63
 * and its last tick ends before the year 10000 (what RFC 3339 can write).
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which names value and limit
 */
gboolean layout_check(const Layout *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * layout_parse:
 * @text: the name of a preset ("twitter", "discord", "uid-generator"), or all six fields as
 *   "epoch_ms=N,tick_ms=N,time_bits=N,datacenter_bits=N,worker_bits=N,sequence_bits=N",
 *   in any order
 * @out_layout: (out): a layout that passes layout_check(); untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set
 */
gboolean layout_parse(const char *text, Layout *out_layout,
		      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): the six fields, as layout_parse() reads them. */
char *layout_to_string(const Layout *self);

gboolean layout_equal(const Layout *a, const Layout *b);

/**
 * layout_encode:
 * @out_id: (out): the ID, never negative; untouched on failure
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set, which names the part, its value and the limit
 */
gboolean layout_encode(const Layout *self, const LayoutParts *parts, gint64 *out_id,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The inverse of encode; @id must not be negative. */
LayoutParts layout_decode(const Layout *self, gint64 id);

/* %TRUE if both fit their fields; else %FALSE with OUT_OF_RANGE set. */
gboolean layout_check_worker(const Layout *self, gint64 datacenter_id, gint64 worker_id,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The last tick that fits the time bits. */
static inline gint64 layout_max_tick(const Layout *self)
{
	return (gint64)((G_GUINT64_CONSTANT(1) << self->time_bits) - 1);
}

/* Down, not towards 0; @divisor is more than 0. */
static inline gint64 layout_floor_divide(gint64 value, gint64 divisor)
{
	return value >= 0 ? value / divisor : -1 - (-1 - value) / divisor;
}

/* The tick that @time_ms, any that a clock can give, lies in: negative before the epoch, above
 * layout_max_tick() past the end. */
static inline gint64 layout_tick_at(const Layout *self, gint64 time_ms)
{
	gint64 since_epoch_ms = time_ms - self->epoch_ms;

	/* an ID has to wait for it, so the common layouts are spared a division: where the divisor
	 * is a constant, it is a multiplication */
	if (G_LIKELY(self->tick_ms == 1))
		return since_epoch_ms;
	if (self->tick_ms == 1000)
		return layout_floor_divide(since_epoch_ms, 1000);
	return layout_floor_divide(since_epoch_ms, self->tick_ms);
}

/* When @tick begins, in milliseconds since the Unix epoch. */
static inline gint64 layout_tick_start_ms(const Layout *self, gint64 tick)
{
	return self->epoch_ms + tick * self->tick_ms;
}
