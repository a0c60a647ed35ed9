/* SPDX-License-Identifier: Apache-2.0 */
#include <json-glib/json-glib.h>
#include <string.h>

#include "client/ctl-output.h"
#include "client/ctl-probe.h"
#include "client/ctl.h"

#define MAX_INTERVAL_MS 3600000

static char *count_text;
static char *interval_text;
static guint64 count = 1;
static guint64 interval_ms = 1000;

static const GOptionEntry entries[] = {
	{"count", 'c', 0, G_OPTION_ARG_STRING, &count_text, "How many times (default 1)", "N"},
	{"interval", 'i', 0, G_OPTION_ARG_STRING, &interval_text, "Pause between (default 1000)",
	 "MS"},
	G_OPTION_ENTRY_NULL,
};

typedef struct {
	char *server;
	CtlProbe probe;
} Pong;

static void pong_clear(Pong *self)
{
	g_clear_pointer(&self->server, g_free);
	ctl_probe_clear(&self->probe);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Pong, pong_clear)

/* The first of the servers that answers. A client for each, so that what is shown together was
 * said by one server. */
static gboolean ping(const GPtrArray *clients, Pong *out_pong, GError **error)
{
	g_autoptr(GString) messages = g_string_new(NULL);
	g_autoptr(GError) failure = NULL;

	for (guint i = 0; i < clients->len; i++) {
		SnowflakeClient *client = clients->pdata[i];
		g_auto(Pong) pong = {0};

		g_clear_error(&failure);
		if (ctl_probe(client, &pong.probe, &failure)) {
			pong.server = g_strdup(snowflake_client_get_server(client));
			*out_pong = pong;
			pong = (Pong){0};
			return TRUE;
		}
		g_string_append_printf(messages, "%s%s", i > 0 ? "; " : "", failure->message);
	}
	g_set_error_literal(error, failure->domain, failure->code, messages->str);
	return FALSE;
}

static void print_line(const Pong *pong)
{
	const CtlProbe *probe = &pong->probe;

	ctl_output_print("%s: datacenter %" G_GINT64_FORMAT ", worker %" G_GINT64_FORMAT
			 "%s%s, clock %+.1f ms, round trip %.3f ms\n",
			 pong->server, probe->datacenter_id, probe->worker_id,
			 probe->state != NULL ? ", " : "", probe->state != NULL ? probe->state : "",
			 (double)probe->clock_skew_us / 1000, (double)probe->round_trip_us / 1000);
}

static void print_json(CtlArray *array, const Pong *pong)
{
	const CtlProbe *probe = &pong->probe;
	g_autoptr(JsonObject) object = json_object_new();
	g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);

	json_object_set_string_member(object, "server", pong->server);
	json_object_set_int_member(object, "datacenter_id", probe->datacenter_id);
	json_object_set_int_member(object, "worker_id", probe->worker_id);
	if (probe->state != NULL)
		json_object_set_string_member(object, "state", probe->state);
	json_object_set_int_member(object, "clock_skew_us", probe->clock_skew_us);
	json_object_set_int_member(object, "round_trip_us", probe->round_trip_us);
	json_node_set_object(node, object);

	g_autofree char *element = json_to_string(node, FALSE);

	ctl_array_add(array, element);
}

/* NULL, and the message is out, if a server does not parse. */
static GPtrArray *make_clients(const CtlOptions *options)
{
	g_autoptr(GPtrArray) clients =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_free);
	g_auto(GStrv) servers = ctl_servers(options);

	for (gsize i = 0; servers[i] != NULL; i++) {
		const char *const one[] = {servers[i], NULL};
		SnowflakeClient *client = ctl_client_new(one, options);

		if (client == NULL)
			return NULL;
		g_ptr_array_add(clients, client);
	}
	return g_steal_pointer(&clients);
}

/* A server of 2010 does not say; that it answers is all there is to know. */
static gboolean is_serving(const Pong *pong)
{
	return pong->probe.state == NULL || strcmp(pong->probe.state, "serving") == 0;
}

/* %FALSE if one of the pings got no answer, and the message is out, or one from a server that is
 * not serving, and its state is. */
static gboolean ping_all(const GPtrArray *clients, CtlArray *array)
{
	gboolean all_serving = TRUE;

	for (guint64 i = 0; i < count; i++) {
		g_auto(Pong) pong = {0};
		g_autoptr(GError) error = NULL;

		if (i > 0)
			g_usleep(interval_ms * 1000);
		if (!ping(clients, &pong, &error)) {
			ctl_output_complain("%s", error->message);
			all_serving = FALSE;
			continue;
		}
		all_serving &= is_serving(&pong);
		if (array != NULL)
			print_json(array, &pong);
		else
			print_line(&pong);
		ctl_output_flush();
	}
	return all_serving;
}

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	CtlArray array = {0};

	if (!ctl_number("-c N", count_text, 1, G_MAXINT64, &count) ||
	    !ctl_number("-i MS", interval_text, 0, MAX_INTERVAL_MS, &interval_ms))
		return CTL_USAGE;

	g_autoptr(GPtrArray) clients = make_clients(options);

	if (clients == NULL)
		return CTL_USAGE;

	gboolean all_serving = ping_all(clients, options->json ? &array : NULL);

	if (options->json)
		ctl_array_end(&array);
	return all_serving ? CTL_OK : CTL_FAILED;
}

const CtlCommand ctl_ping_command = {
	.name = "ping",
	.summary = "Shows which server answers.",
	.details = "Its datacenter and worker ID, its state, how far its clock is from this "
		   "machine's,\nand how long the answer took. Exit status 1 also if its state is "
		   "not serving.",
	.entries = entries,
	.run = run,
};
