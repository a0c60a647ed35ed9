/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/id-arithmetic.h"

/* Converts layouts from and to text, and checks whether IDs and their parts fit. id-arithmetic.h
 * defines layouts and their arithmetic. */

/* Twitter's layout, the default: 41 bits of milliseconds since 2010-11-04T01:42:54.657Z, 5 bits of
 * datacenter ID, 5 of worker ID, 12 of sequence. */
extern const Layout LAYOUT_TWITTER;

/* Checks that every field is within its range, and that the bits add up to at most 63. The last
 * tick must end before the year 10000, the limit of RFC 3339.
 * Returns: %TRUE, or %FALSE with INVALID set, with a message that contains the value and the limit
 */
gboolean layout_check(const Layout *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The fields of a layout, for loops over them. */
typedef enum {
	LAYOUT_EPOCH_MS,
	LAYOUT_TICK_MS,
	LAYOUT_TIME_BITS,
	LAYOUT_DATACENTER_BITS,
	LAYOUT_WORKER_BITS,
	LAYOUT_SEQUENCE_BITS,
	LAYOUT_TOTAL_BITS, /* the sum of the others; texts omit it if it is LAYOUT_MAX_BITS */
	LAYOUT_N_FIELDS
} LayoutFieldIndex;

typedef struct {
	const char *name; /* in texts and in JSON */
	gint64 min, max;
} LayoutField;

extern const LayoutField LAYOUT_FIELDS[LAYOUT_N_FIELDS];

gint64 layout_get_field(const Layout *self, LayoutFieldIndex field);

/* Makes a layout of values that are within the ranges of their fields. Returns %FALSE with INVALID
 * set if it does not pass layout_check(), or if the bits do not add up to the given total.
 * @out_layout: (out): untouched on failure */
gboolean layout_from_fields(const gint64 values[static LAYOUT_N_FIELDS], Layout *out_layout,
			    GError **error) G_GNUC_WARN_UNUSED_RESULT;

typedef struct {
	const char *name;
	const Layout *layout;
} LayoutPreset;

/* The named layouts. An entry with the name %NULL ends the array. */
extern const LayoutPreset LAYOUT_PRESETS[];

/* Parses a layout. Returns %FALSE with INVALID set if @text is not one.
 * @text: the name of one of LAYOUT_PRESETS, or all six fields as
 * "epoch_ms=N,tick_ms=N,time_bits=N,datacenter_bits=N,worker_bits=N,sequence_bits=N", in any
 * order. If the bits do not add up to 63, "total_bits=N" is required
 * @out_layout: (out): a layout that passes layout_check(); untouched on failure */
gboolean layout_parse(const char *text, Layout *out_layout,
		      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer full): the six fields, and total_bits if necessary, in the form that
 * layout_parse() reads. */
char *layout_to_string(const Layout *self);

/* Returns: (transfer full): the name in LAYOUT_PRESETS, or else the result of
 * layout_to_string(). */
char *layout_name(const Layout *self);

/* Returns: (transfer full): the start of @tick, in the form of text_time_ms(). @tick: 0 to
 * layout_max_tick() */
char *layout_tick_text(const Layout *self, gint64 tick);

gboolean layout_equal(const Layout *a, const Layout *b);

/* The inverse of layout_decode().
 * @out_id: (out): the ID, never negative; untouched on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set, with a message that contains the part, its
 * value and the limit */
gboolean layout_encode(const Layout *self, const LayoutParts *parts, gint64 *out_id,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Checks that @id has no bit above layout_total_bits(), as layout_decode() requires. Returns %FALSE
 * with OUT_OF_RANGE set if it has. */
gboolean layout_check_id(const Layout *self, gint64 id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Computes the range of IDs for a time span, for example for WHERE id BETWEEN first AND last. It
 * contains all IDs of the span's ticks, and no others. The span can begin before the layout's
 * range or end after it. A tick that is only partly in the span is included completely, because an
 * ID does not contain the time within its tick.
 * @from_ms, @to_ms: since the Unix epoch; both are included in the span
 * @out_first, @out_last: (out): the lowest and the highest possible ID; untouched on failure
 * Returns: %TRUE, or %FALSE with OUT_OF_RANGE set if the span ends before it begins, or is
 * entirely outside the layout's range */
gboolean layout_range(const Layout *self, gint64 from_ms, gint64 to_ms, gint64 *out_first,
		      gint64 *out_last, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns how many IDs a worker can issue in a millisecond. */
gdouble layout_ids_per_ms(const Layout *self);

/* Returns the time of the layout's last millisecond, since the Unix epoch. */
gint64 layout_last_ms(const Layout *self);

/* Checks that both IDs fit their fields. If they do not, returns %FALSE with OUT_OF_RANGE set. */
gboolean layout_check_worker(const Layout *self, gint64 datacenter_id, gint64 worker_id,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;
