/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layout.h"

#include <string.h>

#include "core/text.h"

#define YEAR_10000     G_GINT64_CONSTANT(253402300800) /* seconds since the Unix epoch */
#define END_OF_TIME_MS (YEAR_10000 * 1000)

/* epoch_ms, tick_ms, and the bits of time, datacenter, worker and sequence */
const Layout LAYOUT_TWITTER = {1288834974657, 1, 41, 5, 5, 12};

/* Libraries that use a single number for datacenter and worker: Meituan's Leaf
 * (SnowflakeIDGenImpl), and ports that derive a worker ID from a MAC or IP address. */
static const Layout machine_10 = {1288834974657, 1, 41, 0, 10, 12};

/* Baidu's UidGenerator, with the settings of its CachedUidGenerator example. The epoch is midnight
 * of 2016-09-20 in China. */
static const Layout uid_generator = {1474300800000, 1000, 29, 0, 21, 13};

/* UidGenerator without settings (DefaultUidGenerator). The epoch is midnight of 2016-05-20 in
 * China. The layout ended on 2024-11-20. */
static const Layout uid_generator_28 = {1463673600000, 1000, 28, 0, 22, 13};

/* From Discord's API reference, "Snowflakes". Its worker and process are called datacenter and
 * worker here. */
static const Layout discord = {1420070400000, 1, 41, 5, 5, 12};

/* From "Sharding & IDs at Instagram", 2012. A shard is called a worker here. It uses the top 41 of
 * 64 bits for the time. The first of them is the sign bit, which is 0 until 2046, so 40 bits
 * remain. */
static const Layout instagram = {1314220021721, 1, 40, 0, 13, 10};

/* This project's layout for JavaScript, whose integers are exact up to 2^53 - 1. It lasts for 69
 * years from the beginning of 2026, and allows 32 servers with 128,000 IDs a second each. */
static const Layout js_safe = {1767225600000, 1, 41, 0, 5, 7};

const LayoutPreset LAYOUT_PRESETS[] = {
	{"twitter", &LAYOUT_TWITTER},
	{"machine-10", &machine_10},
	{"uid-generator", &uid_generator},
	{"uid-generator-28", &uid_generator_28},
	{"discord", &discord},
	{"instagram", &instagram},
	{"js-safe", &js_safe},
	{NULL, NULL},
};

const LayoutField LAYOUT_FIELDS[LAYOUT_N_FIELDS] = {
	[LAYOUT_EPOCH_MS] = {"epoch_ms", 0, END_OF_TIME_MS - 1},
	[LAYOUT_TICK_MS] = {"tick_ms", 1, 1000},
	[LAYOUT_TIME_BITS] = {"time_bits", 1, LAYOUT_MAX_BITS},
	[LAYOUT_DATACENTER_BITS] = {"datacenter_bits", 0, 31},
	[LAYOUT_WORKER_BITS] = {"worker_bits", 0, 31},
	[LAYOUT_SEQUENCE_BITS] = {"sequence_bits", 0, 31},
	[LAYOUT_TOTAL_BITS] = {"total_bits", 1, LAYOUT_MAX_BITS},
};

gint64 layout_get_field(const Layout *self, LayoutFieldIndex field)
{
	const gint64 values[LAYOUT_N_FIELDS] = {self->epoch_ms,         self->tick_ms,
						self->time_bits,        self->datacenter_bits,
						self->worker_bits,      self->sequence_bits,
						layout_total_bits(self)};

	return values[field];
}

static gboolean check_field(int field, gint64 value, GError **error)
{
	if (value >= LAYOUT_FIELDS[field].min && value <= LAYOUT_FIELDS[field].max)
		return TRUE;
	return id_error_set(error, ID_ERROR_INVALID,
			    "%s %" G_GINT64_FORMAT " is out of range, %" G_GINT64_FORMAT
			    " to %" G_GINT64_FORMAT,
			    LAYOUT_FIELDS[field].name, value, LAYOUT_FIELDS[field].min,
			    LAYOUT_FIELDS[field].max);
}

gboolean layout_check(const Layout *self, GError **error)
{
	for (int i = 0; i < LAYOUT_TOTAL_BITS; i++)
		if (!check_field(i, layout_get_field(self, i), error))
			return FALSE;
	if (layout_total_bits(self) > LAYOUT_MAX_BITS)
		return id_error_set(error, ID_ERROR_INVALID,
				    "the four fields have %u bits in total; the limit is %d",
				    layout_total_bits(self), LAYOUT_MAX_BITS);
	if (layout_max_tick(self) >= (END_OF_TIME_MS - self->epoch_ms) / self->tick_ms)
		return id_error_set(error, ID_ERROR_INVALID,
				    "with %u time bits, ticks of %" G_GINT64_FORMAT
				    " ms and the epoch %" G_GINT64_FORMAT
				    " ms, the last tick is after the year 9999; use fewer time "
				    "bits",
				    self->time_bits, self->tick_ms, self->epoch_ms);
	return TRUE;
}

gboolean layout_from_fields(const gint64 values[static LAYOUT_N_FIELDS], Layout *out_layout,
			    GError **error)
{
	const Layout layout = {
		.epoch_ms = values[LAYOUT_EPOCH_MS],
		.tick_ms = values[LAYOUT_TICK_MS],
		.time_bits = (guint)values[LAYOUT_TIME_BITS],
		.datacenter_bits = (guint)values[LAYOUT_DATACENTER_BITS],
		.worker_bits = (guint)values[LAYOUT_WORKER_BITS],
		.sequence_bits = (guint)values[LAYOUT_SEQUENCE_BITS],
	};
	guint bits = layout_total_bits(&layout);

	if (!layout_check(&layout, error))
		return FALSE;
	if (bits != values[LAYOUT_TOTAL_BITS])
		return id_error_set(error, ID_ERROR_INVALID,
				    "the four fields have %u bits in total, but must have "
				    "%" G_GINT64_FORMAT "; for %u bits, add total_bits=%u",
				    bits, values[LAYOUT_TOTAL_BITS], bits, bits);
	*out_layout = layout;
	return TRUE;
}

/* Parses "name=number,...". */
static gboolean parse_fields(const char *text, Layout *out_layout, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(text, ",", -1);
	gint64 values[LAYOUT_N_FIELDS] = {-1, -1, -1, -1, -1, -1, -1}; /* -1: not given */

	for (int i = 0; parts[i] != NULL; i++) {
		g_auto(GStrv) pair = g_strsplit(parts[i], "=", 2);
		g_autofree char *shown = NULL;
		guint64 value;
		int field = 0;

		while (field < LAYOUT_N_FIELDS &&
		       g_strcmp0(pair[0], LAYOUT_FIELDS[field].name) != 0)
			field++;
		if (field == LAYOUT_N_FIELDS || pair[1] == NULL) {
			shown = text_escape(parts[i], strlen(parts[i]));
			return id_error_set(
				error, ID_ERROR_INVALID,
				"\"%s\" is not a layout field with a number, such as tick_ms=1",
				shown);
		}
		if (values[field] != -1)
			return id_error_set(error, ID_ERROR_INVALID, "%s is given twice",
					    LAYOUT_FIELDS[field].name);
		if (!text_parse_number(pair[1], 10, 0, G_MAXINT64, &value)) {
			shown = text_escape(pair[1], strlen(pair[1]));
			return id_error_set(error, ID_ERROR_INVALID, "%s \"%s\" is not a number",
					    LAYOUT_FIELDS[field].name, shown);
		}
		values[field] = (gint64)value;
		if (!check_field(field, values[field], error))
			return FALSE;
	}
	for (int i = 0; i < LAYOUT_TOTAL_BITS; i++)
		if (values[i] == -1)
			return id_error_set(error, ID_ERROR_INVALID,
					    "a layout needs six fields; %s is missing",
					    LAYOUT_FIELDS[i].name);
	if (values[LAYOUT_TOTAL_BITS] == -1)
		values[LAYOUT_TOTAL_BITS] = LAYOUT_MAX_BITS;
	return layout_from_fields(values, out_layout, error);
}

gboolean layout_parse(const char *text, Layout *out_layout, GError **error)
{
	g_autoptr(GString) names = g_string_new(NULL);
	g_autofree char *shown = NULL;

	for (const LayoutPreset *preset = LAYOUT_PRESETS; preset->name != NULL; preset++) {
		if (strcmp(text, preset->name) == 0) {
			*out_layout = *preset->layout;
			return TRUE;
		}
		g_string_append_printf(names, "%s, ", preset->name);
	}
	if (strchr(text, '=') != NULL)
		return parse_fields(text, out_layout, error);
	shown = text_escape(text, strlen(text));
	return id_error_set(error, ID_ERROR_INVALID,
			    "unknown layout \"%s\"; use %sor specify all six fields", shown,
			    names->str);
}

char *layout_to_string(const Layout *self)
{
	int n = layout_total_bits(self) != LAYOUT_MAX_BITS ? LAYOUT_N_FIELDS : LAYOUT_TOTAL_BITS;
	GString *text = g_string_new(NULL);

	for (int i = 0; i < n; i++)
		g_string_append_printf(text, "%s%s=%" G_GINT64_FORMAT, i > 0 ? "," : "",
				       LAYOUT_FIELDS[i].name, layout_get_field(self, i));
	return g_string_free(text, FALSE);
}

char *layout_name(const Layout *self)
{
	for (const LayoutPreset *preset = LAYOUT_PRESETS; preset->name != NULL; preset++)
		if (layout_equal(self, preset->layout))
			return g_strdup(preset->name);
	return layout_to_string(self);
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
	gint64 max = (gint64)((G_GUINT64_CONSTANT(1) << bits) - 1);

	if (value >= 0 && value <= max)
		return TRUE;
	return id_error_set(error, ID_ERROR_OUT_OF_RANGE,
			    "%s %" G_GINT64_FORMAT
			    " does not fit the layout, which allows 0 to %" G_GINT64_FORMAT,
			    name, value, max);
}

static gboolean check_time(const Layout *self, gint64 time_ms, GError **error)
{
	/* the first comparison ensures that the subtraction in the second does not overflow */
	if (time_ms >= self->epoch_ms && layout_tick_at(self, time_ms) <= layout_max_tick(self))
		return TRUE;
	return id_error_set(error, ID_ERROR_OUT_OF_RANGE,
			    "time %" G_GINT64_FORMAT
			    " ms is outside the layout's range, %" G_GINT64_FORMAT
			    " to %" G_GINT64_FORMAT,
			    time_ms, self->epoch_ms, layout_last_ms(self));
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

gboolean layout_check_id(const Layout *self, gint64 id, GError **error)
{
	return check_part("ID", id, layout_total_bits(self), error);
}

gdouble layout_ids_per_ms(const Layout *self)
{
	return (gdouble)(G_GINT64_CONSTANT(1) << self->sequence_bits) / (gdouble)self->tick_ms;
}

gint64 layout_last_ms(const Layout *self)
{
	return layout_tick_start_ms(self, layout_max_tick(self)) + self->tick_ms - 1;
}

gboolean layout_range(const Layout *self, gint64 from_ms, gint64 to_ms, gint64 *out_first,
		      gint64 *out_last, GError **error)
{
	gint64 last_ms = layout_last_ms(self);

	if (from_ms > to_ms)
		return id_error_set(error, ID_ERROR_OUT_OF_RANGE,
				    "the span ends at %" G_GINT64_FORMAT
				    " ms, before it begins, at %" G_GINT64_FORMAT " ms",
				    to_ms, from_ms);
	if (to_ms < self->epoch_ms)
		return check_time(self, to_ms, error);
	if (from_ms > last_ms)
		return check_time(self, from_ms, error);

	gint64 first_tick = layout_tick_at(self, MAX(from_ms, self->epoch_ms));
	gint64 last_tick = layout_tick_at(self, MIN(to_ms, last_ms));
	guint low_bits = layout_low_bits(self);

	*out_first = first_tick << low_bits;
	*out_last = (gint64)(((guint64)(last_tick + 1) << low_bits) - 1);
	return TRUE;
}

gboolean layout_check_worker(const Layout *self, gint64 datacenter_id, gint64 worker_id,
			     GError **error)
{
	return check_part("datacenter ID", datacenter_id, self->datacenter_bits, error) &&
	       check_part("worker ID", worker_id, self->worker_bits, error);
}
