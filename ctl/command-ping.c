/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "client/worker-conflict.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/probe.h"

#define MAX_INTERVAL_MS 3600000

static char *count_text;
static char *interval_text;
static guint64 count = 1;
static guint64 interval_ms = 1000;

static const GOptionEntry entries[] = {
	{"count", 'c', 0, G_OPTION_ARG_STRING, &count_text, "Number of pings (default 1)", "N"},
	{"interval", 'i', 0, G_OPTION_ARG_STRING, &interval_text,
	 "Time between pings (default 1000)", "MS"},
	G_OPTION_ENTRY_NULL,
};

/* A server and its last answer. Each server has its own client, so that all values come from that
 * server. */
typedef struct {
	const Address *server;
	SnowflakeClient *client; /* (nullable) */
	CtlProbe probe;
	GError *error; /* NULL if the server has answered */
} Target;

static void target_free(Target *self)
{
	snowflake_client_free(self->client);
	ctl_probe_clear(&self->probe);
	g_clear_error(&self->error);
	g_free(self);
}

/* Results over all rounds. */
typedef struct {
	GPtrArray *targets;
	const CtlOptions *options;
	gboolean keeps_connections; /* keep the connections open for the next round */
	guint64 asked;
	guint64 answered;
	guint64 serving;
	gboolean has_conflict; /* two servers issued the same IDs */
} Pinger;

/* Runs in a thread. */
static void ask_target(gpointer item, gpointer data)
{
	const Pinger *self = data;
	Target *target = item;

	ctl_probe_clear(&target->probe);
	g_clear_error(&target->error);
	if (target->client == NULL)
		target->client = ctl_options_client_new(self->options, &target->server, 1);
	ctl_probe(self->options, target->client, FALSE, FALSE, &target->probe, &target->error);
	if (!self->keeps_connections)
		g_clear_pointer(&target->client, snowflake_client_free);
}

static void print_target(const Target *target, gboolean json)
{
	const CtlProbe *probe = &target->probe;
	/* an original server does not report an ID */
	const char *state = probe->worker != NULL ? probe->worker->state : NULL;
	g_autofree char *shown = state != NULL ? ctl_format_text(state) : NULL;
	JsonObject *object;

	if (!json && target->error != NULL) {
		/* the message begins with the server's address */
		ctl_output_print("%s\n", target->error->message);
		return;
	}
	if (!json) {
		ctl_output_print("%s: datacenter %" G_GINT64_FORMAT ", worker %" G_GINT64_FORMAT
				 "%s%s, clock %+.1f ms, round trip %.3f ms\n",
				 target->server->text, probe->datacenter_id, probe->worker_id,
				 state != NULL ? ", " : "", state != NULL ? shown : "",
				 (double)probe->clock_skew_us / 1000,
				 (double)probe->round_trip_us / 1000);
		return;
	}
	object = json_object_new();
	json_object_set_string_member(object, "server", target->server->text);
	if (target->error != NULL) {
		ctl_output_complain_of(target->error, 0);
		ctl_output_set_error(object, target->error);
	} else {
		json_object_set_int_member(object, "datacenter_id", probe->datacenter_id);
		json_object_set_int_member(object, "worker_id", probe->worker_id);
		if (state != NULL)
			json_object_set_string_member(object, "state", state);
		if (probe->worker != NULL && *probe->worker->registry_id != '\0')
			json_object_set_string_member(object, "registry_id",
						      probe->worker->registry_id);
		json_object_set_int_member(object, "clock_skew_us", probe->clock_skew_us);
		json_object_set_int_member(object, "round_trip_us", probe->round_trip_us);
	}
	ctl_output_add_object(object);
}

/* Reports each target that issues the same IDs as an earlier one. */
static void report_conflicts(Pinger *self)
{
	for (guint i = 0; i < self->targets->len; i++) {
		const Target *target = self->targets->pdata[i];

		for (guint j = 0; j < i; j++) {
			const Target *other = self->targets->pdata[j];
			g_autofree char *conflict =
				target->probe.worker != NULL && other->probe.worker != NULL
					? worker_conflict_describe(target->probe.worker,
								   other->probe.worker,
								   other->server->text)
					: NULL;

			if (conflict == NULL)
				continue;
			ctl_output_complain("%s: %s", target->server->text, conflict);
			self->has_conflict = TRUE;
			break;
		}
	}
}

/* Pings all targets at once, so that a target that does not answer delays only the next round. */
static void ping_all(Pinger *self)
{
	ctl_probe_in_parallel(self->targets, ask_target, self);
	for (guint i = 0; i < self->targets->len; i++) {
		const Target *target = self->targets->pdata[i];
		const SnowflakeClientWorker *worker = target->probe.worker;

		self->asked++;
		self->answered += target->error == NULL;
		/* an original server reports no state, so any answer suffices */
		self->serving += target->error == NULL &&
				 (worker == NULL || strcmp(worker->state, "serving") == 0);
		print_target(target, self->options->json);
	}
	if (!self->options->json)
		ctl_output_set_last_words(
			STDERR_FILENO,
			g_strdup_printf("%ssnowflakectl: interrupted; %" G_GUINT64_FORMAT
					" of %" G_GUINT64_FORMAT " pings were answered\n",
					isatty(STDERR_FILENO) ? "\n" : "", self->answered,
					self->asked));
	ctl_output_flush();
	report_conflicts(self);
}

static CtlStatus run_ping(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	if (!ctl_options_number("-c N", count_text, 1, G_MAXINT64, &count) ||
	    !ctl_options_number("-i MS", interval_text, 0, MAX_INTERVAL_MS, &interval_ms))
		return CTL_USAGE;

	g_autoptr(GPtrArray) servers = ctl_options_addresses(options);

	if (servers == NULL)
		return CTL_USAGE;

	g_autoptr(GPtrArray) targets = g_ptr_array_new_with_free_func((GDestroyNotify)target_free);

	for (guint i = 0; i < servers->len; i++) {
		Target *target = g_new0(Target, 1);

		target->server = servers->pdata[i];
		g_ptr_array_add(targets, target);
	}

	Pinger pinger = {
		.targets = targets,
		.options = options,
		.keeps_connections = targets->len <= ctl_probe_room(),
	};

	for (guint64 i = 0; i < count; i++) {
		if (i > 0)
			g_usleep(interval_ms * 1000);
		ping_all(&pinger);
	}
	ctl_output_end_array(options->json, TRUE);
	return pinger.serving == pinger.asked && !pinger.has_conflict ? CTL_OK : CTL_FAILED;
}

const CtlCommand ctl_ping_command = {
	.name = "ping",
	.summary = "Shows the state, the clock and the round-trip time of each server.",
	.details = "For each --server, prints datacenter ID, worker ID, state, clock difference "
		   "and round-trip time, or the reason why there is no reply. Asks all servers at "
		   "the same time. "
		   "Exits with status 1 if a server did not reply or is not serving, or if two "
		   "servers of different registries have the same datacenter ID and worker ID.",
	.entries = entries,
	.run = run_ping,
};
