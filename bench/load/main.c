/* SPDX-License-Identifier: Apache-2.0 */

/*
 * load: loads a Snowflake server with calls from a few threads (driver.h), each with connections of
 * its own, and reports rate, latency and errors.
 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/load/driver.h"
#include "bench/load/options.h"
#include "bench/load/report.h"

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

/* (transfer full) (element-type Driver): the connections dealt out evenly, all of them open. */
static GPtrArray *make_drivers(const Options *options, const Wire *wire, GError **error)
{
	g_autoptr(GPtrArray) drivers = g_ptr_array_new_with_free_func((GDestroyNotify)driver_free);
	int left = options->connections;

	raise_fd_limit((rlim_t)options->connections + (rlim_t)options->threads + SPARE_FDS);
	for (int i = 0; i < options->threads; i++) {
		g_autoptr(GPtrArray) connections =
			g_ptr_array_new_with_free_func((GDestroyNotify)connection_free);
		int share = left / (options->threads - i);
		Driver *driver;

		left -= share;
		for (int k = 0; k < share; k++) {
			Connection *connection = connection_new(options->server, wire, error);

			if (!connection)
				return NULL;
			g_ptr_array_add(connections, connection);
		}
		driver = driver_new(g_steal_pointer(&connections), error);
		if (!driver)
			return NULL;
		g_ptr_array_add(drivers, driver);
	}
	return g_steal_pointer(&drivers);
}

static void start_drivers(GPtrArray *drivers, const Options *options, const Wire *wire,
			  IdLog *id_logs)
{
	gint64 start_ns = driver_now_ns();

	for (guint i = 0; i < drivers->len; i++) {
		DriverConfig config = {
			.wire = wire,
			.measure_from_ns = start_ns + (gint64)(options->warmup_s * 1e9),
			.measure_until_ns =
				start_ns +
				(gint64)((options->warmup_s + options->duration_s) * 1e9),
			.id_log = id_logs ? &id_logs[i] : NULL,
		};

		driver_start(drivers->pdata[i], &config);
	}
}

/* Overwrites the line with what came in the last second; returns the calls answered so far. */
static guint64 show_progress(GPtrArray *drivers, guint seconds, guint64 answered_before)
{
	guint64 answered = 0;
	guint64 errors = 0;

	for (guint i = 0; i < drivers->len; i++) {
		answered += driver_answered(drivers->pdata[i]);
		errors += driver_errors(drivers->pdata[i]);
	}
	g_printerr("\r\033[K%u s  %" G_GUINT64_FORMAT " calls/s  %" G_GUINT64_FORMAT " errors",
		   seconds, answered - answered_before, errors);
	return answered;
}

static void wait_for_drivers(GPtrArray *drivers)
{
	gboolean show = isatty(STDERR_FILENO);
	struct timespec next_second;
	guint64 answered = 0;
	guint seconds = 0;

	clock_gettime(CLOCK_REALTIME, &next_second);
	next_second.tv_sec++;
	for (guint i = 0; i < drivers->len; i++) {
		while (!driver_wait(drivers->pdata[i], show ? &next_second : NULL)) {
			answered = show_progress(drivers, ++seconds, answered);
			next_second.tv_sec++;
		}
	}
	if (show)
		g_printerr("\r\033[K");
}

static gboolean print(const char *text, GError **error)
{
	if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno),
		    "cannot write to standard output: %s", g_strerror(errno));
	return FALSE;
}

static gboolean load(const Options *options, GError **error)
{
	g_autoptr(Wire) wire = wire_new(options->call, options->agent, (guint)options->count,
					(guint)options->in_flight);
	g_autoptr(GPtrArray) drivers = make_drivers(options, wire, error);
	g_autoptr(Tally) tally = tally_new();
	g_autofree char *report = NULL;
	IdLog *id_logs = NULL;
	IdLogVerdict checked;
	const IdLogVerdict *verdict = NULL;

	if (!drivers)
		return FALSE;
	if (options->check)
		id_logs = id_log_new_all(drivers->len, (gsize)options->check_limit);
	start_drivers(drivers, options, wire, id_logs);
	wait_for_drivers(drivers);

	for (guint i = 0; i < drivers->len; i++)
		tally_merge(tally, driver_tally(drivers->pdata[i]));
	if (id_logs) {
		checked = id_log_check_all(id_logs, drivers->len);
		verdict = &checked;
		id_log_free_all(id_logs);
	}
	report = (options->json ? report_json : report_text)(options, tally, verdict);
	if (!print(report, error))
		return FALSE;
	if (report_is_good(tally, verdict))
		return TRUE;
	g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_FAILED,
			    tally->calls > 0 ? "there were errors" : "no call was answered");
	return FALSE;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = NULL;

	setlocale(LC_CTYPE, "");
	g_set_prgname("load");
	options = options_parse(&argc, &argv, &error);
	if (!options) {
		g_printerr("load: %s\n", error->message);
		return 2;
	}
	if (!load(options, &error)) {
		g_printerr("load: %s\n", error->message);
		return 1;
	}
	return 0;
}
