/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options-table.h"

#include <string.h>

#include "common/postgresql.h"
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
#define OF_STORE                           .of_store = TRUE
#define OF_POSTGRESQL                      .of_postgresql = TRUE
#define OF_ISSUER                          .of_issuer = TRUE
#define OF_RELAY                           .of_relay = TRUE
#define OF_TLS                             .of_tls = TRUE
#define EMBEDDED                           .embedded = TRUE
#define ONLY_ARGS(key, kind, field, takes) OPTION(key, kind, field, takes), .only_args = TRUE

/* The names of the values of LogLevel, LogFormat and OptionsClockStep, in order. */
static const char *const LEVELS[] = {"error", "warning", "info", "debug", NULL};
static const char *const FORMATS[] = {"auto", "logfmt", "json", "journal", NULL};
static const char *const STEPS[] = {"refuse", "reclaim", NULL};

static const OptionWord WORKER_IDS[] = {{"mac", OPTIONS_WORKER_ID_MAC},
					{"ip", OPTIONS_WORKER_ID_IP},
					{"ordinal", OPTIONS_WORKER_ID_ORDINAL},
					{0}};
static const OptionWord SEQUENCE_STARTS[] = {{"continue", GENERATOR_SEQUENCE_CONTINUES}, {0}};

const OptionSpec OPTIONS_TABLE[] = {
	{OPTION("listen", ADDRESSES, listen, "HOST:PORT"), .heading = "Addresses",
	 .default_text = "127.0.0.1:7609",
	 .help = "address for calls: a host name or an IP address, [::1]:7609 for IPv6, "
		 "*:7609 for all addresses of the machine. With port 0, the system chooses a "
		 "free port, and the log shows it. tls:HOST:PORT uses TLS; unix:/PATH is a "
		 "local socket, unix:@NAME an abstract one. Can be given several times; in "
		 "the config file, separate the addresses by semicolons"},
	{OPTION("socket-mode", MODE, socket_mode, "MODE"), .default_text = "0666",
	 .help = "file mode of unix:/PATH in --listen, in octal digits: users who can write "
		 "the file can connect; 0660 admits the user and the group"},
	{OPTION("socket-group", NAME, socket_group, "GROUP"),
	 .default_note =
		 "the server's group, or the directory's group if its set-group-ID bit is set",
	 .help = "group of unix:/PATH in --listen, a name or a number"},
	{OPTION("advertise", ADDRESS, advertise, "HOST:PORT"),
	 .default_note = "the first TCP address of listen or, if there is none, its first address",
	 .help = "address at which other servers and clients reach this server, if it is not "
		 "the --listen address; for a server that listens on all addresses, the "
		 "machine's name"},
	{OPTION("admin-listen", ADMIN, admin_listen, "HOST:PORT"),
	 .default_note = "none; the sample config sets 127.0.0.1:9990",
	 .sample_text = "127.0.0.1:9990",
	 .help = "address of the admin port, which answers operators over HTTP: state, servers, "
		 "IDs. It asks for no password, so only operators must be able to reach it"},
	{OPTION("admin-host", HOSTS, admin_hosts, "NAME"),
	 .default_note = "none, which means only IP addresses and localhost",
	 .help = "host name by which operators reach the admin port, in addition to IP "
		 "addresses and localhost. Other names are refused, because a page of another "
		 "site can make its own name resolve to this machine. Can be given several "
		 "times; in the config file, separate the names by semicolons"},

	{OPTION("tls-certificate", PATH, tls_certificate, "FILE"), .heading = "Trust", EMBEDDED,
	 .default_note = "none; required if listen contains a tls: address",
	 .help = "certificate of the server and its intermediate certificates, in PEM format; "
		 "read again on SIGHUP, with the key. The server also presents it to servers "
		 "that it calls"},
	{OPTION("tls-key", PATH, tls_key, "FILE"), EMBEDDED, .default_note = "none",
	 .help = "private key for --tls-certificate, in PEM format, without a password"},
	{OPTION("tls-client-ca", PATH, tls_client_ca, "FILE"), OF_TLS,
	 .default_note = "none, so clients need no certificate",
	 .help = "CA certificates for clients: a client that calls with TLS must have a "
		 "certificate that one of these CAs signed; read again on SIGHUP"},
	{OPTION("tls-ca", PATH, tls_ca, "FILE"), EMBEDDED,
	 .default_note = "tls-client-ca, or the system trust store",
	 .help = "CA certificates for verifying the servers that this server calls with TLS: "
		 "the --relay servers and, before a claim, its peers in the datacenter; read again "
		 "when the file has changed"},
	{OPTION("allow", ALLOW, allow, "LIST"), REREAD,
	 .default_note = "none, which allows all clients",
	 .help = "clients that are allowed to connect, separated by commas: addresses and "
		 "networks, such as "
		 "192.0.2.7, 10.0.0.0/8 and 2001:db8::/32, or certificate:NAME, a name in the "
		 "client's certificate, which requires --tls-client-ca. A client must match "
		 "one entry. For local sockets, use --socket-mode"},

	{OPTION("relay", SERVERS, relay, "SERVERS"), .heading = "Relay",
	 .default_note = "none, so the server issues IDs itself",
	 .help = "hand out IDs from these servers, HOST:PORT or unix:/PATH separated by commas, "
		 "instead of issuing IDs. A relay needs no worker ID, and refuses the options of "
		 "the next three groups"},
	{OPTION("relay-discover", FLAG, relay_discover, NULL), OF_RELAY, .default_text = "false",
	 .help = "ask these servers for the list of all servers every 10 s, and use those as well"},
	{OPTION("relay-agent", NAME, relay_agent, "AGENT"), OF_RELAY,
	 .default_text = "snowflake-relay",
	 .help = "useragent in the relay's calls to these servers. The relay itself checks "
		 "and logs the useragents of its clients"},
	{NUMBER("relay-prefetch", relay_prefetch_ms, "MS", 1, 10000, "50"), OF_RELAY,
	 .help = "how long the prefetched IDs should last at the current rate"},
	{NUMBER("relay-max-age", relay_max_age_ms, "MS", 2, 3600000, "1000"), OF_RELAY,
	 .help = "age at which the relay discards a prefetched ID; at least twice "
		 "--relay-prefetch"},

	{NUMBER("datacenter-id", datacenter_id, "N", 0, G_MAXINT64, NULL), .heading = "Worker ID",
	 .default_note = "none, which means 0; required with a shared registry", EMBEDDED,
	 OF_ISSUER, .help = "datacenter ID in every ID; 0 to 31 in the layout twitter"},
	{NUMBER("worker-id", worker_id, "N", 0, G_MAXINT64, NULL), .words = WORKER_IDS,
	 .default_note = "none, which means 0, or any free worker ID with a shared registry",
	 EMBEDDED, OF_ISSUER,
	 .help = "worker ID in every ID: a number (0 to 31 in the layout twitter), or mac, ip or "
		 "ordinal to derive it from the low bits of the machine's MAC or IP address, or "
		 "from the number at the end of its host name, such as ids-3. With a shared "
		 "registry, a derived worker ID is only preferred. Without one, required if other "
		 "machines can reach the --listen address"},
	{OPTION("state-directory", PATH, state_directory, "DIR"),
	 .default_note = "$STATE_DIRECTORY, else /var/lib/snowflaked for root, else "
			 "$XDG_STATE_HOME/snowflaked",
	 EMBEDDED, OF_ISSUER,
	 .help = "directory for the reservations of worker IDs; do not copy it to another "
		 "machine"},

	{OPTION("zookeeper", ZOOKEEPER, zookeeper, "HOSTS"), .heading = "Shared registry",
	 .default_note = "none, so reservations are stored in the state directory", EMBEDDED,
	 OF_ISSUER,
	 .help = "ZooKeeper for reservations that many machines share: HOST:PORT of each of "
		 "its servers, separated by commas, or tls:HOST:PORT if the ZooKeeper client "
		 "library supports TLS. Append /PATH for a root other "
		 "than " ZOOKEEPER_HOSTS_DEFAULT_ROOT},
	{OPTION("zookeeper-auth", PATH, zookeeper_auth, "FILE"), OF_ZOOKEEPER,
	 .default_note = "none, so anyone can write the server's znodes", EMBEDDED,
	 .help = "file whose first line is USER:PASSWORD, for ZooKeeper's digest scheme"},
	{OPTION("postgresql", POSTGRESQL, postgresql, "CONNINFO"),
	 .default_note = "none, so reservations are stored in ZooKeeper or the state directory",
	 EMBEDDED, OF_ISSUER,
	 .help = "PostgreSQL for reservations that many machines share, instead of ZooKeeper: a "
		 "connection string or URI of libpq, without a password: use a password file. "
		 "For several hosts, add target_session_attrs=read-write"},
	{OPTION("postgresql-schema", SCHEMA, postgresql_schema, "NAME"), OF_POSTGRESQL, EMBEDDED,
	 .default_text = POSTGRESQL_DEFAULT_SCHEMA,
	 .help = "schema that contains the registry; snowflakectl registry init creates it"},
	{NUMBER("session-timeout", session_timeout_ms, "MS", 1000, ZNODES_MAX_SESSION_TIMEOUT_MS,
		"10000"),
	 OF_STORE, EMBEDDED,
	 .help = "how long a server can be silent before the registry ends its session; ZooKeeper "
		 "can change the value to fit its own limits, and with PostgreSQL it is at least "
		 "3000"},
	{NUMBER("connect-timeout", connect_timeout_ms, "MS", 100, 3600000, "30000"), OF_STORE,
	 EMBEDDED,
	 .help = "how long a starting server tries to connect to the registry before it exits"},
	{NUMBER("reservation", reservation_ms, "MS", 1000, ZNODES_MAX_RESERVATION_MS, "600000"),
	 OF_STORE, EMBEDDED,
	 .help = "longest reservation of a worker ID. If the registry is unreachable, a server "
		 "continues for at least three quarters of it. If a server is killed, its worker "
		 "ID stays reserved for at most this long"},
	{OPTION("registry-id", UUID, registry_id, "UUID"), OF_STORE,
	 .default_note = "none, which allows any registry", EMBEDDED,
	 .help = "use only the registry with this ID, which snowflakectl registry init prints, "
		 "and refuse any other"},
	{OPTION("create-registry", FLAG, create_registry, NULL), OF_STORE, .default_text = "false",
	 EMBEDDED,
	 .help = "if there is no registry at the root or in the schema, create one instead of "
		 "failing. Without this option, snowflakectl registry init creates it"},
	{OPTION("skip-sanity-checks", FLAG, skip_sanity_checks, NULL), OF_STORE,
	 .default_text = "false", EMBEDDED,
	 .help = "claim a worker ID without first comparing IDs and clocks with the other servers "
		 "of the datacenter"},

	{OPTION("layout", LAYOUT, layout, "L"), .heading = "IDs", .default_text = "twitter",
	 EMBEDDED,
	 .help = "how the bits of an ID are divided into fields: a name from snowflakectl layouts, "
		 "or, separated by commas without spaces: epoch_ms=N, tick_ms=N, time_bits=N, "
		 "datacenter_bits=N, worker_bits=N and sequence_bits=N. If the bits do not add up "
		 "to 63, also total_bits=N"},
	{NUMBER("max-ahead", max_ahead_ms, "MS", 0, 60000, "10"), EMBEDDED, OF_ISSUER,
	 .help = "how far the time in IDs can be ahead of the clock, during a burst or after the "
		 "clock has stepped back; 0 behaves like the original service"},
	{NUMBER("max-clock-skew", max_clock_skew_ms, "MS", 1, ZNODES_MAX_CLOCK_SKEW_MS, "10000"),
	 EMBEDDED,
	 .help = "largest clock error that the server accepts. It ignores a larger jump forward at "
		 "first. It does not start if its clock differs by more from the registry's clock. "
		 "A "
		 "relay ignores the clock of a server that differs by more from its own"},
	{OPTION("on-clock-step", CHOICE, on_clock_step, "WHAT"), .choices = STEPS,
	 .default_text = "refuse", EMBEDDED, OF_ISSUER,
	 .help = "what to do when the clock has stepped back by more than --max-ahead. With "
		 "\"refuse\", the server refuses calls until the clock has caught up. With "
		 "\"reclaim\", it claims another worker ID; this requires a shared registry, and "
		 "--worker-id must not be a number"},
	{NUMBER("sequence-start", sequence_start, "N", 1, G_MAXINT64, "1"),
	 .words = SEQUENCE_STARTS, EMBEDDED, OF_ISSUER,
	 .help = "with a number N, each tick begins at a random sequence below N. N is at most "
		 "2^sequence_bits; with 1, each tick begins at 0. With \"continue\", each tick "
		 "begins after the last sequence of the previous tick. With 2^sequence_bits or "
		 "\"continue\", IDs are spread evenly modulo any number, even at a low rate"},
	{NUMBER("max-batch", max_batch, "N", 1, 1000000, "10000"),
	 .help = "maximum number of IDs in one call to get_ids or get_id_runs, or fewer if "
		 "--max-ahead does not allow as many; get_uuids and get_ulids allow at most 10000"},
	{NUMBER("max-wait", max_wait_ms, "MS", 0, 60000, "1000"), EMBEDDED,
	 .help = "how long a call can wait for the clock or for a reservation before it is "
		 "refused"},

	{NUMBER("threads", threads, "N", 1, 256, NULL), .heading = "Connections",
	 .default_note = "half of the cores, at least 1",
	 .help = "number of event loops; each has its own connections"},
	{NUMBER("max-connections", max_connections, "N", 1, 1000000, "10000"),
	 .help = "maximum number of connections. A further connection replaces a connection that "
		 "has been idle for 10 s, from the client address with the most connections; if "
		 "there is none, the further connection is closed"},
	{NUMBER("max-connections-per-address", max_connections_per_address, "N", 0, 1000000, "0"),
	 REREAD,
	 .help = "maximum number of connections from one client address, or from one user on local "
		 "sockets; further connections are closed; 0 means no limit"},
	{NUMBER("max-frame", max_frame_bytes, "BYTES", 256, 16777215, "65536"),
	 .help = "maximum size of one call"},
	{NUMBER("max-depth", max_depth, "N", 1, 1000, "64"),
	 .help = "maximum nesting depth of structs, lists, sets and maps in one call"},
	{NUMBER("frame-timeout", frame_timeout_ms, "MS", 1, 3600000, "10000"),
	 .help = "how long a call can take to arrive, from its first byte to its last"},
	{NUMBER("idle-timeout", idle_timeout_ms, "MS", 0, 86400000, "0"),
	 .help = "how long a connection can be idle; 0 means no limit"},
	{NUMBER("max-pending", max_pending_bytes, "BYTES", 4096, 1073741824, "1048576"),
	 .help = "maximum size of the replies that a client has not read; if it is exceeded, the "
		 "server reads no more calls from this client"},
	{NUMBER("write-timeout", write_timeout_ms, "MS", 1, 3600000, "30000"),
	 .help = "how long a client can leave replies unread"},
	{OPTION("no-fast-path", FLAG, no_fast_path, NULL), .default_text = "false",
	 .help = "answer every call with the general code path: the same replies, but slower"},

	{OPTION("audit-log", TARGETS, audit_log, "SINK"), .heading = "Audit log",
	 .default_note = "none",
	 .help = "log of which ID was issued to which agent: file:PATH, or "
		 "scribe://HOST:PORT/CATEGORY, with port 1463 and category snowflake if "
		 "omitted. Can be given several times; in the config file, separate the sinks "
		 "by semicolons"},
	{NUMBER("audit-queue", audit_queue_bytes, "BYTES", 65536, 1073741824, "16777216"),
	 .help = "size of the queue for a slow or unreachable sink, for each sink and each "
		 "thread, rounded down to a power of two. If it is full, further entries are lost, "
		 "and the log reports the gap"},

	{NUMBER("drain-delay", drain_delay_ms, "MS", 0, 3600000, "0"), .heading = "Operation",
	 REREAD,
	 .help = "how long a stopping server continues to serve and reports that it is draining, "
		 "so that clients can fail over to other servers"},
	{NUMBER("stop-timeout", stop_timeout_ms, "MS", 0, 3600000, "5000"), REREAD, EMBEDDED,
	 .help = "how long a stop waits for calls in progress. In the remaining time, but for at "
		 "least 1 s each, it waits for the release of the worker ID and for the audit log"},
	{OPTION("log-level", CHOICE, log_level, "LEVEL"), .choices = LEVELS, .default_text = "info",
	 REREAD, EMBEDDED,
	 .help = "least severe level that is logged: error, warning, info or debug"},
	{OPTION("log-format", CHOICE, log_format, "FORMAT"), .choices = FORMATS,
	 .default_text = "auto",
	 .help = "format of the log: logfmt or json on standard error; journal for systemd's "
		 "journal, with its fields; auto is journal if standard error is connected to the "
		 "journal, otherwise logfmt"},
	{ONLY_ARGS("config", PATH, config, "FILE"),
	 .help = "read options from this file; options on the command line override it"},
	{ONLY_ARGS("print-config", FLAG, print_config, NULL),
	 .help = "print a config file that lists every option and its default, and exit"},
	{ONLY_ARGS("help", FLAG, help, NULL), .help = "print this text, and exit"},
	{ONLY_ARGS("version", FLAG, version, NULL), .help = "print the version, and exit"},
};

const guint OPTIONS_TABLE_LENGTH = G_N_ELEMENTS(OPTIONS_TABLE);

#define HELP_INDENT "                          "

/* Maximum width of the usage after the dashes. A longer usage gets its own line. */
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
		g_string_append_printf(range, "%" G_GINT64_FORMAT " to the layout's limit",
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

/* Appends the help text with the range, the default and whether SIGHUP rereads it: "(0 to 60000 ms,
 * default 10, reread on SIGHUP)". */
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
	GString *out = g_string_new("# snowflaked reads this file with --config FILE. Lines that "
				    "begin with # are\n# comments. A # without a space after it "
				    "precedes an option at its default.\n\n[snowflaked]\n");

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
