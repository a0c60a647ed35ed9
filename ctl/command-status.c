/* SPDX-License-Identifier: Apache-2.0 */

/* "status": shows everything that a server reports. */

#include <string.h>

#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/screen.h"
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

/* The group and the unit of each counter. The first pattern that matches the counter's name is
 * used. */
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

/* A line. A number has a unit, which can be "", and is right-aligned. */
typedef struct {
	Group group;
	char *name;
	char *value;
	const char *unit; /* NULL for text */
	CtlColour colour;
} Row;

static void row_free(Row *self)
{
	g_free(self->name);
	g_free(self->value);
	g_free(self);
}

/* @value: (transfer full) */
static Row *add_row(GPtrArray *rows, Group group, const char *name, char *value, const char *unit)
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

/* (transfer full) (nullable): why the server issues no IDs, as a client would be told */
static char *find_reason(SnowflakeClient *client, const CtlProbe *probe)
{
	g_autoptr(GError) error = NULL;
	gint64 worker_id;

	if (probe->worker == NULL || g_strcmp0(probe->worker->state, "serving") == 0 ||
	    snowflake_client_get_worker_id(client, &worker_id, &error) ||
	    !g_error_matches(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE))
		return NULL;
	return g_strdup(error->message);
}

/* @why: (nullable): as returned by find_reason() */
static void add_worker(GPtrArray *rows, const CtlWorker *worker, const char *why, gint64 now_ms)
{
	Row *state =
		add_row(rows, GROUP_SERVER, "state", ctl_format_text(worker->said.state), NULL);
	gboolean is_relay = ctl_worker_is_relay(worker);
	gboolean is_reserved = worker->said.reserved_until_ms > 0;

	state->colour = ctl_colour_of_state(worker->said.state);
	if (why != NULL)
		add_row(rows, GROUP_SERVER, "why", ctl_format_path(why), NULL);
	add_row(rows, GROUP_SERVER, "address", ctl_format_path(worker->said.address), NULL);
	add_row(rows, GROUP_SERVER, "kind", ctl_format_text(worker->said.kind), NULL);
	if (is_relay)
		add_row(rows, GROUP_SERVER, "relay_of", ctl_format_path(worker->said.server), NULL);
	add_row(rows, GROUP_SERVER, "nonce", ctl_format_text(worker->said.nonce), NULL);
	add_row(rows, GROUP_SERVER, "round_trip", milliseconds(worker->round_trip_us, ""), "ms");
	add_row(rows, GROUP_SERVER, "clock", milliseconds(worker->clock_skew_us, "+"), "ms");
	if (is_relay)
		return;
	add_row(rows, GROUP_WORKER_ID, "datacenter_id", number(worker->said.datacenter_id), "");
	add_row(rows, GROUP_WORKER_ID, "worker_id",
		worker->said.worker_id >= 0 ? number(worker->said.worker_id) : g_strdup("-"), "");
	add_row(rows, GROUP_WORKER_ID, "claimed_at", ctl_format_time(worker->said.claimed_at_ms),
		NULL);
	add_row(rows, GROUP_WORKER_ID, "reserved_until",
		ctl_format_time(worker->said.reserved_until_ms), NULL);
	add_row(rows, GROUP_WORKER_ID, "reservation_left",
		is_reserved ? number(ctl_worker_left_ms(worker, now_ms)) : g_strdup("-"),
		is_reserved ? "ms" : "");
}

static void add_counter(GPtrArray *rows, const CtlWorker *worker,
			const SnowflakeClientCounter *counter)
{
	guint i = 0;

	/* get_worker also reports these two values; only a relay's differ, because they belong to
	 * its last ID */
	if (!ctl_worker_is_relay(worker) && (strcmp(counter->name, "datacenter_id") == 0 ||
					     strcmp(counter->name, "worker_id") == 0))
		return;
	while (!g_pattern_match_simple(KINDS[i].pattern, counter->name))
		i++;
	add_row(rows, KINDS[i].group, counter->name, number(counter->value), KINDS[i].unit);
}

/* Prints the heading and the rows of a group, in columns of these widths. @before: text before the
 * heading */
static void print_group(const GPtrArray *rows, Group group, const char *before, int name_width,
			int number_width)
{
	g_autofree char *head = ctl_colour_paint(HEADS[group], CTL_COLOUR_HEAD);

	ctl_output_print("%s%s\n", before, head);
	for (guint i = 0; i < rows->len; i++) {
		const Row *row = rows->pdata[i];
		g_autofree char *painted = ctl_colour_paint(row->value, row->colour);

		if (row->group != group)
			continue;
		ctl_output_print("  %-*s  ", name_width, row->name);
		if (row->unit == NULL)
			ctl_output_print("%s\n", painted);
		else
			ctl_output_print("%*s%s%s\n", number_width, row->value,
					 row->unit[0] != '\0' ? " " : "", row->unit);
	}
}

/* Prints lines in groups, each with a name, a value and a unit. Unknown counters are in the last
 * group. */
static void print_status(const CtlProbe *probe, const char *why, gint64 now_ms)
{
	g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)row_free);
	g_autoptr(CtlWorker) worker = ctl_worker_of_probe(probe);
	gboolean is_used[N_GROUPS] = {FALSE};
	int name_width = 0, number_width = 0;

	add_worker(rows, worker, why, now_ms);
	for (guint i = 0; probe->counters != NULL && i < probe->counters->len; i++)
		add_counter(rows, worker, probe->counters->pdata[i]);
	for (guint i = 0; i < rows->len; i++) {
		const Row *row = rows->pdata[i];

		is_used[row->group] = TRUE;
		name_width = MAX(name_width, (int)strlen(row->name));
		if (row->unit != NULL)
			number_width = MAX(number_width, (int)strlen(row->value));
	}
	for (Group group = 0; group < N_GROUPS; group++)
		if (is_used[group])
			print_group(rows, group, group != GROUP_SERVER ? "\n" : "", name_width,
				    number_width);
}

static JsonObject *status_to_json(const char *server, const CtlProbe *probe, const char *why,
				  gint64 now_ms)
{
	g_autoptr(CtlWorker) worker = ctl_worker_of_probe(probe);
	JsonObject *object = ctl_worker_to_json(worker);
	JsonObject *counters;

	json_object_set_string_member(object, "server", server);
	ctl_format_json_text(object, "why", why);
	ctl_format_json_number(object, "reservation_left_ms", worker->said.reserved_until_ms > 0,
			       ctl_worker_left_ms(worker, now_ms));
	if (probe->counters == NULL) {
		json_object_set_null_member(object, "counters");
		return object;
	}
	counters = json_object_new();
	for (guint i = 0; i < probe->counters->len; i++) {
		const SnowflakeClientCounter *counter = probe->counters->pdata[i];

		json_object_set_int_member(counters, counter->name, counter->value);
	}
	json_object_set_object_member(object, "counters", counters);
	return object;
}

static CtlStatus run_status(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(GPtrArray) servers = ctl_options_addresses(options);

	for (guint i = 0; servers != NULL && i < servers->len; i++) {
		const Address *server = servers->pdata[i];
		g_auto(CtlProbe) probe = {0};
		/* use one client per server, so that all answers come from this server */
		g_autoptr(SnowflakeClient) client = ctl_options_client_new(options, &server, 1);
		g_autoptr(GError) error = NULL;

		if (ctl_probe(options, client, TRUE, TRUE, &probe, &error)) {
			gint64 now_ms = g_get_real_time() / 1000;
			g_autofree char *why = find_reason(client, &probe);

			if (options->json)
				ctl_output_print_object(
					status_to_json(server->text, &probe, why, now_ms));
			else
				print_status(&probe, why, now_ms);
			ctl_output_flush();
			if (probe.counters == NULL)
				ctl_output_complain(
					"%s: an older server, which does not report its counters",
					server->text);
			return CTL_OK;
		}
		ctl_output_complain_of(error, 0);
	}
	return servers != NULL ? CTL_FAILED : CTL_USAGE;
}

const CtlCommand ctl_status_command = {
	.name = "status",
	.summary = "Shows the state and the counters of one server.",
	.details = "Prints identity, reservation, clock and the counters since the start: see "
		   "COUNTERS in snowflaked(8). Uses the first --server that replies, and reports "
		   "the others on standard error.",
	.run = run_status,
};
