/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/cursor.h"

/*
 * Layouts as people write them, and IDs of parts that may not fit. What a layout is, and what is
 * computed with it, is in cursor.h.
 */

#define LAYOUT_ERROR (layout_error_quark())
GQuark layout_error_quark(void);

typedef enum {
	LAYOUT_ERROR_INVALID,      /* the layout cannot work, or its text does not parse */
	LAYOUT_ERROR_OUT_OF_RANGE, /* a part does not fit its field, a time is outside the layout */
} LayoutError;

/* Twitter's of 2010, the default: 41 bits of milliseconds since
 * 2010-11-04T01:42:54.657Z, 5 of datacenter, 5 of worker, 12 of sequence. */
extern const Layout LAYOUT_TWITTER;

/**
 * layout_check:
 *
 * A layout can work if every field is in its range, the bits add up to 63
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

/* %TRUE if both fit their fields; else %FALSE with OUT_OF_RANGE set. */
gboolean layout_check_worker(const Layout *self, gint64 datacenter_id, gint64 worker_id,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;
