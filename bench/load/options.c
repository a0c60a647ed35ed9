/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/options.h"

/* 512 MiB with what the check itself needs. */
#define DEFAULT_CHECK_LIMIT (32 * 1024 * 1024)

#define DEFAULT_SERVER "127.0.0.1"

static gboolean check_range(const char *option, double value, double min, double max,
			    GError **error)
{
	if (value >= min && value <= max)
		return TRUE;
	g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
		    "--%s is %g, must be %g to %.0f", option, value, min, max);
	return FALSE;
}

static gboolean check_ranges(const Options *self, GError **error)
{
	return check_range("count", self->count, 1, 1000000, error) &&
	       check_range("connections", self->connections, 1, 100000, error) &&
	       check_range("in-flight", self->in_flight, 1, 65536, error) &&
	       check_range("threads", self->threads, 1, self->connections, error) &&
	       check_range("duration", self->duration_s, 0.01, 86400, error) &&
	       check_range("warmup", self->warmup_s, 0, 3600, error) &&
	       check_range("check-limit", self->check_limit, 1, G_MAXINT, error);
}

static gboolean parse_call(const char *name, WireCall *out_call, GError **error)
{
	static const WireCall calls[] = {WIRE_GET_ID, WIRE_GET_IDS};

	for (gsize i = 0; i < G_N_ELEMENTS(calls); i++) {
		if (g_str_equal(name, wire_call_name(calls[i]))) {
			*out_call = calls[i];
			return TRUE;
		}
	}
	g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
		    "--call is \"%s\", must be get_id or get_ids", name);
	return FALSE;
}

static gboolean parse_arguments(Options *self, int *argc, char ***argv, char **out_server,
				char **out_call, GError **error)
{
	const GOptionEntry entries[] = {
		{"server", 's', 0, G_OPTION_ARG_STRING, out_server, "The server (127.0.0.1:7609)",
		 "HOST:PORT"},
		{"connections", 'c', 0, G_OPTION_ARG_INT, &self->connections,
		 "Connections, among all threads (16)", "N"},
		{"in-flight", 'f', 0, G_OPTION_ARG_INT, &self->in_flight,
		 "Calls in flight on each connection (1)", "N"},
		{"threads", 't', 0, G_OPTION_ARG_INT, &self->threads, "Threads (1)", "N"},
		{"duration", 'd', 0, G_OPTION_ARG_DOUBLE, &self->duration_s,
		 "How long to measure (5)", "SECONDS"},
		{"warmup", 'w', 0, G_OPTION_ARG_DOUBLE, &self->warmup_s,
		 "How long to load the server before that (1)", "SECONDS"},
		{"call", 0, 0, G_OPTION_ARG_STRING, out_call, "get_id (the default) or get_ids",
		 "NAME"},
		{"count", 'n', 0, G_OPTION_ARG_INT, &self->count,
		 "IDs in each call of get_ids (100)", "N"},
		{"agent", 0, 0, G_OPTION_ARG_STRING, &self->agent, "The useragent (load)", "AGENT"},
		{"check", 0, 0, G_OPTION_ARG_NONE, &self->check,
		 "Check that no ID comes twice and that those of each connection increase", NULL},
		{"check-limit", 0, 0, G_OPTION_ARG_INT, &self->check_limit,
		 "Look for duplicates among the first N IDs; 16 bytes of memory each (33554432)",
		 "N"},
		{"json", 0, 0, G_OPTION_ARG_NONE, &self->json, "Report as JSON", NULL},
		G_OPTION_ENTRY_NULL,
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);

	g_option_context_set_summary(context,
				     "Loads a Snowflake server with calls, framed strict binary, "
				     "and reports how fast and how soon they were answered.");
	g_option_context_set_description(
		context, "Exit status: 0, or 1 if a call failed or an ID was wrong, or 2 if the "
			 "command line was wrong.\n");
	g_option_context_add_main_entries(context, entries, NULL);
	return g_option_context_parse(context, argc, argv, error);
}

Options *options_parse(int *argc, char ***argv, GError **error)
{
	g_autoptr(Options) self = g_new(Options, 1);
	g_autofree char *server = NULL;
	g_autofree char *call = NULL;

	*self = (Options){
		.call = WIRE_GET_ID,
		.count = 100,
		.connections = 16,
		.in_flight = 1,
		.threads = 1,
		.duration_s = 5,
		.warmup_s = 1,
		.check_limit = DEFAULT_CHECK_LIMIT,
	};
	if (!parse_arguments(self, argc, argv, &server, &call, error))
		return NULL;
	if (*argc > 1) {
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
			    "unexpected argument \"%s\"", (*argv)[1]);
		return NULL;
	}
	if ((call && !parse_call(call, &self->call, error)) || !check_ranges(self, error))
		return NULL;
	self->server = address_parse_peer(server ? server : DEFAULT_SERVER, error);
	if (!self->server)
		return NULL;
	/* only now: what stands there before parsing is not freed */
	if (!self->agent)
		self->agent = g_strdup("load");
	return g_steal_pointer(&self);
}

void options_free(Options *self)
{
	if (!self)
		return;
	address_free(self->server);
	g_free(self->agent);
	g_free(self);
}
