/* SPDX-License-Identifier: Apache-2.0 */
#include "client/load/run.h"

#include <sys/resource.h>
#include <time.h>

#include "client/load/driver.h"

/* For what is open besides the connections. */
#define SPARE_FDS 64

static void raise_fd_limit(rlim_t wanted)
{
	struct rlimit limit;

	/* If this is not enough, connecting says so. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
		limit.rlim_cur = MIN(wanted, limit.rlim_max);
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* (transfer full) (element-type LoadConnection): the connections from @first to before @end, of all
 * that there are; the servers have them in turn. */
static GPtrArray *open_connections(const LoadOptions *options, const LoadWire *wire, guint64 first,
				   guint64 end, GError **error)
{
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_connection_free);

	for (guint64 i = first; i < end; i++) {
		const Address *server = options->servers->pdata[i % options->servers->len];
		LoadConnection *connection =
			load_connection_new(server, wire, options->timeout_ms, error);

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

/* (transfer full) (element-type LoadDriver) */
static GPtrArray *make_drivers(const LoadOptions *options, const LoadWire *wire, GError **error)
{
	g_autoptr(GPtrArray) drivers =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_driver_free);

	for (guint64 i = 0; i < options->threads; i++) {
		GPtrArray *connections = open_connections(
			options, wire, share_before(options, options->connections, i),
			share_before(options, options->connections, i + 1), error);
		LoadDriver *driver =
			connections != NULL ? load_driver_new(connections, error) : NULL;

		if (driver == NULL)
			return NULL;
		g_ptr_array_add(drivers, driver);
	}
	return g_steal_pointer(&drivers);
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
		.timeout_ns = (gint64)options->timeout_ms * 1000000,
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

static void start_drivers(GPtrArray *drivers, const LoadOptions *options, const LoadWire *wire,
			  gint64 start_ns, LoadIdLog *id_logs)
{
	for (guint i = 0; i < drivers->len; i++) {
		LoadDriverConfig config = make_config(options, wire, start_ns, i);

		if (id_logs != NULL)
			config.id_log = &id_logs[i];
		load_driver_start(drivers->pdata[i], &config);
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
			load_tally_add_errors(tally, 1,
					      g_strdup_printf("%s: closed an idle connection",
							      load_connection_server(connection)));
	}
}

static LoadReport make_report(const LoadOptions *options, GPtrArray *drivers, gint64 start_ns)
{
	LoadReport report = {
		.options = options, .tally = load_tally_new(), .measured_s = options->duration_s};

	for (guint i = 0; i < drivers->len; i++)
		load_tally_merge(report.tally, load_driver_tally(drivers->pdata[i]));
	if (options->calls > 0)
		report.measured_s = (double)(report.tally->last_heard_ns - start_ns) / 1e9;
	return report;
}

gboolean run_load(const LoadOptions *options, LoadRunProgress progress, LoadReport *out_report,
		  GError **error)
{
	g_autoptr(LoadWire) wire = load_wire_new(&options->form, (guint)options->in_flight);
	g_autoptr(GPtrArray) idle = NULL;
	g_autoptr(GPtrArray) drivers = NULL;
	LoadIdLog *id_logs = NULL;
	gint64 start_ns;

	raise_fd_limit(options->connections + options->idle_connections + options->threads +
		       SPARE_FDS);
	idle = open_connections(options, wire, 0, options->idle_connections, error);
	drivers = idle != NULL ? make_drivers(options, wire, error) : NULL;
	if (drivers == NULL)
		return FALSE;
	if (options->check) {
		id_logs = load_id_log_new_all(drivers->len, options->check_limit);
		if (id_logs == NULL) {
			g_set_error(error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
				    "--check-limit: no memory for %" G_GUINT64_FORMAT " IDs",
				    options->check_limit);
			return FALSE;
		}
	}
	start_ns = load_driver_now_ns();
	start_drivers(drivers, options, wire, start_ns, id_logs);
	wait_for_drivers(drivers, progress);

	*out_report = make_report(options, drivers, start_ns);
	look_at_idle(idle, out_report->tally);
	if (id_logs != NULL) {
		out_report->verdict = load_id_log_check_all(id_logs, drivers->len);
		load_id_log_free_all(id_logs);
	}
	return TRUE;
}
