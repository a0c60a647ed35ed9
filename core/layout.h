/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/cursor.h"

/*
 * Layouts as people write them, and IDs and parts that may not fit. What a layout is, and what is
 * computed with it, is in cursor.h.
 */

#define LAYOUT_ERROR (layout_error_quark())
GQuark layout_error_quark(void);

typedef enum {
	LAYOUT_ERROR_INVALID,      /* the layout cannot work, or its text does not parse */
	LAYOUT_ERROR_OUT_OF_RANGE, /* an ID, a part or a time is outside the layout */
} LayoutError;

/* Twitter's of 2010, the default: 41 bits of milliseconds since
 * 2010-11-04T01:42:54.657Z, 5 of datacenter, 5 of worker, 12 of sequence. */
extern const Layout LAYOUT_TWITTER;

/**
 * layout_check:
 *
 * A layout can work if every field is in its range, the bits add up to 63
 * at most and its last tick ends before the year 10000 (what RFC 3339 can
 * write).
 *
 * Returns: %TRUE, or %FALSE with INVALID set, which names value and limit
 */
gboolean layout_check(const Layout *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* %TRUE if the bits add up to what the text of the layout says, @total_bits, which is
 * LAYOUT_MAX_BITS where it says nothing; else %FALSE with INVALID set. */
gboolean layout_check_total(const Layout *self, gint64 total_bits,
			    GError **error) G_GNUC_WARN_UNUSED_RESULT;

typedef struct {
	const char *name;
	const Layout *layout;
} LayoutPreset;

/* The layouts that have a name; the end has none (%NULL). */
extern const LayoutPreset LAYOUT_PRESETS[];

/**
 * layout_parse:
 * @text: the name of one of LAYOUT_PRESETS, or all six fields as
 *   "epoch_ms=N,tick_ms=N,time_bits=N,datacenter_bits=N,worker_bits=N,sequence_bits=N", in any
 *   order. Bits that are not 63 in all have to be meant: "total_bits=N" says so
 * @out_layout: (out): a layout that passes layout_check(); untouched on failure
 *
 * Returns: %TRUE, or %FALSE with INVALID set
 */
gboolean layout_parse(const char *text, Layout *out_layout,
		      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): the six fields, and total_bits if it is needed, as layout_parse() reads them. */
char *layout_to_string(const Layout *self);

/* (transfer full): the name of the one of LAYOUT_PRESETS that it is, or layout_to_string(). */
char *layout_name(const Layout *self);

/* (transfer full): when @tick, of 0 to layout_max_tick(), begins, as text_time_ms() writes it. */
char *layout_tick_text(const Layout *self, gint64 tick);

gboolean layout_equal(const Layout *a, const Layout *b);

/**
 * layout_encode:
 * @out_id: (out): the ID, never negative; untouched on failure
 *
 * The inverse of layout_decode().
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set, which names the part, its value and the limit
 */
gboolean layout_encode(const Layout *self, const LayoutParts *parts, gint64 *out_id,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* %TRUE if @id may be one of the layout, as none of its bits above layout_total_bits() is set, so
 * that layout_decode() takes it; else %FALSE with OUT_OF_RANGE set. */
gboolean layout_check_id(const Layout *self, gint64 id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * layout_range:
 * @from_ms, @to_ms: since the Unix epoch; both are in the span
 * @out_first, @out_last: (out): the lowest and the highest ID that can be of it; untouched on
 *   failure
 *
 * The IDs of a span of time, for WHERE id BETWEEN first AND last: every ID of its ticks is in
 * there, no ID of another tick is. The span may begin before the layout or end after it, as there
 * are no IDs there. A tick that the span has only a part of counts as a whole: with ticks of more
 * than 1 ms an ID does not tell more.
 *
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the span ends before it begins, or if all of
 * it is outside the layout
 */
gboolean layout_range(const Layout *self, gint64 from_ms, gint64 to_ms, gint64 *out_first,
		      gint64 *out_last, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* How many IDs a worker ID has in a millisecond. */
gdouble layout_ids_per_ms(const Layout *self);

/* The last millisecond that the layout has, since the Unix epoch. */
gint64 layout_last_ms(const Layout *self);

/* %TRUE if both fit their fields; else %FALSE with OUT_OF_RANGE set. */
gboolean layout_check_worker(const Layout *self, gint64 datacenter_id, gint64 worker_id,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;
