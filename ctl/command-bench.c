/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/output.h"
#include "load/run.h"

static LoadOptions bench = LOAD_OPTIONS_DEFAULTS;
static atomic_bool interrupted;

static gboolean set_option(const char *name, const char *value, G_GNUC_UNUSED gpointer data,
			   GError **error)
{
	return load_options_set(&bench, name + strlen("--"), value, error);
}

#define OPTION(name, description, argument)                                                        \
	{                                                                                          \
		name, 0, 0, G_OPTION_ARG_CALLBACK, set_option, description, argument               \
	}

/* The ranges must match load/options.c. */
static const GOptionEntry entries[] = {
	OPTION("connections", "Number of connections, 1 to 100000 (default 16)", "N"),
	OPTION("in-flight", "Calls in flight on each connection, 1 to 65536 (default 1)", "N"),
	OPTION("threads", "Threads that share the connections, 1 to 1024 (default 1)", "N"),
	OPTION("duration", "Length of the measurement, 0.01 to 86400 (default 5)", "SECONDS"),
	OPTION("warmup", "Length of the warm-up before the measurement, 0 to 3600 (default 1)",
	       "SECONDS"),
	OPTION("rate", "Open loop: total calls per second, 1 to 100000000", "CALLS"),
	OPTION("calls", "Number of calls, all of them measured, 1 to 10^15", "N"),
	OPTION("call", "Call to make, see above (default get_id)", "CALL"),
	OPTION("count", "IDs per batch, 1 to 1000000 (default 100)", "N"),
	OPTION("idle-connections", "Number of additional idle connections, 0 to 100000 (default 0)",
	       "N"),
	{"check", 0, 0, G_OPTION_ARG_NONE, &bench.check,
	 "Check that no ID is received twice, and that IDs increase on each connection", NULL},
	G_OPTION_ENTRY_NULL,
};

/* Overwrites the progress line. */
static void show_progress(guint second, guint64 calls, guint64 errors)
{
	g_printerr("\r\033[K%u s  %" G_GUINT64_FORMAT " calls/s  %" G_GUINT64_FORMAT " errors",
		   second, calls, errors);
}

static void on_interrupt(G_GNUC_UNUSED int number)
{
	atomic_store(&interrupted, true);
}

static CtlStatus run_bench(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(GPtrArray) servers = NULL;
	g_autoptr(TlsClient) tls = NULL;

	if (!load_options_check(&bench, &error))
		return ctl_output_misuse("%s", error->message);
	servers = ctl_options_addresses(options);
	if (servers == NULL)
		return CTL_USAGE;
	if (address_any_is_tls(servers) && (tls = ctl_options_tls_new(options)) == NULL)
		return CTL_USAGE;
	bench.servers = servers;
	bench.tls = tls;
	bench.timeout_ms = options->timeout_ms;

	g_autoptr(LoadRun) load_run = load_run_new(&bench, &error);

	if (load_run == NULL)
		return ctl_output_fail(error);

	struct sigaction action = {.sa_handler = on_interrupt,
				   .sa_flags = SA_RESETHAND | SA_RESTART};
	struct sigaction before;
	gboolean show = isatty(STDERR_FILENO);

	/* the first Ctrl-C ends the load, and the report is printed; the second kills the program
	 */
	sigaction(SIGINT, NULL, &before);
	if (before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);

	g_auto(LoadReport) report =
		load_run_go(load_run, show ? show_progress : NULL, &interrupted);
	g_autofree char *text = (options->json ? load_report_json : load_report_text)(&report);
	g_autofree char *complaint = load_report_complaint(&report);

	if (show)
		g_printerr("\r\033[K");
	ctl_output_print("%s", text);
	if (complaint != NULL)
		ctl_output_complain("%s", complaint);
	if (load_report_is_interrupted(&report))
		return CTL_INTERRUPTED;
	return complaint == NULL ? CTL_OK : CTL_FAILED;
}

const CtlCommand ctl_bench_command = {
	.name = "bench",
	.summary = "Puts servers under load, and measures rate and latency.",
	.details = "By default, each reply triggers the next call. With --rate, calls are sent on "
		   "schedule, whether or not replies arrive, and latency is measured from the "
		   "scheduled time. The calls are get_id, get_ids and get_id_runs for batches, and "
		   "redis-incr for comparison. A closed connection is opened again. Ctrl-C ends "
		   "the load and prints the report. The exit status is 1 if any call failed, and "
		   "130 after Ctrl-C.",
	.entries = entries,
	.run = run_bench,
};
