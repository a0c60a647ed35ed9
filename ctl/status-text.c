/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/status-text.h"

#include <string.h>

#include "ctl/colour.h"
#include "ctl/format.h"
#include "ctl/worker.h"

typedef enum {
	GROUP_SERVER,
	GROUP_WORKER_ID,
	GROUP_IDS,
	GROUP_AGENTS,
	GROUP_CALLS,
	GROUP_CONNECTIONS,
	GROUP_AUDIT,
	GROUP_OTHERS,
	N_GROUPS
} Group;

static const char *const HEADS[N_GROUPS] = {
	[GROUP_SERVER] = "Server",   [GROUP_WORKER_ID] = "Worker ID",
	[GROUP_IDS] = "IDs",         [GROUP_AGENTS] = "IDs by agent",
	[GROUP_CALLS] = "Calls",     [GROUP_CONNECTIONS] = "Connections",
	[GROUP_AUDIT] = "Audit log", [GROUP_OTHERS] = "Others",
};

/* Where a counter stands, and what it counts: by the first of these that is like its name, so that
 * one that is new stands beside its kin. */
static const struct {
	const char *pattern;
	Group group;
	const char *unit;
} KINDS[] = {
	{"ids_generated", GROUP_IDS, "IDs"},
	{"ids_generated_*", GROUP_AGENTS, "IDs"},
	{"ulids_generated", GROUP_IDS, "ULIDs"},
	{"datacenter_id", GROUP_IDS, ""},
	{"worker_id", GROUP_IDS, ""},
	{"scribe_enqueue_failures", GROUP_AUDIT, "IDs"},
	{"reporter_flush_queue", GROUP_AUDIT, "IDs"},
	{"closed_*", GROUP_CONNECTIONS, "connections"},
	{"bad_bytes_*", GROUP_CONNECTIONS, "connections"},
	{"connections_*", GROUP_CONNECTIONS, "connections"},
	{"handshakes", GROUP_CONNECTIONS, "connections"},
	{"bytes_*", GROUP_CONNECTIONS, "bytes"},
	{"calls", GROUP_CALLS, "calls"},
	{"answered_*", GROUP_CALLS, "calls"},
	{"exceptions", GROUP_CALLS, "calls"},
	{"clock_skew", GROUP_CALLS, "calls"},
	{"refused_*", GROUP_CALLS, "calls"},
	{"waits", GROUP_CALLS, "calls"},
	{"*", GROUP_OTHERS, ""},
};

/* A line. A number has a unit, "" too, and stands on the right. */
typedef struct {
	Group group;
	char *name;
	char *value;
	const char *unit; /* NULL: text */
	CtlColour colour;
} Row;

static void row_free(Row *self)
{
	g_free(self->name);
	g_free(self->value);
	g_free(self);
}

/* @value: (transfer full) */
static Row *add(GPtrArray *rows, Group group, const char *name, char *value, const char *unit)
{
	Row *row = g_new(Row, 1);

	*row = (Row){group, g_strdup(name), value, unit, CTL_COLOUR_NONE};
	g_ptr_array_add(rows, row);
	return row;
}

static char *number(gint64 value)
{
	return g_strdup_printf("%" G_GINT64_FORMAT, value);
}

static char *milliseconds(gint64 us, const char *sign)
{
	return g_strdup_printf("%s%.3f", us < 0 ? "" : sign, (double)us / 1000);
}

static void add_reservation(GPtrArray *rows, const CtlWorker *worker, gint64 now_ms)
{
	gint64 left_ms = ctl_worker_left_ms(worker, now_ms);
	gboolean is_reserved = worker->reserved_until_ms > 0;

	add(rows, GROUP_WORKER_ID, "datacenter_id", number(worker->datacenter_id), "");
	add(rows, GROUP_WORKER_ID, "worker_id",
	    worker->worker_id >= 0 ? number(worker->worker_id) : g_strdup("-"), "");
	add(rows, GROUP_WORKER_ID, "claimed_at", ctl_format_time(worker->claimed_at_ms), NULL);
	add(rows, GROUP_WORKER_ID, "reserved_until", ctl_format_time(worker->reserved_until_ms),
	    NULL);
	add(rows, GROUP_WORKER_ID, "reservation_left",
	    is_reserved ? number(left_ms) : g_strdup("-"), is_reserved ? "ms" : "");
}

static void add_worker(GPtrArray *rows, const CtlWorker *worker, gint64 now_ms)
{
	Row *state = add(rows, GROUP_SERVER, "state", ctl_format_text(worker->state), NULL);
	gboolean is_relay = ctl_worker_is_relay(worker);

	state->colour = ctl_colour_of_state(worker->state);
	add(rows, GROUP_SERVER, "address", ctl_format_address(worker->address), NULL);
	add(rows, GROUP_SERVER, "kind", ctl_format_text(worker->kind), NULL);
	if (is_relay)
		add(rows, GROUP_SERVER, "relay_of", ctl_format_address(worker->relay_of), NULL);
	add(rows, GROUP_SERVER, "nonce", ctl_format_text(worker->nonce), NULL);
	add(rows, GROUP_SERVER, "round_trip", milliseconds(worker->round_trip_us, ""), "ms");
	add(rows, GROUP_SERVER, "clock_skew", milliseconds(worker->clock_skew_us, "+"), "ms");
	if (!is_relay)
		add_reservation(rows, worker, now_ms);
}

/* get_worker has told these; those of a relay are of its last ID. */
static gboolean is_known_otherwise(const CtlWorker *worker, const char *name)
{
	return !ctl_worker_is_relay(worker) &&
	       (strcmp(name, "datacenter_id") == 0 || strcmp(name, "worker_id") == 0);
}

static void add_counter(GPtrArray *rows, const CtlWorker *worker,
			const SnowflakeClientCounter *counter)
{
	guint i = 0;

	if (is_known_otherwise(worker, counter->name))
		return;
	while (!g_pattern_match_simple(KINDS[i].pattern, counter->name))
		i++;
	add(rows, KINDS[i].group, counter->name, number(counter->value), KINDS[i].unit);
}

typedef struct {
	int name;
	int number;
} Widths;

static Widths widths_of(const GPtrArray *rows)
{
	Widths widths = {0};

	for (guint i = 0; i < rows->len; i++) {
		const Row *row = rows->pdata[i];

		widths.name = MAX(widths.name, (int)strlen(row->name));
		if (row->unit != NULL)
			widths.number = MAX(widths.number, (int)strlen(row->value));
	}
	return widths;
}

static void write_row(GString *text, const Row *row, const Widths *widths)
{
	g_autofree char *painted = ctl_colour_paint(row->value, row->colour);

	g_string_append_printf(text, "  %-*s  ", widths->name, row->name);
	if (row->unit == NULL)
		g_string_append(text, painted);
	else
		g_string_append_printf(text, "%*s%s%s", widths->number, row->value,
				       row->unit[0] != '\0' ? " " : "", row->unit);
	g_string_append_c(text, '\n');
}

static void write_group(GString *text, const GPtrArray *rows, Group group, const Widths *widths)
{
	gboolean is_first = TRUE;

	for (guint i = 0; i < rows->len; i++) {
		const Row *row = rows->pdata[i];

		if (row->group != group)
			continue;
		if (is_first) {
			g_autofree char *head = ctl_colour_paint(HEADS[group], CTL_COLOUR_HEAD);

			g_string_append_printf(text, "%s%s\n", text->len > 0 ? "\n" : "", head);
		}
		write_row(text, row, widths);
		is_first = FALSE;
	}
}

char *ctl_status_text(const CtlProbe *probe, gint64 now_ms)
{
	g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)row_free);
	CtlWorker *worker = ctl_worker_of_probe(probe);
	GString *text = g_string_new(NULL);
	Widths widths;

	add_worker(rows, worker, now_ms);
	for (guint i = 0; probe->counters != NULL && i < probe->counters->len; i++)
		add_counter(rows, worker, probe->counters->pdata[i]);
	widths = widths_of(rows);
	for (Group group = 0; group < N_GROUPS; group++)
		write_group(text, rows, group, &widths);
	ctl_worker_free(worker);
	return g_string_free(text, FALSE);
}

static JsonObject *counters_to_json(const GPtrArray *counters)
{
	JsonObject *object = json_object_new();

	for (guint i = 0; i < counters->len; i++) {
		const SnowflakeClientCounter *counter = counters->pdata[i];

		json_object_set_int_member(object, counter->name, counter->value);
	}
	return object;
}

JsonObject *ctl_status_text_to_json(const char *server, const CtlProbe *probe, gint64 now_ms)
{
	CtlWorker *worker = ctl_worker_of_probe(probe);
	JsonObject *object = ctl_worker_to_json(worker);

	json_object_set_string_member(object, "server", server);
	if (worker->reserved_until_ms > 0)
		json_object_set_int_member(object, "reservation_left_ms",
					   ctl_worker_left_ms(worker, now_ms));
	else
		json_object_set_null_member(object, "reservation_left_ms");
	if (probe->counters != NULL)
		json_object_set_object_member(object, "counters",
					      counters_to_json(probe->counters));
	else
		json_object_set_null_member(object, "counters");
	ctl_worker_free(worker);
	return object;
}
