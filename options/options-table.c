/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options-table.h"

#include <string.h>

#include "common/zookeeper/znodes.h"
#include "core/generator.h"
#include "options/help-text.h"
#include "options/options.h"

#define OPTION(key, kind, field, takes)                                                            \
	.name = key, .type = OPTION_##kind, .offset = offsetof(Options, field), .argument = takes
#define NUMBER(key, field, unit, least, most, otherwise)                                           \
	OPTION(key, NUMBER, field, unit), .min = least, .max = most, .default_text = otherwise
#define REREAD                             .reread = TRUE
#define OF_ZOOKEEPER                       .of_zookeeper = TRUE
#define OF_ISSUER                          .of_issuer = TRUE
#define OF_RELAY                           .of_relay = TRUE
#define OF_TLS                             .of_tls = TRUE
#define EMBEDDED                           .embedded = TRUE
#define ONLY_ARGS(key, kind, field, takes) OPTION(key, kind, field, takes), .only_args = TRUE

/* As in LogLevel, LogFormat and OptionsClockStep. */
static const char *const LEVELS[] = {"error", "warning", "info", "debug", NULL};
static const char *const FORMATS[] = {"auto", "logfmt", "json", "journal", NULL};
static const char *const STEPS[] = {"refuse", "reclaim", NULL};

static const OptionWord WORKER_IDS[] = {{"mac", OPTIONS_WORKER_ID_MAC},
					{"ip", OPTIONS_WORKER_ID_IP},
					{"ordinal", OPTIONS_WORKER_ID_ORDINAL},
					{0}};
static const OptionWord SEQUENCE_STARTS[] = {{"continue", GENERATOR_SEQUENCE_CONTINUES}, {0}};

const OptionSpec OPTIONS_TABLE[] = {
	{.heading = "Addresses",
	 OPTION("listen", ADDRESSES, listen, "HOST:PORT"),
	 .default_text = "127.0.0.1:7609",
	 .help = "where to take calls: a name or an address, [::1]:7609 for IPv6, *:7609 for "
		 "every address of the machine; port 0 is any free one, and the log says which; "
		 "tls:HOST:PORT, with TLS; or unix:/PATH, a local socket, or unix:@NAME, an "
		 "abstract one. "
		 "May be given several times, in the file with semicolons between"},
	{OPTION("socket-mode", MODE, socket_mode, "MODE"), .default_text = "0666",
	 .help = "who may connect to unix:/PATH, of listen: whoever may write the file, in octal "
		 "digits; 0660 is the user and the group"},
	{OPTION("socket-group", NAME, socket_group, "GROUP"),
	 .default_note = "that of the server, or of a directory with the set-group-ID bit",
	 .help = "the group of unix:/PATH, of listen: a name or a number"},
	{OPTION("advertise", ADDRESS, advertise, "HOST:PORT"),
	 .default_note = "the first address of listen, of TCP if there is one",
	 .help = "where others reach this server, if that is not where it listens; for one that "
		 "listens everywhere, the machine's name"},
	{OPTION("admin-listen", ADMIN, admin_listen, "HOST:PORT"),
	 .default_note = "none; the sample config has 127.0.0.1:9990",
	 .sample_text = "127.0.0.1:9990",
	 .help = "where to answer operators over HTTP: state, fleet, IDs. It is for them alone: "
		 "who reaches it needs no password"},

	{OPTION("admin-host", HOSTS, admin_hosts, "NAME"),
	 .default_note = "none: only IP addresses and localhost",
	 .help = "a host name by which operators reach admin-listen, besides IP addresses and "
		 "localhost; other names are refused, because a page of another site can make "
		 "its own name resolve to this machine. May be given several times, in the file "
		 "with semicolons between"},

	{.heading = "Trust",
	 OPTION("tls-certificate", PATH, tls_certificate, "FILE"),
	 EMBEDDED,
	 .default_note = "none; tls: addresses of listen need one",
	 .help = "the server's certificate, and those between it and the root, in the PEM format; "
		 "read again on SIGHUP, with its key. It is shown to servers that this one calls, "
		 "too"},
	{OPTION("tls-key", PATH, tls_key, "FILE"), EMBEDDED, .default_note = "none",
	 .help = "the key of tls-certificate, in the PEM format, without a password"},
	{OPTION("tls-client-ca", PATH, tls_client_ca, "FILE"), OF_TLS,
	 .default_note = "none: clients need no certificate",
	 .help = "whoever calls with TLS needs a certificate that one of these vouches for; "
		 "read again on SIGHUP"},
	{OPTION("tls-ca", PATH, tls_ca, "FILE"), EMBEDDED,
	 .default_note = "tls-client-ca, else whoever this machine believes",
	 .help = "who vouches for the servers that this one calls with TLS: those of relay, and "
		 "before a claim the others of the datacenter; read again when it has changed"},
	{OPTION("allow", ALLOW, allow, "LIST"), REREAD, .default_note = "none: everybody",
	 .help = "who may call, with commas between: addresses and networks, as 192.0.2.7, "
		 "10.0.0.0/8 and 2001:db8::/32, or certificate:NAME, whom the certificate that "
		 "tls-client-ca asks for is of; one of them is enough. Local sockets have "
		 "socket-mode instead"},

	{.heading = "Relay",
	 OPTION("relay", SERVERS, relay, "SERVERS"),
	 .default_note = "none: the server issues IDs itself",
	 .help = "hand on IDs of these servers, HOST:PORT or unix:/PATH with commas between, and "
		 "issue none; a relay needs no worker ID, and nothing of what follows up to IDs"},
	{OPTION("relay-discover", FLAG, relay_discover, NULL), OF_RELAY, .default_text = "false",
	 .help = "ask these servers every 10 s which others there are, and use those too"},
	{OPTION("relay-agent", NAME, relay_agent, "AGENT"), OF_RELAY,
	 .default_text = "snowflake-relay",
	 .help = "the useragent that these servers see; those of the calls are the relay's to "
		 "check and to log"},
	{NUMBER("relay-prefetch", relay_prefetch_ms, "MS", 1, 10000, "50"), OF_RELAY,
	 .help = "for how long the IDs in hand are to last, at the rate at which they are taken"},
	{NUMBER("relay-max-age", relay_max_age_ms, "MS", 2, 3600000, "1000"), OF_RELAY,
	 .help = "how old an ID in hand may become before it is thrown away; twice relay-prefetch "
		 "at least"},

	{.heading = "Worker ID",
	 NUMBER("datacenter-id", datacenter_id, "N", 0, G_MAXINT64, NULL),
	 .default_note = "none, which counts as 0; zookeeper needs one",
	 EMBEDDED,
	 OF_ISSUER,
	 .help = "the datacenter part of every ID; twitter's layout has room for 0 to 31"},
	{NUMBER("worker-id", worker_id, "N", 0, G_MAXINT64, NULL), .words = WORKER_IDS,
	 .default_note = "none, which is 0, or with zookeeper any that is free", EMBEDDED,
	 OF_ISSUER,
	 .help = "the worker part of every ID; twitter's layout has room for 0 to 31. Or taken "
		 "from the machine: the low bits of its mac or ip address, or the ordinal at the "
		 "end of its host name, as in ids-3; with zookeeper, that is looked at first"},
	{OPTION("state-directory", PATH, state_directory, "DIR"),
	 .default_note = "$STATE_DIRECTORY, else /var/lib/snowflaked for root, else "
			 "$XDG_STATE_HOME/snowflaked",
	 EMBEDDED, OF_ISSUER,
	 .help = "where the reservations of worker IDs are kept; not to be copied to another "
		 "machine"},

	{.heading = "ZooKeeper",
	 OPTION("zookeeper", ZOOKEEPER, zookeeper, "HOSTS"),
	 .default_note = "none: reservations are kept in the state directory",
	 EMBEDDED,
	 OF_ISSUER,
	 .help = "where reservations are kept that many machines share: HOST:PORT of each server "
		 "of ZooKeeper with commas between, tls:HOST:PORT if its client was built with "
		 "TLS, and /PATH after the last for a root other "
		 "than " ZOOKEEPER_HOSTS_DEFAULT_ROOT},
	{OPTION("zookeeper-auth", PATH, zookeeper_auth, "FILE"), OF_ZOOKEEPER,
	 .default_note = "none: what the server writes is open to all", EMBEDDED,
	 .help = "a file whose first line is USER:PASSWORD, for ZooKeeper's digest scheme"},
	{NUMBER("session-timeout", session_timeout_ms, "MS", 1000, ZNODES_MAX_SESSION_TIMEOUT_MS,
		"10000"),
	 OF_ZOOKEEPER, EMBEDDED,
	 .help = "how long ZooKeeper waits for a server that is silent before it takes it for "
		 "gone; "
		 "ZooKeeper may change it to what its own settings allow"},
	{NUMBER("connect-timeout", connect_timeout_ms, "MS", 100, 3600000, "30000"), OF_ZOOKEEPER,
	 EMBEDDED,
	 .help = "how long a server that starts may be without a connection to ZooKeeper before "
		 "it gives up"},
	{NUMBER("reservation", reservation_ms, "MS", 1000, ZNODES_MAX_RESERVATION_MS, "600000"),
	 OF_ZOOKEEPER, EMBEDDED,
	 .help = "the longest reservation of a worker ID: for three quarters of it at least a "
		 "server goes on without ZooKeeper; for all of it the worker ID of a server that "
		 "was killed may stay reserved"},
	{OPTION("skip-sanity-checks", FLAG, skip_sanity_checks, NULL), OF_ZOOKEEPER,
	 .default_text = "false", EMBEDDED,
	 .help = "do not ask the other servers of the datacenter, before a worker ID is claimed, "
		 "who they are and what time it is"},

	{.heading = "IDs",
	 OPTION("layout", LAYOUT, layout, "L"),
	 .default_text = "twitter",
	 EMBEDDED,
	 .help = "how IDs divide: a name that snowflakectl layouts shows, or all of epoch_ms=N, "
		 "tick_ms=N, time_bits=N, datacenter_bits=N, worker_bits=N and sequence_bits=N, "
		 "and total_bits=N if these bits are not 63 in all, with commas and no blanks "
		 "between"},
	{NUMBER("max-ahead", max_ahead_ms, "MS", 0, 60000, "10"), EMBEDDED, OF_ISSUER,
	 .help = "how far the time in IDs may run ahead of the clock, in a burst or after the "
		 "clock stepped back; 0 is the behaviour of 2010"},
	{NUMBER("max-clock-skew", max_clock_skew_ms, "MS", 1, ZNODES_MAX_CLOCK_SKEW_MS, "10000"),
	 EMBEDDED,
	 .help = "how far the clock may be off: a jump forward by more than this is not believed "
		 "at once, and a server whose clock is further from ZooKeeper's does not start; a "
		 "relay does not believe a server that is further from its own"},
	{OPTION("on-clock-step", CHOICE, on_clock_step, "WHAT"), .choices = STEPS,
	 .default_text = "refuse", EMBEDDED, OF_ISSUER,
	 .help = "after the clock stepped back by more than max-ahead: refuse calls until it has "
		 "caught up, or reclaim: take another worker ID, for which it needs zookeeper and "
		 "no number for worker-id"},
	{NUMBER("sequence-start", sequence_start, "N", 1, G_MAXINT64, "1"),
	 .words = SEQUENCE_STARTS, EMBEDDED, OF_ISSUER,
	 .help = "a tick begins at a random sequence below this, which is at most "
		 "2^sequence_bits; 1 is always 0; continue: after the last sequence of the tick "
		 "before. With 2^sequence_bits or continue, few IDs spread evenly modulo any "
		 "number"},
	{NUMBER("max-batch", max_batch, "N", 1, 1000000, "10000"),
	 .help = "IDs in one call of get_ids or get_id_runs; fewer where max-ahead does not allow "
		 "as many. get_uuids and get_ulids allow 10000 at most"},
	{NUMBER("max-wait", max_wait_ms, "MS", 0, 60000, "1000"), EMBEDDED,
	 .help = "how long a call may wait, for the clock or for a reservation, before it is "
		 "refused"},

	{.heading = "Connections",
	 NUMBER("threads", threads, "N", 1, 256, NULL),
	 .default_note = "half of the cores, at least 1",
	 .help = "event loops, each with connections of its own"},
	{NUMBER("max-connections", max_connections, "N", 1, 1000000, "10000"),
	 .help = "connections at a time; one more takes the place of one that has been silent for "
		 "10 s, of the client address that has most, or is closed at once"},
	{NUMBER("max-connections-per-address", max_connections_per_address, "N", 0, 1000000, "0"),
	 REREAD,
	 .help = "connections of one client address, or on local sockets of one user; those "
		 "beyond are closed at once; 0 is no limit"},
	{NUMBER("max-frame", max_frame_bytes, "BYTES", 256, 16777215, "65536"),
	 .help = "size of one call"},
	{NUMBER("max-depth", max_depth, "N", 1, 1000, "64"),
	 .help = "nesting of structs, lists, sets and maps in one call"},
	{NUMBER("frame-timeout", frame_timeout_ms, "MS", 1, 3600000, "10000"),
	 .help = "how long a call may take to arrive, from its first byte"},
	{NUMBER("idle-timeout", idle_timeout_ms, "MS", 0, 86400000, "0"),
	 .help = "how long a connection may be silent; 0 is for ever"},
	{NUMBER("max-pending", max_pending_bytes, "BYTES", 4096, 1073741824, "1048576"),
	 .help = "replies that a client has not read yet, before no more of its calls are read"},
	{NUMBER("write-timeout", write_timeout_ms, "MS", 1, 3600000, "30000"),
	 .help = "how long a client may read none of the replies that wait for it"},
	{OPTION("no-fast-path", FLAG, no_fast_path, NULL), .default_text = "false",
	 .help = "answer every call by the general path: the same bytes, slower"},

	{.heading = "Audit log",
	 OPTION("audit-log", TARGETS, audit_log, "SINK"),
	 .default_note = "none",
	 .help = "where to log which ID went to which agent: file:PATH, or "
		 "scribe://HOST:PORT/CATEGORY, port 1463 and category snowflake if left out. May "
		 "be given several times, in the file with semicolons between"},
	{NUMBER("audit-queue", audit_queue_bytes, "BYTES", 65536, 1073741824, "16777216"),
	 .help = "what may wait for a sink that is slow or away, for each sink and each of "
		 "threads, rounded down to a power of two; what comes beyond is missing in the "
		 "log, which says so"},

	{.heading = "Operation",
	 NUMBER("drain-delay", drain_delay_ms, "MS", 0, 3600000, "0"),
	 REREAD,
	 .help = "how long a server that is told to stop serves on, saying that it is draining, so "
		 "that clients go elsewhere first"},
	{NUMBER("stop-timeout", stop_timeout_ms, "MS", 0, 3600000, "5000"), REREAD, EMBEDDED,
	 .help = "how long a stop waits for what is in flight, then for the hand-back of the "
		 "worker ID and the end of the audit log, which have 1 s at least"},
	{OPTION("log-level", CHOICE, log_level, "LEVEL"), .choices = LEVELS, .default_text = "info",
	 REREAD, EMBEDDED,
	 .help = "what is logged: error, warning, info or debug, each with those before it"},
	{OPTION("log-format", CHOICE, log_format, "FORMAT"), .choices = FORMATS,
	 .default_text = "auto",
	 .help = "how it is logged: logfmt or json, on standard error; journal, to systemd's, with "
		 "its fields; auto: journal if standard error is it, else logfmt"},
	{ONLY_ARGS("config", PATH, config, "FILE"),
	 .help = "read options from this file; the command line goes before it"},
	{ONLY_ARGS("print-config", FLAG, print_config, NULL),
	 .help = "print a config file with every option at its default, and exit"},
	{ONLY_ARGS("help", FLAG, help, NULL), .help = "print this text, and exit"},
	{ONLY_ARGS("version", FLAG, version, NULL), .help = "print the version, and exit"},
};

const guint OPTIONS_TABLE_LENGTH = G_N_ELEMENTS(OPTIONS_TABLE);

#define HELP_INDENT "                          "

/* After the dashes; a longer usage has a line of its own. */
#define USAGE_COLUMNS ((int)strlen(HELP_INDENT) - 4)

gboolean options_table_is_list(const OptionSpec *spec)
{
	return spec->type == OPTION_ADDRESSES || spec->type == OPTION_TARGETS ||
	       spec->type == OPTION_HOSTS;
}

char *options_table_range(const OptionSpec *spec)
{
	GString *range = g_string_new(NULL);

	if (spec->type == OPTION_NUMBER && spec->max == G_MAXINT64) {
		g_string_append_printf(range, "%" G_GINT64_FORMAT " to what fits the layout",
				       spec->min);
	} else if (spec->type == OPTION_NUMBER) {
		gboolean has_unit = strcmp(spec->argument, "N") != 0;
		g_autofree char *unit = g_ascii_strdown(has_unit ? spec->argument : "", -1);

		g_string_append_printf(range, "%" G_GINT64_FORMAT " to %" G_GINT64_FORMAT "%s%s",
				       spec->min, spec->max, has_unit ? " " : "", unit);
	}
	for (const OptionWord *one = spec->words; one != NULL && one->word != NULL; one++)
		g_string_append_printf(range, "%s or %s", one == spec->words ? "," : "", one->word);
	return g_string_free(range, FALSE);
}

/* Appends the help with range, default and what SIGHUP does, as "(0 to 60000 ms, default 10, reread
 * on SIGHUP)". */
static void append_description(GString *out, const OptionSpec *spec, const char *indent)
{
	const char *otherwise = spec->default_text ? spec->default_text : spec->default_note;
	g_autofree char *range = options_table_range(spec);
	g_autofree char *text = NULL;

	if (otherwise != NULL)
		text = g_strdup_printf("%s (%s%sdefault %s%s)", spec->help, range,
				       *range != '\0' ? ", " : "", otherwise,
				       spec->reread ? ", reread on SIGHUP" : "");
	else if (*range != '\0')
		text = g_strdup_printf("%s (%s)", spec->help, range);
	help_text_wrap(out, text != NULL ? text : spec->help, indent);
}

char *options_table_help(void)
{
	GString *out =
		g_string_new("Usage: snowflaked [OPTION]...\n"
			     "Hands out unique, roughly time-ordered 64-bit IDs over Thrift.\n");

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *usage = g_strjoin(" ", spec->name, spec->argument, NULL);

		if (spec->heading != NULL)
			g_string_append_printf(out, "\n%s:\n", spec->heading);
		g_string_append_printf(out, "  --%-*s", USAGE_COLUMNS, usage);
		if ((int)strlen(usage) >= USAGE_COLUMNS)
			g_string_append(out, "\n" HELP_INDENT);
		append_description(out, spec, HELP_INDENT);
	}
	return g_string_free(out, FALSE);
}

char *options_table_sample_config(void)
{
	GString *out = g_string_new(
		"# snowflaked reads this file with --config FILE. Lines that begin with # are\n"
		"# comments; those without a blank after it are options at their defaults.\n\n"
		"[snowflaked]\n");

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		if (spec->only_args)
			continue;
		if (spec->heading != NULL)
			g_string_append_printf(out, "\n## %s\n", spec->heading);
		g_string_append(out, "\n# ");
		append_description(out, spec, "# ");
		if (spec->sample_text != NULL)
			g_string_append_printf(out, "%s=%s\n", spec->name, spec->sample_text);
		else
			g_string_append_printf(out, "#%s=%s\n", spec->name,
					       spec->default_text != NULL ? spec->default_text
									  : "");
	}
	return g_string_free(out, FALSE);
}
