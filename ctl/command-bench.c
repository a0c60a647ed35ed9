/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "core/text.h"
#include "ctl/command.h"
#include "ctl/output.h"
#include "load/run.h"

static LoadOptions bench = LOAD_OPTIONS_DEFAULTS;
static atomic_bool interrupted;

/* Values from the command line. */
static struct {
	char *connections, *in_flight, *threads, *idle_connections, *calls, *count;
	char *duration, *warmup, *rate;
	char *call;
} given;

#define OPTION(name, field, description, argument)                                                 \
	{                                                                                          \
		name, 0, 0, G_OPTION_ARG_STRING, &given.field, description, argument               \
	}

static const GOptionEntry entries[] = {
	OPTION("connections", connections, "Number of connections, 1 to 100000 (default 16)", "N"),
	OPTION("in-flight", in_flight, "Calls in flight on each connection, 1 to 65536 (default 1)",
	       "N"),
	OPTION("threads", threads, "Threads that share the connections, 1 to 1024 (default 1)",
	       "N"),
	OPTION("duration", duration, "Length of the measurement, 0.01 to 86400 (default 5)",
	       "SECONDS"),
	OPTION("warmup", warmup,
	       "Length of the warm-up before the measurement, 0 to 3600 (default 1)", "SECONDS"),
	OPTION("rate", rate, "Open loop: total calls per second, 1 to 100000000", "CALLS"),
	OPTION("calls", calls, "Number of calls, all of them measured, 1 to 10^15", "N"),
	OPTION("call", call, "Call to make, see above (default get_id)", "CALL"),
	OPTION("count", count, "IDs per batch, 1 to 1000000 (default 100)", "N"),
	OPTION("idle-connections", idle_connections,
	       "Number of additional idle connections, 0 to 100000 (default 0)", "N"),
	{"check", 0, 0, G_OPTION_ARG_NONE, &bench.check,
	 "Check that no ID is received twice, and that IDs increase on each connection", NULL},
	G_OPTION_ENTRY_NULL,
};

static const struct {
	const char *option;
	char **text;
	guint64 min, max;
	guint64 *number;
} WHOLE[] = {
	{"--connections", &given.connections, 1, 100000, &bench.connections},
	{"--in-flight", &given.in_flight, 1, 65536, &bench.in_flight},
	{"--threads", &given.threads, 1, 1024, &bench.threads},
	{"--idle-connections", &given.idle_connections, 0, 100000, &bench.idle_connections},
	{"--calls", &given.calls, 1, G_GUINT64_CONSTANT(1000000000000000), &bench.calls},
	{"--count", &given.count, 1, 1000000, &bench.form.count},
};

static const struct {
	const char *option;
	char **text;
	double min, max;
	double *number;
} REAL[] = {
	{"--duration", &given.duration, 0.01, 86400, &bench.duration_s},
	{"--warmup", &given.warmup, 0, 3600, &bench.warmup_s},
	{"--rate", &given.rate, 1, 1e8, &bench.rate},
};

static CtlStatus parse_options(void)
{
	guint call = 0;

	for (gsize i = 0; i < G_N_ELEMENTS(WHOLE); i++)
		if (!ctl_options_number(WHOLE[i].option, *WHOLE[i].text, WHOLE[i].min, WHOLE[i].max,
					WHOLE[i].number))
			return CTL_USAGE;
	for (gsize i = 0; i < G_N_ELEMENTS(REAL); i++) {
		const char *text = *REAL[i].text;
		char *end;

		if (text == NULL)
			continue;
		*REAL[i].number = g_ascii_strtod(text, &end);
		/* without whitespace, a sign, hexadecimal digits, "nan" or "inf", which strtod()
		 * accepts too */
		if (end == text || *end != '\0' || text[strspn(text, "0123456789.e")] != '\0' ||
		    !(*REAL[i].number >= REAL[i].min && *REAL[i].number <= REAL[i].max)) {
			g_autofree char *shown = text_escape(text, strlen(text));

			return ctl_output_misuse("%s: \"%s\" is not a number from %g to %.0f",
						 REAL[i].option, shown, REAL[i].min, REAL[i].max);
		}
		if (given.calls != NULL)
			return ctl_output_misuse("--calls and %s cannot be combined; remove one",
						 REAL[i].option);
	}
	while (given.call != NULL && g_strcmp0(load_wire_call_names[call], given.call) != 0)
		if (load_wire_call_names[call++] == NULL) {
			g_autofree char *shown = text_escape(given.call, strlen(given.call));
			g_autofree char *names = g_strjoinv(", ", (char **)load_wire_call_names);

			return ctl_output_misuse("--call: \"%s\" is not one of %s", shown, names);
		}
	bench.form.call = call;
	if (bench.threads > bench.connections)
		return ctl_output_misuse("--threads: %" G_GUINT64_FORMAT
					 " is more than the %" G_GUINT64_FORMAT " --connections",
					 bench.threads, bench.connections);
	if (given.count != NULL && !load_wire_is_batch(call))
		return ctl_output_misuse("--count has no effect with --call %s; remove it",
					 load_wire_call_names[call]);
	return CTL_OK;
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

	if (parse_options() != CTL_OK)
		return CTL_USAGE;
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

	/* the first Ctrl-C ends the load, and the report is printed; the second kills the program
	 */
	sigaction(SIGINT, NULL, &before);
	if (before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);

	LoadReport report = load_run_go(load_run, &interrupted);
	g_autoptr(LoadTally) tally = report.tally;
	g_autofree char *text = (options->json ? load_report_json : load_report_text)(&report);
	g_autofree char *complaint = load_report_complaint(&report);

	ctl_output_print("%s", text);
	if (complaint != NULL)
		ctl_output_complain("%s", complaint);
	if (tally->stopped_ns > 0)
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
