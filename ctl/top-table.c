/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top-table.h"

#include "ctl/command.h"

#include <math.h>
#include <string.h>

#include "ctl/format.h"
#include "ctl/worker.h"

typedef struct {
	const char *name;
	const char *head;
	const char *brief_head;
	char *(*cell)(const CtlWorker *worker, gint64 now_ms, gboolean brief);
	/* What it is sorted by; NAN: it has nothing to tell. NULL: by the text of the cell */
	double (*value)(const CtlWorker *worker, gint64 now_ms);
	gboolean begins_with_most;
} Column;

typedef struct {
	double below; /* the last of a table: any */
	double unit;
	int decimals;
	const char *name; /* of the unit */
} Form;

/* By the first of @forms that it is below; five characters at most, up to a billion or so. */
static char *shorten(double number, const Form *forms)
{
	while (number >= forms->below)
		forms++;
	return g_strdup_printf("%.*f%s", forms->decimals, number / forms->unit, forms->name);
}

static char *short_number(double number)
{
	static const Form FORMS[] = {{9.95, 1, 1, ""},       {999.5, 1, 0, ""},
				     {9995, 1e3, 2, "k"},    {99950, 1e3, 1, "k"},
				     {999500, 1e3, 0, "k"},  {9995000, 1e6, 2, "M"},
				     {99.95e6, 1e6, 1, "M"}, {INFINITY, 1e6, 0, "M"}};

	return shorten(number, FORMS);
}

/* Without its sign. */
static char *short_time(double us)
{
	static const Form FORMS[] = {{9950, 1e3, 1, "ms"},       {999500, 1e3, 0, "ms"},
				     {99.95e6, 1e6, 1, "s"},     {5970e6, 60e6, 0, "min"},
				     {359400e6, 3600e6, 0, "h"}, {INFINITY, 86400e6, 0, "d"}};

	return shorten(us, FORMS);
}

static char *nothing(void)
{
	return g_strdup("-");
}

/* The columns */

static char *worker_cell(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms,
			 G_GNUC_UNUSED gboolean brief)
{
	return worker->worker_id >= 0
		       ? g_strdup_printf("%u/%d", worker->datacenter_id, worker->worker_id)
		       : nothing();
}

static double worker_value(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->worker_id >= 0 ? worker->datacenter_id * 0x1p32 + worker->worker_id : NAN;
}

static char *address_cell(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms,
			  G_GNUC_UNUSED gboolean brief)
{
	return ctl_worker_place(worker);
}

static char *state_cell(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms,
			G_GNUC_UNUSED gboolean brief)
{
	return ctl_format_text(worker->state);
}

static char *rate_cell(double rate, gboolean brief)
{
	if (isnan(rate))
		return nothing();
	return brief ? short_number(rate) : g_strdup_printf(rate < 9.95 ? "%.1f" : "%.0f", rate);
}

static double ids_value(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_rates ? worker->ids_per_s : NAN;
}

static char *ids_cell(const CtlWorker *worker, gint64 now_ms, gboolean brief)
{
	return rate_cell(ids_value(worker, now_ms), brief);
}

static double calls_value(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_rates ? worker->calls_per_s : NAN;
}

static char *calls_cell(const CtlWorker *worker, gint64 now_ms, gboolean brief)
{
	return rate_cell(calls_value(worker, now_ms), brief);
}

static double round_trip_value(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_answered ? (double)worker->round_trip_us : NAN;
}

static char *round_trip_cell(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms, gboolean brief)
{
	if (!worker->has_answered)
		return nothing();
	return brief ? short_time((double)worker->round_trip_us)
		     : g_strdup_printf("%.3f ms", (double)worker->round_trip_us / 1000);
}

/* The clock that is furthest off, either way. */
static double clock_value(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_answered ? fabs((double)worker->clock_skew_us) : NAN;
}

static char *clock_cell(const CtlWorker *worker, gint64 now_ms, gboolean brief)
{
	if (!worker->has_answered)
		return nothing();

	g_autofree char *text = brief ? short_time(clock_value(worker, now_ms)) : NULL;

	return brief ? g_strconcat(worker->clock_skew_us < 0 ? "-" : "+", text, NULL)
		     : g_strdup_printf("%+.1f ms", (double)worker->clock_skew_us / 1000);
}

static double left_value(const CtlWorker *worker, gint64 now_ms)
{
	return worker->reserved_until_ms > 0 ? (double)ctl_worker_left_ms(worker, now_ms) : NAN;
}

static char *left_cell(const CtlWorker *worker, gint64 now_ms, gboolean brief)
{
	gint64 left_ms = ctl_worker_left_ms(worker, now_ms);

	if (worker->reserved_until_ms <= 0)
		return nothing();
	if (left_ms == 0)
		return g_strdup("ended");
	if (brief)
		return short_time((double)left_ms * 1000);
	return left_ms < 2000 ? g_strdup_printf("%" G_GINT64_FORMAT " ms", left_ms)
			      : ctl_format_span(left_ms);
}

static double connections_value(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_counts ? (double)worker->counts.connections : NAN;
}

static char *connections_cell(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms,
			      G_GNUC_UNUSED gboolean brief)
{
	return worker->has_counts ? g_strdup_printf("%" G_GINT64_FORMAT, worker->counts.connections)
				  : nothing();
}

static const Column COLUMNS[CTL_TOP_COLUMNS] = {
	{"worker", ">worker", ">worker", worker_cell, worker_value, FALSE},
	{"address", "address", "address", address_cell, NULL, FALSE},
	{"state", "state", "state", state_cell, NULL, FALSE},
	{"ids", ">IDs/s", ">IDs/s", ids_cell, ids_value, TRUE},
	{"calls", ">calls/s", ">calls/s", calls_cell, calls_value, TRUE},
	{"round-trip", ">round trip", ">trip", round_trip_cell, round_trip_value, TRUE},
	{"clock", ">clock", ">clock", clock_cell, clock_value, TRUE},
	{"reservation", ">reserved for", ">left", left_cell, left_value, FALSE},
	{"connections", ">connections", ">conns", connections_cell, connections_value, TRUE},
};

const char *const *ctl_command_top_columns(void)
{
	static const char *names[CTL_TOP_COLUMNS + 1];

	for (guint i = 0; i < CTL_TOP_COLUMNS; i++)
		names[i] = COLUMNS[i].name;
	return names;
}

/* The order */

typedef struct {
	const Column *column;
	gboolean falls;
	gint64 now_ms;
} Sorting;

static int compare_values(double left, double right, gboolean falls)
{
	if (isnan(left) || isnan(right))
		return isnan(left) - isnan(right);
	if (left == right)
		return 0;
	return (left < right) == falls ? 1 : -1;
}

static int compare_texts(const CtlWorker *left, const CtlWorker *right, const Sorting *sorting)
{
	g_autofree char *left_text = sorting->column->cell(left, sorting->now_ms, FALSE);
	g_autofree char *right_text = sorting->column->cell(right, sorting->now_ms, FALSE);
	int order = strcmp(left_text, right_text);

	return sorting->falls ? -order : order;
}

static gint compare(gconstpointer a, gconstpointer b, gpointer data)
{
	const CtlWorker *left = *(CtlWorker *const *)a;
	const CtlWorker *right = *(CtlWorker *const *)b;
	const Sorting *sorting = data;

	if (sorting->column->value == NULL)
		return compare_texts(left, right, sorting);
	return compare_values(sorting->column->value(left, sorting->now_ms),
			      sorting->column->value(right, sorting->now_ms), sorting->falls);
}

void ctl_top_table_sort(GPtrArray *workers, const CtlTopOrder *order)
{
	const Column *column = &COLUMNS[order->column];
	Sorting sorting = {
		.column = column,
		.falls = column->begins_with_most != order->reverse,
		.now_ms = g_get_real_time() / 1000,
	};

	/* which is stable */
	g_ptr_array_sort_with_data(workers, compare, &sorting);
}

/* What is shown */

static CtlTable *make_table(const GPtrArray *workers, const CtlTopOrder *order, gint64 now_ms,
			    gboolean brief)
{
	const char *heads[CTL_TOP_COLUMNS + 1] = {NULL};
	CtlTable *table;

	for (guint i = 0; i < CTL_TOP_COLUMNS; i++)
		heads[i] = brief ? COLUMNS[i].brief_head : COLUMNS[i].head;
	table = brief ? ctl_table_new_close(heads) : ctl_table_new(heads);
	ctl_table_paint_head(table, order->column, CTL_COLOUR_HEAD);
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		for (guint j = 0; j < CTL_TOP_COLUMNS; j++)
			ctl_table_add_painted(table, COLUMNS[j].cell(worker, now_ms, brief),
					      COLUMNS[j].cell == state_cell
						      ? ctl_colour_of_state(worker->state)
						      : CTL_COLOUR_NONE);
	}
	return table;
}

void ctl_top_table_make(const GPtrArray *workers, const CtlTopOrder *order, gint64 now_ms,
			CtlTable **out_full, CtlTable **out_brief)
{
	*out_full = make_table(workers, order, now_ms, FALSE);
	*out_brief = make_table(workers, order, now_ms, TRUE);
}

typedef struct {
	guint serving;
	gboolean has_rates; /* of one at least */
	double ids_per_s;
	double calls_per_s;
	gint64 connections;
} Totals;

static Totals add_up(const GPtrArray *workers)
{
	Totals totals = {0};

	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		totals.serving += g_strcmp0(worker->state, "serving") == 0;
		totals.has_rates |= worker->has_rates;
		/* its servers have counted them */
		totals.ids_per_s += ctl_worker_is_relay(worker) ? 0 : worker->ids_per_s;
		totals.calls_per_s += worker->calls_per_s;
		/* a server that lies may tell of any number */
		totals.connections =
			(gint64)((guint64)totals.connections + (guint64)worker->counts.connections);
	}
	return totals;
}

char *ctl_top_table_totals(const GPtrArray *workers)
{
	Totals totals = add_up(workers);
	g_autofree char *ids = rate_cell(totals.has_rates ? totals.ids_per_s : NAN, FALSE);
	g_autofree char *calls = rate_cell(totals.has_rates ? totals.calls_per_s : NAN, FALSE);

	return g_strdup_printf("%u of %u serving, %s IDs/s, %s calls/s, %" G_GINT64_FORMAT
			       " connections",
			       totals.serving, workers->len, ids, calls, totals.connections);
}

static void set_number(JsonObject *object, const char *name, gboolean is_known, gint64 value)
{
	if (is_known)
		json_object_set_int_member(object, name, value);
	else
		json_object_set_null_member(object, name);
}

/* In whole numbers, as json-glib writes others with 17 digits. No server is as fast as lies are. */
static void set_rate(JsonObject *object, const char *name, gboolean is_known, double rate)
{
	set_number(object, name, is_known, (gint64)round(MIN(rate, 1e15)));
}

static JsonObject *worker_to_json(const CtlWorker *worker, gint64 now_ms)
{
	JsonObject *object = ctl_worker_to_json(worker);

	set_number(object, "reservation_left_ms", worker->reserved_until_ms > 0,
		   ctl_worker_left_ms(worker, now_ms));
	set_rate(object, "ids_per_s", worker->has_rates, worker->ids_per_s);
	set_rate(object, "calls_per_s", worker->has_rates, worker->calls_per_s);
	set_number(object, "connections", worker->has_counts, worker->counts.connections);
	return object;
}

static JsonObject *totals_to_json(const GPtrArray *workers)
{
	Totals totals = add_up(workers);
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "servers", workers->len);
	json_object_set_int_member(object, "serving", totals.serving);
	set_rate(object, "ids_per_s", totals.has_rates, totals.ids_per_s);
	set_rate(object, "calls_per_s", totals.has_rates, totals.calls_per_s);
	json_object_set_int_member(object, "connections", totals.connections);
	return object;
}

JsonObject *ctl_top_table_to_json(const GPtrArray *workers, gint64 now_ms)
{
	JsonObject *object = json_object_new();
	JsonArray *array = json_array_new();

	for (guint i = 0; i < workers->len; i++)
		json_array_add_object_element(array, worker_to_json(workers->pdata[i], now_ms));
	ctl_format_json_time(object, "time", now_ms);
	json_object_set_array_member(object, "workers", array);
	json_object_set_object_member(object, "totals", totals_to_json(workers));
	return object;
}
