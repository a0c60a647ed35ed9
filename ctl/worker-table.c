/* SPDX-License-Identifier: Apache-2.0 */

/* How workers are shown. */

#include "ctl/format.h"
#include "ctl/worker.h"

typedef struct {
	const char *head;
	char *(*cell)(const CtlWorker *worker, gint64 now_ms);
} Column;

static char *datacenter(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return ctl_worker_is_relay(worker) ? g_strdup("-")
					   : g_strdup_printf("%u", worker->datacenter_id);
}

static char *worker_id(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->worker_id >= 0 ? g_strdup_printf("%d", worker->worker_id) : g_strdup("-");
}

static char *address(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return ctl_worker_place(worker);
}

static char *state(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return ctl_format_text(worker->state);
}

static char *claimed_at(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return ctl_format_time(worker->claimed_at_ms);
}

/* What is reserved is so by the clock of a server, not by ours. */
static gint64 now_there(const CtlWorker *worker, gint64 now_ms)
{
	return now_ms + worker->ahead_ms;
}

static char *reserved_until(const CtlWorker *worker, gint64 now_ms)
{
	return ctl_format_until(worker->reserved_until_ms, now_there(worker, now_ms));
}

static char *reserved(const CtlWorker *worker, gint64 now_ms)
{
	return ctl_format_until_short(worker->reserved_until_ms, now_there(worker, now_ms));
}

static char *round_trip(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_answered
		       ? g_strdup_printf("%.3f ms", (double)worker->round_trip_us / 1000)
		       : g_strdup("-");
}

static char *clock_skew(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	return worker->has_answered
		       ? g_strdup_printf("%+.1f ms", (double)worker->clock_skew_us / 1000)
		       : g_strdup("-");
}

static gboolean is_old(const CtlWorker *worker)
{
	return !worker->has_answered && ctl_worker_is_old(worker->age_ms);
}

static char *seen(const CtlWorker *worker, G_GNUC_UNUSED gint64 now_ms)
{
	g_autofree char *age = ctl_format_span(worker->age_ms);

	return is_old(worker) ? g_strdup_printf("%s ago", age) : g_strdup("now");
}

static const Column FULL[] = {
	{">datacenter", datacenter},
	{">worker", worker_id},
	{"address", address},
	{"state", state},
	{"claimed at", claimed_at},
	{"reserved until", reserved_until},
	{">round trip", round_trip},
	{">clock", clock_skew},
	{">seen", seen},
};

static const Column BRIEF[] = {
	{">dc", datacenter},    {">worker", worker_id}, {"address", address}, {"state", state},
	{"reserved", reserved}, {">clock", clock_skew}, {">seen", seen},
};

static void add_cell(CtlTable *table, const Column *column, const CtlWorker *worker, gint64 now_ms)
{
	ctl_table_add_painted(table, column->cell(worker, now_ms),
			      column->cell == state ? ctl_colour_of_state(worker->state)
						    : CTL_COLOUR_NONE);
}

static CtlTable *make_table(const GPtrArray *workers, const Column *columns, guint n_columns,
			    gint64 now_ms)
{
	g_autofree const char **heads = g_new0(const char *, n_columns + 1);
	CtlTable *table;

	for (guint i = 0; i < n_columns; i++)
		heads[i] = columns[i].head;
	table = ctl_table_new(heads);
	for (guint i = 0; i < workers->len; i++) {
		for (guint j = 0; j < n_columns; j++)
			add_cell(table, &columns[j], workers->pdata[i], now_ms);
	}
	return table;
}

/* The last column is shown if there is anything to tell in it. */
void ctl_worker_make_tables(const GPtrArray *workers, gint64 now_ms, CtlTable **out_full,
			    CtlTable **out_brief)
{
	guint left_out = 1;

	for (guint i = 0; i < workers->len; i++) {
		if (is_old(workers->pdata[i]))
			left_out = 0;
	}
	*out_full = make_table(workers, FULL, G_N_ELEMENTS(FULL) - left_out, now_ms);
	*out_brief = make_table(workers, BRIEF, G_N_ELEMENTS(BRIEF) - left_out, now_ms);
}

static void set_measured(JsonObject *object, const char *name, const CtlWorker *worker,
			 gint64 value)
{
	if (worker->has_answered)
		json_object_set_int_member(object, name, value);
	else
		json_object_set_null_member(object, name);
}

JsonObject *ctl_worker_to_json(const CtlWorker *self)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "datacenter_id", self->datacenter_id);
	json_object_set_int_member(object, "worker_id", self->worker_id);
	ctl_format_json_text(object, "address", self->address);
	ctl_format_json_text(object, "state", self->state);
	ctl_format_json_time(object, "claimed_at", self->claimed_at_ms);
	ctl_format_json_time(object, "reserved_until", self->reserved_until_ms);
	ctl_format_json_text(object, "nonce", self->nonce);
	ctl_format_json_text(object, "kind", self->kind);
	ctl_format_json_text(object, "program", self->program);
	ctl_format_json_text(object, "relay_of", self->relay_of);
	ctl_format_json_time(object, "as_of", self->as_of_ms);
	json_object_set_boolean_member(object, "hearsay", self->is_hearsay);
	set_measured(object, "round_trip_us", self, self->round_trip_us);
	set_measured(object, "clock_skew_us", self, self->clock_skew_us);
	return object;
}
