/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layout.h"

#include <string.h>

#include "core/text.h"

#define ID_BITS        63                              /* all but the sign */
#define YEAR_10000     G_GINT64_CONSTANT(253402300800) /* in seconds since the Unix epoch */
#define END_OF_TIME_MS (YEAR_10000 * 1000)

G_DEFINE_QUARK(layout_error_quark, layout_error)

const Layout LAYOUT_TWITTER = {
	.epoch_ms = 1288834974657,
	.tick_ms = 1,
	.time_bits = 41,
	.datacenter_bits = 5,
	.worker_bits = 5,
	.sequence_bits = 12,
};

static const Layout discord = {
	.epoch_ms = 1420070400000,
	.tick_ms = 1,
	.time_bits = 41,
	.datacenter_bits = 5,
	.worker_bits = 5,
	.sequence_bits = 12,
};

static const Layout uid_generator = {
	.epoch_ms = 1474300800000,
	.tick_ms = 1000,
	.time_bits = 29,
	.datacenter_bits = 0,
	.worker_bits = 21,
	.sequence_bits = 13,
};

/* In the order of the presets below. */
static const char *const preset_names[] = {"twitter", "discord", "uid-generator", NULL};
static const Layout *const presets[] = {&LAYOUT_TWITTER, &discord, &uid_generator};

G_STATIC_ASSERT(G_N_ELEMENTS(preset_names) == G_N_ELEMENTS(presets) + 1);

/* The fields as numbers in an array, for what is done to each of them alike. */
enum { EPOCH_MS, TICK_MS, TIME_BITS, DATACENTER_BITS, WORKER_BITS, SEQUENCE_BITS, N_FIELDS };

static const struct {
	const char *name;
	gint64 min;
	gint64 max;
} fields[N_FIELDS] = {
	[EPOCH_MS] = {"epoch_ms", 0, END_OF_TIME_MS - 1},
	[TICK_MS] = {"tick_ms", 1, 1000},
	[TIME_BITS] = {"time_bits", 1, ID_BITS},
	[DATACENTER_BITS] = {"datacenter_bits", 0, 31},
	[WORKER_BITS] = {"worker_bits", 0, 31},
	[SEQUENCE_BITS] = {"sequence_bits", 0, 31},
};

static gboolean check_field(int field, gint64 value, GError **error)
{
	if (value >= fields[field].min && value <= fields[field].max)
		return TRUE;
	g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
		    "%s %" G_GINT64_FORMAT " is out of range, %" G_GINT64_FORMAT
		    " to %" G_GINT64_FORMAT,
		    fields[field].name, value, fields[field].min, fields[field].max);
	return FALSE;
}

gboolean layout_check(const Layout *self, GError **error)
{
	const gint64 values[N_FIELDS] = {
		[EPOCH_MS] = self->epoch_ms,       [TICK_MS] = self->tick_ms,
		[TIME_BITS] = self->time_bits,     [DATACENTER_BITS] = self->datacenter_bits,
		[WORKER_BITS] = self->worker_bits, [SEQUENCE_BITS] = self->sequence_bits,
	};

	for (int i = 0; i < N_FIELDS; i++) {
		if (!check_field(i, values[i], error))
			return FALSE;
	}

	guint bits =
		self->time_bits + self->datacenter_bits + self->worker_bits + self->sequence_bits;

	if (bits != ID_BITS) {
		g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
			    "the four fields have %u bits in all, need %d", bits, ID_BITS);
		return FALSE;
	}
	if (layout_max_tick(self) >= (END_OF_TIME_MS - self->epoch_ms) / self->tick_ms) {
		g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
			    "%u time bits in ticks of %" G_GINT64_FORMAT
			    " ms, from %" G_GINT64_FORMAT
			    " ms on, last beyond the year 9999; use fewer time bits",
			    self->time_bits, self->tick_ms, self->epoch_ms);
		return FALSE;
	}
	return TRUE;
}

static int field_by_name(const char *name)
{
	for (int i = 0; i < N_FIELDS; i++) {
		if (strcmp(name, fields[i].name) == 0)
			return i;
	}
	return -1;
}

/* Reads "name=number" into its place in @values, which hold -1 where nothing was read yet. */
static gboolean parse_field(const char *text, gint64 values[static N_FIELDS], GError **error)
{
	g_auto(GStrv) parts = g_strsplit(text, "=", 2);
	int field = parts[0] != NULL ? field_by_name(parts[0]) : -1;
	guint64 value;

	if (field < 0 || parts[1] == NULL) {
		g_autofree char *shown = text_escape(text, strlen(text));

		g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
			    "\"%s\" in a layout is not one of its fields with a number", shown);
		return FALSE;
	}
	if (values[field] != -1) {
		g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID, "%s is given twice",
			    fields[field].name);
		return FALSE;
	}
	if (!g_ascii_string_to_unsigned(parts[1], 10, 0, G_MAXINT64, &value, NULL)) {
		g_autofree char *shown = text_escape(parts[1], strlen(parts[1]));

		g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID, "%s \"%s\" is not a number",
			    fields[field].name, shown);
		return FALSE;
	}
	values[field] = (gint64)value;
	return check_field(field, values[field], error);
}

static gboolean parse_fields(const char *text, Layout *out_layout, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(text, ",", -1);
	gint64 values[N_FIELDS] = {-1, -1, -1, -1, -1, -1};

	for (int i = 0; parts[i] != NULL; i++) {
		if (!parse_field(parts[i], values, error))
			return FALSE;
	}
	for (int i = 0; i < N_FIELDS; i++) {
		if (values[i] == -1) {
			g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
				    "a layout needs all six fields, %s is missing", fields[i].name);
			return FALSE;
		}
	}
	*out_layout = (Layout){
		.epoch_ms = values[EPOCH_MS],
		.tick_ms = values[TICK_MS],
		.time_bits = (guint)values[TIME_BITS],
		.datacenter_bits = (guint)values[DATACENTER_BITS],
		.worker_bits = (guint)values[WORKER_BITS],
		.sequence_bits = (guint)values[SEQUENCE_BITS],
	};
	return TRUE;
}

gboolean layout_parse(const char *text, Layout *out_layout, GError **error)
{
	Layout layout;

	for (gsize i = 0; i < G_N_ELEMENTS(presets); i++) {
		if (strcmp(text, preset_names[i]) == 0) {
			*out_layout = *presets[i];
			return TRUE;
		}
	}
	if (strchr(text, '=') == NULL) {
		g_autofree char *names = g_strjoinv(", ", (char **)preset_names);
		g_autofree char *shown = text_escape(text, strlen(text));

		g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID,
			    "no layout is named \"%s\"; there are %s, or give all six fields",
			    shown, names);
		return FALSE;
	}
	if (!parse_fields(text, &layout, error) || !layout_check(&layout, error))
		return FALSE;
	*out_layout = layout;
	return TRUE;
}

char *layout_to_string(const Layout *self)
{
	return g_strdup_printf("epoch_ms=%" G_GINT64_FORMAT ",tick_ms=%" G_GINT64_FORMAT
			       ",time_bits=%u,datacenter_bits=%u,worker_bits=%u,sequence_bits=%u",
			       self->epoch_ms, self->tick_ms, self->time_bits,
			       self->datacenter_bits, self->worker_bits, self->sequence_bits);
}

char *layout_tick_text(const Layout *self, gint64 tick)
{
	return text_time_ms(layout_tick_start_ms(self, tick));
}

gboolean layout_equal(const Layout *a, const Layout *b)
{
	return a->epoch_ms == b->epoch_ms && a->tick_ms == b->tick_ms &&
	       a->time_bits == b->time_bits && a->datacenter_bits == b->datacenter_bits &&
	       a->worker_bits == b->worker_bits && a->sequence_bits == b->sequence_bits;
}

static gboolean check_part(const char *name, gint64 value, guint bits, GError **error)
{
	gint64 max = (G_GINT64_CONSTANT(1) << bits) - 1;

	if (value >= 0 && value <= max)
		return TRUE;
	g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_OUT_OF_RANGE,
		    "%s %" G_GINT64_FORMAT " does not fit the layout, 0 to %" G_GINT64_FORMAT, name,
		    value, max);
	return FALSE;
}

static gboolean check_time(const Layout *self, gint64 time_ms, GError **error)
{
	/* the first comparison keeps the subtraction in the second from overflowing */
	if (time_ms >= self->epoch_ms && layout_tick_at(self, time_ms) <= layout_max_tick(self))
		return TRUE;
	g_set_error(error, LAYOUT_ERROR, LAYOUT_ERROR_OUT_OF_RANGE,
		    "time %" G_GINT64_FORMAT " ms is outside the layout, %" G_GINT64_FORMAT
		    " to %" G_GINT64_FORMAT,
		    time_ms, self->epoch_ms,
		    layout_tick_start_ms(self, layout_max_tick(self)) + self->tick_ms - 1);
	return FALSE;
}

gboolean layout_encode(const Layout *self, const LayoutParts *parts, gint64 *out_id, GError **error)
{
	if (!check_time(self, parts->time_ms, error) ||
	    !layout_check_worker(self, parts->datacenter_id, parts->worker_id, error) ||
	    !check_part("sequence", parts->sequence, self->sequence_bits, error))
		return FALSE;

	gint64 tick = layout_tick_at(self, parts->time_ms);
	guint64 fixed_bits = layout_fixed_bits(self, parts->datacenter_id, parts->worker_id);
	IdRun run = id_run_at(self, fixed_bits, cursor_first(self, tick) | parts->sequence, 1);

	*out_id = id_run_get(&run, 0);
	return TRUE;
}

gboolean layout_check_worker(const Layout *self, gint64 datacenter_id, gint64 worker_id,
			     GError **error)
{
	return check_part("datacenter ID", datacenter_id, self->datacenter_bits, error) &&
	       check_part("worker ID", worker_id, self->worker_bits, error);
}
