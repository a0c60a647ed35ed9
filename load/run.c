/* SPDX-License-Identifier: Apache-2.0 */
#include "load/run.h"

#include <time.h>

#include "load/driver.h"

/* Beyond the timeout: for a server to come back, or another one to be found. */
#define SILENCE_NS (10000 * LOAD_NS_PER_MS)

struct _LoadRun {
	const LoadOptions *options;
	LoadWire *wire;
	GPtrArray *servers; /* of LoadServer */
	GPtrArray *idle;    /* of LoadConnection */
	GPtrArray *drivers; /* of LoadDriver */
	LoadIdLog *id_logs; /* (nullable): as many as drivers */
	LoadTally *tally;
};

/* (transfer full) (nullable): to the server whose turn it is, or else the next; NULL with the first
 * server's error. */
static LoadConnection *open_connection(LoadRun *self, guint64 number, GError **error)
{
	guint n_servers = self->servers->len;

	for (guint i = 0; i < n_servers; i++) {
		LoadServer *server = self->servers->pdata[(number + i) % n_servers];
		LoadConnection *connection;

		if (server->error != NULL)
			continue;
		connection =
			load_connection_open(server, self->wire, self->options->timeout_ms, NULL);
		if (connection != NULL)
			return connection;
		load_tally_add_refusal(self->tally, server->error->message);
	}
	g_propagate_error(error, g_error_copy(((LoadServer *)self->servers->pdata[0])->error));
	return NULL;
}

/* (transfer full) (element-type LoadConnection): the connections from @first to before @end, of all
 * that there are; the servers have them in turn. */
static GPtrArray *open_connections(LoadRun *self, guint64 first, guint64 end, GError **error)
{
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_connection_free);

	for (guint64 i = first; i < end; i++) {
		LoadConnection *connection = open_connection(self, i, error);

		if (connection == NULL)
			return NULL;
		g_ptr_array_add(connections, connection);
	}
	return g_steal_pointer(&connections);
}

/* Of @total things that all threads share evenly: how many threads 0 to @thread - 1 have. */
static guint64 share_before(const LoadOptions *options, guint64 total, guint64 thread)
{
	return total / options->threads * thread +
	       total % options->threads * thread / options->threads;
}

static gboolean make_drivers(LoadRun *self, GError **error)
{
	const LoadOptions *options = self->options;

	for (guint64 i = 0; i < options->threads; i++) {
		GPtrArray *connections =
			open_connections(self, share_before(options, options->connections, i),
					 share_before(options, options->connections, i + 1), error);
		LoadDriver *driver = connections != NULL
					     ? load_driver_new(self->servers, connections, error)
					     : NULL;

		if (driver == NULL)
			return FALSE;
		g_ptr_array_add(self->drivers, driver);
	}
	return TRUE;
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

static void start_drivers(LoadRun *self, gint64 start_ns, const atomic_bool *stop)
{
	for (guint i = 0; i < self->drivers->len; i++) {
		LoadDriverConfig config = make_config(self->options, self->wire, start_ns, i);

		config.stop = stop;
		if (self->id_logs != NULL)
			config.id_log = &self->id_logs[i];
		load_driver_start(self->drivers->pdata[i], &config);
	}
}

/* Returns the calls answered so far. */
static guint64 tell_progress(GPtrArray *drivers, LoadRunProgress progress, guint second,
			     guint64 answered_before)
{
	guint64 answered = 0;
	guint64 errors = 0;

	for (guint i = 0; i < drivers->len; i++) {
		answered += load_driver_answered(drivers->pdata[i]);
		errors += load_driver_errors(drivers->pdata[i]);
	}
	progress(second, answered - answered_before, errors);
	return answered;
}

static void wait_for_drivers(GPtrArray *drivers, LoadRunProgress progress)
{
	struct timespec next_second;
	guint64 answered = 0;
	guint second = 0;

	clock_gettime(CLOCK_REALTIME, &next_second);
	next_second.tv_sec++;
	for (guint i = 0; i < drivers->len; i++) {
		while (!load_driver_wait(drivers->pdata[i],
					 progress != NULL ? &next_second : NULL)) {
			answered = tell_progress(drivers, progress, ++second, answered);
			next_second.tv_sec++;
		}
	}
}

static void look_at_idle(GPtrArray *idle, LoadTally *tally)
{
	for (guint i = 0; i < idle->len; i++) {
		LoadConnection *connection = idle->pdata[i];

		if (!load_connection_is_silent(connection))
			load_tally_add_errors(
				tally, LOAD_ERROR_BROKEN, 1,
				g_strdup_printf(
					"%s: closed an idle connection",
					load_server_name(load_connection_server(connection))));
	}
}

/* How long was measured. */
static double measured_s(const LoadRun *self, gint64 start_ns)
{
	const LoadOptions *options = self->options;
	gint64 stopped_ns = self->tally->stopped_ns;
	gint64 end_ns = stopped_ns > 0 ? stopped_ns : self->tally->last_heard_ns;
	double seconds = (double)(end_ns - start_ns) / 1e9;

	if (options->calls > 0)
		return seconds;
	if (stopped_ns == 0)
		return options->duration_s;
	return CLAMP(seconds - options->warmup_s, 0, options->duration_s);
}

static LoadIdLog *make_id_logs(const LoadOptions *options, GError **error)
{
	LoadIdLog *logs = load_id_log_new_all((guint)options->threads, options->check_limit);

	if (logs == NULL)
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
			    "--check-limit: no memory for %" G_GUINT64_FORMAT " IDs",
			    options->check_limit);
	return logs;
}

LoadRun *load_run_new(const LoadOptions *options, GError **error)
{
	g_autoptr(LoadRun) self = g_new0(LoadRun, 1);

	self->options = options;
	self->wire = load_wire_new(&options->form, (guint)options->in_flight);
	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)load_server_free);
	self->drivers = g_ptr_array_new_with_free_func((GDestroyNotify)load_driver_free);
	self->tally = load_tally_new();
	for (guint i = 0; i < options->servers->len; i++) {
		LoadServer *server = load_server_new(options->servers->pdata[i], options->tls);

		g_ptr_array_add(self->servers, server);
		if (server->error != NULL)
			load_tally_add_refusal(self->tally, server->error->message);
	}
	self->idle = open_connections(self, 0, options->idle_connections, error);
	if (self->idle == NULL || !make_drivers(self, error))
		return NULL;
	if (options->check && (self->id_logs = make_id_logs(options, error)) == NULL)
		return NULL;
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

LoadReport load_run_go(LoadRun *self, LoadRunProgress progress, const atomic_bool *stop)
{
	LoadReport report = {.options = self->options};
	gint64 start_ns = load_driver_now_ns();

	start_drivers(self, start_ns, stop);
	wait_for_drivers(self->drivers, progress);

	for (guint i = 0; i < self->drivers->len; i++)
		load_tally_merge(self->tally, load_driver_tally(self->drivers->pdata[i]));
	look_at_idle(self->idle, self->tally);
	if (self->id_logs != NULL)
		report.verdict = load_id_log_check_all(self->id_logs, self->drivers->len);
	report.measured_s = measured_s(self, start_ns);
	report.tally = g_steal_pointer(&self->tally);
	return report;
}
