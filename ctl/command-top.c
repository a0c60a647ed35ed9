/* SPDX-License-Identifier: Apache-2.0 */

/* "top": repeatedly shows the state and the rates of all servers. It changes nothing. For each
 * list, it reads the tree in the registry again, without watches. */

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "ctl/command.h"
#include "ctl/fleet.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/screen.h"
#include "ctl/watch.h"

#define MIN_INTERVAL_MS 100
#define MAX_INTERVAL_MS 3600000

static char *interval_text;
static char *sort_name;
static gboolean reverse;

static const GOptionEntry entries[] = {
	{"interval", 'i', 0, G_OPTION_ARG_STRING, &interval_text,
	 "Time between two lists (default 2000)", "MS"},
	{"sort", 's', 0, G_OPTION_ARG_STRING, &sort_name,
	 "Sort by worker, address, state, ids, calls, round-trip, clock, reservation or "
	 "connections (default worker)",
	 "COLUMN"},
	{"reverse", 0, 0, G_OPTION_ARG_NONE, &reverse, "Reverse the order", NULL},
	G_OPTION_ENTRY_NULL,
};

/* The columns */

typedef enum {
	COLUMN_WORKER,
	COLUMN_ADDRESS,
	COLUMN_STATE,
	COLUMN_IDS,
	COLUMN_CALLS,
	COLUMN_ROUND_TRIP,
	COLUMN_CLOCK,
	COLUMN_RESERVATION,
	COLUMN_CONNECTIONS,
	N_COLUMNS
} Column;

static const struct {
	const char *name;
	const char *head;
	gboolean is_descending;
} COLUMNS[N_COLUMNS] = {
	[COLUMN_WORKER] = {"worker", ">worker", FALSE},
	[COLUMN_ADDRESS] = {"address", "address", FALSE},
	[COLUMN_STATE] = {"state", "state", FALSE},
	[COLUMN_IDS] = {"ids", ">IDs/s", TRUE},
	[COLUMN_CALLS] = {"calls", ">calls/s", TRUE},
	[COLUMN_ROUND_TRIP] = {"round-trip", ">trip", TRUE},
	[COLUMN_CLOCK] = {"clock", ">clock", TRUE},
	[COLUMN_RESERVATION] = {"reservation", ">left", FALSE},
	[COLUMN_CONNECTIONS] = {"connections", ">conns", TRUE},
};

typedef struct {
	double below; /* limit of the form; INFINITY in the last element */
	double unit;
	int decimals;
	const char *name; /* name of the unit */
} Form;

/* Formats @number in the first of @forms whose limit is above it. Numbers up to about a billion
 * need at most five characters. */
static char *shorten(double number, const Form *forms)
{
	while (number >= forms->below)
		forms++;
	return g_strdup_printf("%.*f%s", forms->decimals, number / forms->unit, forms->name);
}

/* Formats a time span, ignoring its sign. */
static char *short_time(double us)
{
	static const Form FORMS[] = {{9950, 1e3, 1, "ms"},       {999500, 1e3, 0, "ms"},
				     {99.95e6, 1e6, 1, "s"},     {5970e6, 60e6, 0, "min"},
				     {359400e6, 3600e6, 0, "h"}, {INFINITY, 86400e6, 0, "d"}};

	return shorten(us, FORMS);
}

/* Returns the number by which a column is sorted; NAN if it is unknown, or if the column contains
 * text. */
static double get_value(const CtlWorker *worker, Column column, gint64 now_ms)
{
	switch (column) {
	case COLUMN_WORKER:
		return worker->said.worker_id >= 0
			       ? worker->said.datacenter_id * 0x1p32 + worker->said.worker_id
			       : NAN;
	case COLUMN_IDS:
		return worker->has_rates ? worker->ids_per_s : NAN;
	case COLUMN_CALLS:
		return worker->has_rates ? worker->calls_per_s : NAN;
	case COLUMN_ROUND_TRIP:
		return worker->has_answered ? (double)worker->round_trip_us : NAN;
	case COLUMN_CLOCK:
		/* sort by the absolute difference */
		return worker->has_answered ? fabs((double)worker->clock_skew_us) : NAN;
	case COLUMN_RESERVATION:
		return worker->said.reserved_until_ms > 0
			       ? (double)ctl_worker_left_ms(worker, now_ms)
			       : NAN;
	case COLUMN_CONNECTIONS:
		return worker->has_counts ? (double)worker->counts.connections : NAN;
	case COLUMN_ADDRESS:
	case COLUMN_STATE:
	case N_COLUMNS:
	default:
		return NAN;
	}
}

static char *make_cell(const CtlWorker *worker, Column column, gint64 now_ms)
{
	static const Form RATES[] = {{9.95, 1, 1, ""},       {999.5, 1, 0, ""},
				     {9995, 1e3, 2, "k"},    {99950, 1e3, 1, "k"},
				     {999500, 1e3, 0, "k"},  {9995000, 1e6, 2, "M"},
				     {99.95e6, 1e6, 1, "M"}, {INFINITY, 1e6, 0, "M"}};
	double value = get_value(worker, column, now_ms);
	gint64 left_ms = ctl_worker_left_ms(worker, now_ms);
	g_autofree char *time = NULL;

	if (column == COLUMN_ADDRESS)
		return ctl_worker_address(worker);
	if (column == COLUMN_STATE)
		return ctl_format_text(worker->said.state);
	if (isnan(value))
		return g_strdup("-");
	switch (column) {
	case COLUMN_WORKER:
		return g_strdup_printf("%u/%d", worker->said.datacenter_id, worker->said.worker_id);
	case COLUMN_ROUND_TRIP:
		return short_time(value);
	case COLUMN_CLOCK:
		time = short_time(value);
		return g_strconcat(worker->clock_skew_us < 0 ? "-" : "+", time, NULL);
	case COLUMN_RESERVATION:
		return left_ms > 0 ? short_time((double)left_ms * 1000) : g_strdup("ended");
	case COLUMN_CONNECTIONS:
		return g_strdup_printf("%" G_GINT64_FORMAT, worker->counts.connections);
	case COLUMN_IDS:
	case COLUMN_CALLS:
	case COLUMN_ADDRESS:
	case COLUMN_STATE:
	case N_COLUMNS:
	default:
		return shorten(value, RATES);
	}
}

const char *const *ctl_command_top_columns(void)
{
	static const char *names[N_COLUMNS + 1];

	for (guint i = 0; i < N_COLUMNS; i++)
		names[i] = COLUMNS[i].name;
	return names;
}

typedef struct {
	Column column;
	gboolean is_descending;
	gint64 now_ms;
} Sorting;

static gint compare_workers(gconstpointer a, gconstpointer b, gpointer data)
{
	const CtlWorker *left = *(CtlWorker *const *)a;
	const CtlWorker *right = *(CtlWorker *const *)b;
	const Sorting *sorting = data;
	double left_value = get_value(left, sorting->column, sorting->now_ms);
	double right_value = get_value(right, sorting->column, sorting->now_ms);
	int order = (left_value > right_value) - (left_value < right_value);

	if (sorting->column == COLUMN_ADDRESS || sorting->column == COLUMN_STATE) {
		g_autofree char *left_text = make_cell(left, sorting->column, 0);
		g_autofree char *right_text = make_cell(right, sorting->column, 0);

		order = strcmp(left_text, right_text);
	} else if (isnan(left_value) || isnan(right_value)) {
		return isnan(left_value) - isnan(right_value);
	}
	return sorting->is_descending ? -order : order;
}

/* Contents of a list */

/* @order_column: the column that the rows are sorted by */
static CtlTable *make_table(const GPtrArray *workers, guint order_column, gint64 now_ms)
{
	const char *heads[N_COLUMNS + 1] = {NULL};
	CtlTable *table;

	for (guint i = 0; i < N_COLUMNS; i++)
		heads[i] = COLUMNS[i].head;
	table = ctl_table_new(heads);
	ctl_table_paint_head(table, order_column, CTL_COLOUR_HEAD);
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		for (guint j = 0; j < N_COLUMNS; j++)
			ctl_table_add_painted(table, make_cell(worker, j, now_ms),
					      j == COLUMN_STATE
						      ? ctl_colour_of_state(worker->said.state)
						      : CTL_COLOUR_NONE);
	}
	return table;
}

typedef struct {
	guint serving;
	gboolean has_rates; /* rates of at least one server are known */
	double ids_per_s;
	double calls_per_s;
	gint64 connections;
} Totals;

static Totals add_up(const GPtrArray *workers)
{
	Totals totals = {0};

	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		totals.serving += g_strcmp0(worker->said.state, "serving") == 0;
		totals.has_rates |= worker->has_rates;
		/* count a relay's IDs only at the servers that issued them */
		totals.ids_per_s += ctl_worker_is_relay(worker) ? 0 : worker->ids_per_s;
		totals.calls_per_s += worker->calls_per_s;
		/* add unsigned numbers, because a server may report any number, and a signed sum
		 * could overflow */
		totals.connections =
			(gint64)((guint64)totals.connections + (guint64)worker->counts.connections);
	}
	return totals;
}

/* Returns: (transfer full): a line */
static char *totals_to_text(const GPtrArray *workers)
{
	Totals totals = add_up(workers);
	g_autofree char *ids =
		totals.has_rates ? g_strdup_printf("%.0f", totals.ids_per_s) : g_strdup("-");
	g_autofree char *calls =
		totals.has_rates ? g_strdup_printf("%.0f", totals.calls_per_s) : g_strdup("-");

	return g_strdup_printf("%u of %u serving, %s IDs/s, %s calls/s, %" G_GINT64_FORMAT
			       " connections",
			       totals.serving, workers->len, ids, calls, totals.connections);
}

/* Sets a rate as an integer, because json-glib writes fractions with 17 digits. An incorrect rate
 * may be too large for an integer. */
static void set_rate(JsonObject *object, const char *name, gboolean is_known, double rate)
{
	ctl_format_json_number(object, name, is_known, (gint64)round(MIN(rate, 1e15)));
}

static JsonObject *list_to_json(const GPtrArray *workers, gint64 now_ms)
{
	JsonObject *object = json_object_new();
	JsonObject *totals_object = json_object_new();
	JsonArray *array = json_array_new();
	Totals totals = add_up(workers);

	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];
		JsonObject *row = ctl_worker_to_json(worker);

		ctl_format_json_number(row, "reservation_left_ms",
				       worker->said.reserved_until_ms > 0,
				       ctl_worker_left_ms(worker, now_ms));
		set_rate(row, "ids_per_s", worker->has_rates, worker->ids_per_s);
		set_rate(row, "calls_per_s", worker->has_rates, worker->calls_per_s);
		ctl_format_json_number(row, "connections", worker->has_counts,
				       worker->counts.connections);
		json_array_add_object_element(array, row);
	}
	json_object_set_int_member(totals_object, "servers", workers->len);
	json_object_set_int_member(totals_object, "serving", totals.serving);
	set_rate(totals_object, "ids_per_s", totals.has_rates, totals.ids_per_s);
	set_rate(totals_object, "calls_per_s", totals.has_rates, totals.calls_per_s);
	json_object_set_int_member(totals_object, "connections", totals.connections);
	ctl_format_json_time(object, "time", now_ms);
	json_object_set_array_member(object, "workers", array);
	json_object_set_object_member(object, "totals", totals_object);
	return object;
}

/* The lists */

/* State of all servers at one instant. */
typedef struct {
	gint64 time_ms;     /* since the Unix epoch */
	GPtrArray *workers; /* (element-type CtlWorker): NULL if no server answers */
	CtlNotes *notes;
	gboolean has_conflict; /* see ctl_notes_add_conflicts() */
} List;

typedef struct {
	const CtlOptions *options;
	const CtlRegistry *registry;
	guint interval_ms;
	CtlRegistryTree *tree; /* (nullable): the last tree that was read */
	gint64 tree_as_of_ms;  /* time of the tree, since the Unix epoch */
	GHashTable *counts; /* maps a nonce to the CtlCounts of the last list that contained them */
	gint64 due_at_us;   /* monotonic time at which the next list is due */
	/* (nullable): changed only between begin and end of printing, because another thread draws
	 * it */
	List *last;
	atomic_uint order_column; /* set by keys in another thread, as is the next member */
	/* reverses the default order, which is descending, or ascending for text */
	atomic_bool order_reversed;
} Top;

static void list_free(List *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	g_ptr_array_unref(self->notes);
	g_free(self);
}

static void top_clear(Top *self)
{
	list_free(self->last);
	ctl_registry_tree_free(self->tree);
	g_hash_table_unref(self->counts);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Top, top_clear)

/* Sorts the rows. Rows with equal values keep their order. Rows without a value come last, and also
 * keep their order. Returns the column that they are sorted by. */
static guint sort_workers(const Top *self, GPtrArray *workers)
{
	guint column = atomic_load(&self->order_column);
	Sorting sorting = {
		.column = column,
		.is_descending =
			COLUMNS[column].is_descending != atomic_load(&self->order_reversed),
		.now_ms = g_get_real_time() / 1000,
	};

	g_ptr_array_sort_with_data(workers, compare_workers, &sorting); /* stable */
	return column;
}

static GHashTable *counts_new(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

/* Sets the workers, and their rates since the last list. A restarted server has a new nonce, so it
 * has no rates yet. @workers: (transfer full) (nullable) */
static void list_set_workers(List *self, Top *top, GPtrArray *workers)
{
	g_autoptr(GHashTable) last_counts = top->counts;

	self->workers = workers;
	self->time_ms = g_get_real_time() / 1000;
	top->counts = counts_new();
	for (guint i = 0; workers != NULL && i < workers->len; i++) {
		CtlWorker *worker = workers->pdata[i];
		const char *nonce = worker->said.nonce;
		const CtlCounts *before =
			nonce != NULL ? g_hash_table_lookup(last_counts, nonce) : NULL;
		const CtlCounts *last = worker->has_counts ? &worker->counts : before;

		if (worker->has_counts && before != NULL) {
			double seconds =
				(double)(worker->counts.at_us - before->at_us) / G_TIME_SPAN_SECOND;
			double ids = (double)worker->counts.ids - (double)before->ids;
			double calls = (double)worker->counts.calls - (double)before->calls;

			/* the counters of a running server never decrease */
			worker->has_rates = seconds > 0 && worker->counts.ids >= before->ids &&
					    worker->counts.calls >= before->calls;
			worker->ids_per_s = worker->has_rates ? ids / seconds : 0;
			worker->calls_per_s = worker->has_rates ? calls / seconds : 0;
		}
		if (nonce != NULL && last != NULL)
			g_hash_table_replace(top->counts, g_strdup(nonce),
					     g_memdup2(last, sizeof(*last)));
	}
	self->has_conflict = workers != NULL && !ctl_notes_add_conflicts(self->notes, workers);
	if (workers != NULL)
		sort_workers(top, workers);
}

/* Draws the last list. Can be called in any thread, between begin and end of printing. */
static void draw_last(gpointer data)
{
	const Top *self = data;
	const List *list = self->last;
	guint columns, n_lines, column;

	if (list == NULL)
		return;
	column = sort_workers(self, list->workers);
	ctl_screen_size(&columns, &n_lines);

	g_autoptr(CtlTable) table = make_table(list->workers, column, list->time_ms);
	g_autoptr(GPtrArray) lines = ctl_table_lines(table, 1, columns);
	g_autoptr(GPtrArray) below = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *time = ctl_format_time(list->time_ms);
	g_autofree char *title = g_strdup_printf("%s  (by %s; < > column, r reverse, q quit)", time,
						 COLUMNS[column].name);
	g_autofree char *drawn = NULL;

	g_ptr_array_add(below, totals_to_text(list->workers));
	ctl_notes_write(list->notes, below);
	drawn = ctl_screen_draw(&(CtlScreenText){title, lines, below}, columns, n_lines);
	ctl_watch_draw(drawn);
}

static void on_key(char key, gpointer data)
{
	Top *self = data;
	guint column = atomic_load(&self->order_column);

	if (key == 'r')
		atomic_store(&self->order_reversed, !atomic_load(&self->order_reversed));
	if (key != '<' && key != '>')
		return;
	atomic_store(&self->order_column, (column + (key == '<' ? N_COLUMNS - 1 : 1)) % N_COLUMNS);
	atomic_store(&self->order_reversed, FALSE);
}

/* @list: (transfer full): a list that contains workers */
static void show_list(Top *self, List *list)
{
	List *before = self->last;

	ctl_watch_begin_print();
	self->last = list;
	ctl_watch_set_status(list->has_conflict ? CTL_FAILED : CTL_OK);
	if (self->options->json)
		ctl_output_print_object(list_to_json(list->workers, list->time_ms));
	else
		draw_last(self);
	ctl_output_flush();
	if (self->options->json)
		ctl_notes_complain(list->notes, before != NULL ? before->notes : NULL);
	list_free(before);
	ctl_watch_end_print();
}

static void wait_until_due(Top *self)
{
	gint64 now_us = g_get_monotonic_time();

	self->due_at_us =
		MAX(self->due_at_us + self->interval_ms * G_TIME_SPAN_MILLISECOND, now_us);
	g_usleep((gulong)(self->due_at_us - now_us));
}

/* Returns: (transfer full): the servers in the tree.
 * @lost: why the tree may be out of date; NULL if it is up to date */
static List *list_tree(Top *self, const GError *lost)
{
	List *list = g_new0(List, 1);
	GPtrArray *workers = ctl_worker_of_tree(self->tree, self->tree_as_of_ms);

	list->notes = ctl_notes_new();
	ctl_notes_add_tree(list->notes, self->tree);
	if (lost != NULL) {
		g_autofree char *age =
			ctl_format_span(g_get_real_time() / 1000 - self->tree_as_of_ms);

		ctl_notes_add(list->notes, "lost",
			      g_strdup_printf("%s; trying again; the list is %s old", lost->message,
					      age));
	}
	/* the servers' own reports are then newer than the tree */
	for (guint i = 0; i < workers->len; i++)
		((CtlWorker *)workers->pdata[i])->is_indirect = lost != NULL;
	ctl_worker_ask_all(workers, self->options, TRUE);
	ctl_notes_add_unreachable(list->notes, workers);
	if (workers->len == 0 && !self->options->json)
		ctl_notes_add(list->notes, NULL, g_strdup("no server is registered"));
	list_set_workers(list, self, workers);
	return list;
}

/* Connects if @store is not set, and reads the tree. On failure, returns %FALSE with an error
 * set, and drops the session. */
static gboolean read_tree(Top *self, CtlStore **store, GError **error)
{
	gint64 now_ms = g_get_real_time() / 1000;
	CtlRegistryTree *tree = NULL;

	if (*store == NULL)
		*store = ctl_store_connect(self->registry, self->options->timeout_ms, FALSE, error);
	if (*store != NULL)
		tree = ctl_registry_tree_read(*store, self->registry->root, FALSE, error);
	if (tree == NULL) {
		g_clear_pointer(store, ctl_store_free);
		return FALSE;
	}
	ctl_registry_tree_free(self->tree);
	self->tree = tree;
	self->tree_as_of_ms = now_ms;
	return TRUE;
}

/* Shows the servers in the registry. Returns only on an error. If it does not answer, asks the
 * servers of the last tree. */
static CtlStatus show_by_registry(Top *self)
{
	g_autoptr(CtlStore) store = NULL;

	for (;; wait_until_due(self)) {
		g_autoptr(GError) error = NULL;

		if (!read_tree(self, &store, &error) &&
		    (self->tree == NULL || !ctl_store_is_lost(error)))
			return ctl_output_fail_store(error);
		show_list(self, list_tree(self, error));
	}
}

/* Shows the servers that the given servers know. Returns only if no server answers the first
 * time. */
static CtlStatus show_by_servers(Top *self)
{
	g_autoptr(CtlFleet) fleet = ctl_fleet_new(self->options, TRUE);

	if (fleet == NULL)
		return CTL_USAGE;
	for (;; wait_until_due(self)) {
		List *list = g_new0(List, 1);

		list->notes = ctl_notes_new();
		list_set_workers(list, self, ctl_fleet_ask(fleet, list->notes));
		if (list->workers == NULL) {
			ctl_notes_complain(list->notes, NULL);
			list_free(list);
			return CTL_FAILED;
		}
		show_list(self, list);
	}
}

static CtlStatus run_top(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(CtlRegistry) registry = NULL;
	guint64 interval_ms = 2000;
	guint column = 0;

	if (!ctl_options_number("-i MS", interval_text, MIN_INTERVAL_MS, MAX_INTERVAL_MS,
				&interval_ms))
		return CTL_USAGE;
	while (sort_name != NULL && column < N_COLUMNS &&
	       strcmp(COLUMNS[column].name, sort_name) != 0)
		column++;
	if (column == N_COLUMNS) {
		g_autofree char *shown = text_escape(sort_name, strlen(sort_name));
		g_autofree char *all = g_strjoinv(", ", (char **)ctl_command_top_columns());

		return ctl_output_misuse("--sort: \"%s\" is not one of %s", shown, all);
	}
	if (!ctl_options_registry(options, &registry))
		return CTL_USAGE;
	if (!options->json && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
			       g_strcmp0(g_getenv("TERM"), "dumb") == 0))
		return ctl_output_misuse("top draws on a terminal; use --json for other output");

	g_auto(Top) self = {
		.options = options,
		.registry = registry,
		.interval_ms = (guint)interval_ms,
		.counts = counts_new(),
		.due_at_us = g_get_monotonic_time(),
		.order_column = column,
		.order_reversed = reverse,
	};

	ctl_watch_begin(options->json ? NULL : draw_last, on_key, &self);

	CtlStatus status = registry != NULL ? show_by_registry(&self) : show_by_servers(&self);

	ctl_watch_end();
	return status;
}

const CtlCommand ctl_top_command = {
	.name = "top",
	.summary = "Shows the activity of all servers, live.",
	.details =
		"Finds the servers in the same way as snowflakectl workers. The keys < and > "
		"select the sort column, r reverses the order, and q quits. With --json, prints "
		"one object per line instead, also without a terminal. Ends with status 1 if, in "
		"the last list, two servers of different registries have the same datacenter ID "
		"and worker ID.",
	.takes_registry = TRUE,
	.entries = entries,
	.run = run_top,
};
