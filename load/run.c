/* SPDX-License-Identifier: Apache-2.0 */
#include "load/run.h"

#include "load/driver.h"

/* Added to the timeout, so that there is time for a server to come back, or for another one to be
 * tried. */
#define SILENCE_NS (10000 * LOAD_NS_PER_MS)

#define CHECK_LIMIT (32 * 1024 * 1024) /* maximum number of IDs that are checked for duplicates */

struct _LoadRun {
	const LoadOptions *options;
	LoadWire *wire;
	GPtrArray *servers; /* (element-type LoadServer) */
	GPtrArray *idle;    /* (element-type LoadConnection) */
	GPtrArray *drivers; /* (element-type LoadDriver) */
	LoadIdLog *id_logs; /* (nullable): array with one element for each driver */
	LoadTally *tally;
};

/* Opens the connections with the numbers @first to @end - 1, to the servers in turn. Skips servers
 * that are down. Returns: (transfer full) (element-type LoadConnection): the connections, or %NULL
 * with the first server's error set if all servers are down. */
static GPtrArray *open_connections(LoadRun *self, guint64 first, guint64 end, GError **error)
{
	guint n_servers = self->servers->len;
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_connection_free);

	for (guint64 number = first; number < end; number++) {
		LoadConnection *connection = NULL;

		for (guint i = 0; i < n_servers && connection == NULL; i++) {
			LoadServer *server = self->servers->pdata[(number + i) % n_servers];

			if (server->error != NULL)
				continue;
			connection =
				load_connection_open(server, self->wire, self->options->timeout_ms);
			if (connection == NULL)
				load_tally_add_refusal(self->tally, server->error->message);
		}
		if (connection == NULL) {
			LoadServer *server = self->servers->pdata[0];

			g_propagate_error(error, g_error_copy(server->error));
			return NULL;
		}
		g_ptr_array_add(connections, connection);
	}
	return g_steal_pointer(&connections);
}

/* Distributes @total things evenly over all threads, and returns how many belong to the threads
 * before .
 * @thread */
static guint64 share_before(const LoadOptions *options, guint64 total, guint64 thread)
{
	return total / options->threads * thread +
	       total % options->threads * thread / options->threads;
}

static LoadDriverConfig make_config(const LoadOptions *options, const LoadWire *wire,
				    gint64 start_ns, guint64 thread)
{
	guint64 first = share_before(options, options->connections, thread);
	guint64 end = share_before(options, options->connections, thread + 1);
	LoadDriverConfig config = {
		.wire = wire,
		.measure_from_ns = start_ns,
		.measure_until_ns = G_MAXINT64,
		.calls = G_MAXUINT64,
		.timeout_ns = (gint64)options->timeout_ms * LOAD_NS_PER_MS,
		.silence_ns = (gint64)options->timeout_ms * LOAD_NS_PER_MS + SILENCE_NS,
	};

	if (options->calls > 0) {
		config.calls = share_before(options, options->calls, thread + 1) -
			       share_before(options, options->calls, thread);
		return config;
	}
	config.measure_from_ns += (gint64)(options->warmup_s * 1e9);
	config.measure_until_ns = config.measure_from_ns + (gint64)(options->duration_s * 1e9);
	if (options->rate > 0)
		config.schedule = load_schedule_make(start_ns, options->rate, options->connections,
						     first, end - first);
	return config;
}

/* Returns the length of the measurement, in seconds. */
static double measured_s(const LoadRun *self, gint64 start_ns)
{
	const LoadOptions *options = self->options;
	gint64 stopped_ns = self->tally->stopped_ns;
	gint64 end_ns = stopped_ns > 0 ? stopped_ns : self->tally->received_at_ns;
	double seconds = (double)(end_ns - start_ns) / 1e9;

	if (options->calls > 0)
		return seconds;
	if (stopped_ns == 0)
		return options->duration_s;
	return CLAMP(seconds - options->warmup_s, 0, options->duration_s);
}

LoadRun *load_run_new(const LoadOptions *options, GError **error)
{
	g_autoptr(LoadRun) self = g_new0(LoadRun, 1);

	self->options = options;
	self->wire = load_wire_new(&options->form, (guint)options->in_flight);
	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)load_server_free);
	self->drivers = g_ptr_array_new_with_free_func((GDestroyNotify)load_driver_free);
	self->tally = g_new0(LoadTally, 1);
	for (guint i = 0; i < options->servers->len; i++) {
		LoadServer *server = load_server_new(options->servers->pdata[i], options->tls);

		g_ptr_array_add(self->servers, server);
		if (server->error != NULL)
			load_tally_add_refusal(self->tally, server->error->message);
	}
	self->idle = open_connections(self, 0, options->idle_connections, error);
	if (self->idle == NULL)
		return NULL;
	for (guint64 i = 0; i < options->threads; i++) {
		GPtrArray *connections =
			open_connections(self, share_before(options, options->connections, i),
					 share_before(options, options->connections, i + 1), error);
		LoadDriver *driver = connections != NULL
					     ? load_driver_new(self->servers, connections, error)
					     : NULL;

		if (driver == NULL)
			return NULL;
		g_ptr_array_add(self->drivers, driver);
	}
	if (options->check)
		self->id_logs = load_id_log_new_all((guint)options->threads, CHECK_LIMIT);
	if (options->check && self->id_logs == NULL) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NO_SPACE, "--check: no memory for %d IDs",
			    CHECK_LIMIT);
		return NULL;
	}
	return g_steal_pointer(&self);
}

void load_run_free(LoadRun *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->idle, g_ptr_array_unref);
	g_ptr_array_unref(self->drivers);
	g_ptr_array_unref(self->servers);
	load_id_log_free_all(self->id_logs);
	load_wire_free(self->wire);
	load_tally_free(self->tally);
	g_free(self);
}

LoadReport load_run_go(LoadRun *self, const atomic_bool *stop)
{
	LoadReport report = {.options = self->options};
	gint64 start_ns = load_driver_now_ns();

	for (guint i = 0; i < self->drivers->len; i++) {
		LoadDriverConfig config = make_config(self->options, self->wire, start_ns, i);

		config.stop = stop;
		if (self->id_logs != NULL)
			config.id_log = &self->id_logs[i];
		load_driver_start(self->drivers->pdata[i], &config);
	}
	for (guint i = 0; i < self->drivers->len; i++) {
		load_driver_wait(self->drivers->pdata[i]);
		load_tally_merge(self->tally, load_driver_tally(self->drivers->pdata[i]));
	}
	for (guint i = 0; i < self->idle->len; i++) {
		LoadConnection *connection = self->idle->pdata[i];

		if (client_connection_is_stale(connection->link))
			load_tally_add_errors(self->tally, LOAD_ERROR_BROKEN, 1,
					      g_strdup_printf("%s: closed an idle connection",
							      connection->server->address->text));
	}
	if (self->id_logs != NULL)
		report.verdict = load_id_log_check_all(self->id_logs, self->drivers->len);
	report.measured_s = measured_s(self, start_ns);
	report.tally = g_steal_pointer(&self->tally);
	return report;
}
