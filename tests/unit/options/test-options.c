/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "options/options-table.h"
#include "options/options.h"
#include "tests/unit/unit-test.h"

#define RELAY   "--relay a.example "
#define FIFTY   "12345678901234567890123456789012345678901234567890"
#define HUNDRED FIFTY FIFTY

static Options *parse_words(char **words, GError **error)
{
	g_autoptr(GPtrArray) argv = g_ptr_array_new();

	g_ptr_array_add(argv, (gpointer) "snowflaked");
	for (char **word = words; *word != NULL; word++)
		g_ptr_array_add(argv, *word);
	g_ptr_array_add(argv, NULL);
	return options_new_from_args((int)argv->len - 1, (char **)argv->pdata, error);
}

/* Logs a message. Bytes that are not text are escaped, because TAP needs text. */
static void say(const char *before, const char *bytes)
{
	g_autofree char *shown = g_strescape(bytes, NULL);

	g_test_message("%s %s", before, shown);
}

/* Parses @args, which are separated by single blanks; "" means no arguments. */
static Options *parse(const char *args, GError **error)
{
	g_auto(GStrv) words = g_strsplit(args, " ", -1);

	return parse_words(words, error);
}

/* Parses @args and a config file with @length bytes of @text; @out_path is its name. */
static Options *parse_file(const char *args, const char *text, gssize length, char **out_path,
			   GError **error)
{
	g_autofree char *with_file = NULL;
	Options *options;

	close(g_file_open_tmp("options-XXXXXX", out_path, NULL));
	g_assert_true(g_file_set_contents(*out_path, text, length, NULL));
	with_file = g_strdup_printf("%s%s--config %s", args, *args != '\0' ? " " : "", *out_path);
	options = parse(with_file, error);
	unlink(*out_path);
	return options;
}

/* @text_at: offset of the text in each element of @list */
static char *list_to_string(const GPtrArray *list, gsize text_at)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < list->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? ";" : "",
				       G_STRUCT_MEMBER(char *, list->pdata[i], text_at));
	return g_string_free(text, FALSE);
}

static char *hosts_to_string(const GPtrArray *hosts)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < hosts->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? ";" : "", (char *)hosts->pdata[i]);
	return g_string_free(text, FALSE);
}

static char *field_to_string(const Options *options, const OptionSpec *spec)
{
	gconstpointer field = G_STRUCT_MEMBER_P(options, spec->offset);

	switch (spec->type) {
	case OPTION_NUMBER:
		for (const OptionWord *word = spec->words; word != NULL && word->word != NULL;
		     word++)
			if (word->value == *(const gint64 *)field)
				return g_strdup(word->word);
		return g_strdup_printf("%" G_GINT64_FORMAT, *(const gint64 *)field);
	case OPTION_FLAG:
		return g_strdup(*(const gboolean *)field ? "true" : "false");
	case OPTION_PATH:
	case OPTION_NAME:
	case OPTION_UUID:
	case OPTION_SCHEMA:
		return g_strdup(*(char *const *)field);
	case OPTION_MODE:
		return g_strdup_printf("%o", *(const guint *)field);
	case OPTION_ADDRESS:
	case OPTION_ADMIN:
		return *(Address *const *)field ? g_strdup((*(Address *const *)field)->text) : NULL;
	case OPTION_ADDRESSES:
		return list_to_string(*(GPtrArray *const *)field, offsetof(Address, text));
	case OPTION_SERVERS:
		return *(GPtrArray *const *)field
			       ? list_to_string(*(GPtrArray *const *)field, offsetof(Address, text))
			       : NULL;
	case OPTION_TARGETS:
		return list_to_string(*(GPtrArray *const *)field, offsetof(AuditTarget, text));
	case OPTION_HOSTS:
		return hosts_to_string(*(GPtrArray *const *)field);
	case OPTION_ZOOKEEPER:
		return *(ZookeeperHosts *const *)field
			       ? g_strdup((*(ZookeeperHosts *const *)field)->text)
			       : NULL;
	case OPTION_POSTGRESQL:
		return *(PostgresqlTarget *const *)field
			       ? g_strdup((*(PostgresqlTarget *const *)field)->conninfo)
			       : NULL;
	case OPTION_LAYOUT:
		return layout_to_string(field);
	case OPTION_CHOICE:
		return g_strdup(spec->choices[*(const guint *)field]);
	case OPTION_ALLOW:
		return *(AllowList *const *)field ? g_strdup((*(AllowList *const *)field)->text)
						  : NULL;
	}
	g_assert_not_reached();
}

/* Returns the options that are not at their defaults, as "name=value" in the order of the table,
 * without --config. */
static char *changes(const Options *options)
{
	g_autoptr(Options) defaults = parse("", NULL);
	g_autoptr(GString) text = g_string_new(NULL);

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *value = field_to_string(options, spec);
		g_autofree char *otherwise = field_to_string(defaults, spec);

		if (g_strcmp0(value, otherwise) != 0 && strcmp(spec->name, "config") != 0)
			g_string_append_printf(text, "%s%s=%s", text->len > 0 ? " " : "",
					       spec->name, value);
	}
	return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Checks defaults that the sample config cannot show. test_sample_config_is_defaults() checks the
 * others. */
TEST("/options/defaults", test_defaults)
{
	g_autoptr(Options) options = parse("", NULL);

	g_assert_null(options->advertise);
	g_assert_null(options->relay);
	g_assert_cmpint(options->datacenter_id, ==, -1);
	g_assert_cmpint(options->worker_id, ==, -1);
	g_assert_null(options->state_directory);
	g_assert_null(options->zookeeper);
	g_assert_null(options->zookeeper_auth);
	g_assert_cmpint(options->threads, ==, MAX(1, g_get_num_processors() / 2));
	g_assert_cmpuint(options->audit_log->len, ==, 0);
	g_assert_false(options->help || options->version || options->print_config);
	g_assert_null(options->config);
}

static const struct {
	const char *args;
	const char *changes;
} GOOD_ARGS[] = {
	{"", ""},
	{"--", ""},
	{"--listen *:1 --worker-id 0", "listen=*:1 worker-id=0"},
	{"--listen *:1 --zookeeper b --datacenter-id 1", "listen=*:1 datacenter-id=1 zookeeper=b"},
	{"--listen *:1 --relay b", "listen=*:1 relay=b:7609"},
	{"--listen=[::1]:0 --listen localhost", "listen=[::1]:0;localhost:7609"},
	{"--advertise ids.example.org:80", "advertise=ids.example.org:80"},
	{"--datacenter-id 3", "datacenter-id=3"},
	{"--worker-id 0", "worker-id=0"},
	{"--worker-id=31 --datacenter-id=31", "datacenter-id=31 worker-id=31"},
	{"--worker-id 2097151 --layout uid-generator",
	 "worker-id=2097151 layout=epoch_ms=1474300800000,tick_ms=1000,time_bits=29,"
	 "datacenter_bits=0,worker_bits=21,sequence_bits=13"},
	{"--sequence-start 4096", "sequence-start=4096"},
	{"--sequence-start 8192 --layout uid-generator",
	 "layout=epoch_ms=1474300800000,tick_ms=1000,time_bits=29,"
	 "datacenter_bits=0,worker_bits=21,sequence_bits=13 sequence-start=8192"},
	{"--layout twitter", ""},
	{"--state-directory /var/lib/ids", "state-directory=/var/lib/ids"},
	{"--state-directory \xff", "state-directory=\xff"},
	{"--state-directory --", "state-directory=--"},
	{"--zookeeper a --datacenter-id 0", "datacenter-id=0 zookeeper=a"},
	{"--zookeeper a:1 --datacenter-id 3 --zookeeper b:1,c:1/ids",
	 "datacenter-id=3 zookeeper=b:1,c:1/ids"},
	{"--zookeeper a --datacenter-id 0 --zookeeper-auth /a --session-timeout 4000 "
	 "--connect-timeout 1000 --reservation 60000 "
	 "--registry-id 6BDFBF4E-3A2A-4C6B-9D0E-6A1C3F0B7A55 --create-registry "
	 "--skip-sanity-checks",
	 "datacenter-id=0 zookeeper=a zookeeper-auth=/a session-timeout=4000 connect-timeout=1000 "
	 "reservation=60000 registry-id=6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55 "
	 "create-registry=true skip-sanity-checks=true"},
	{"--no-fast-path", "no-fast-path=true"},
	{"--no-fast-path=true", "no-fast-path=true"},
	{"--no-fast-path=false", ""},
	{"--no-fast-path --threads 200", "threads=200 no-fast-path=true"},
	{"--log-level error", "log-level=error"},
	{"--log-level debug --log-format json", "log-level=debug log-format=json"},
	{"--on-clock-step refuse", ""},
	{"--on-clock-step reclaim --zookeeper a --datacenter-id 0",
	 "datacenter-id=0 zookeeper=a on-clock-step=reclaim"},
	{"--max-ahead 5 --max-ahead 6", "max-ahead=6"},
	{"--max-ahead 010", ""},
	{"--max-batch 1000000 --max-ahead 0", "max-ahead=0 max-batch=1000000"},
	{"--help", "help=true"},
	{"--version", "version=true"},
	{"--print-config", "print-config=true"},
	{"--help --version", "help=true version=true"},
	{"--help --threads x --config /does/not/exist --worker-id 99", "help=true"},
	{"--threads x --version", "version=true"},
	{"--worker-id mac", "worker-id=mac"},
	{"--worker-id=ip", "worker-id=ip"},
	{"--worker-id 3 --worker-id ordinal", "worker-id=ordinal"},
	{"--worker-id mac --worker-id 3", "worker-id=3"},
	{"--zookeeper a --datacenter-id 0 --worker-id ip --on-clock-step reclaim",
	 "datacenter-id=0 worker-id=ip zookeeper=a on-clock-step=reclaim"},
	{"--sequence-start continue", "sequence-start=continue"},
	{"--sequence-start continue --sequence-start 2", "sequence-start=2"},
	/* local sockets */
	{"--listen unix:/run/ids --listen localhost --listen @ids",
	 "listen=unix:/run/ids;localhost:7609;unix:@ids"},
	{"--listen unix:/ids --socket-mode 660 --socket-group ids",
	 "listen=unix:/ids socket-mode=660 socket-group=ids"},
	{"--listen @ids --listen unix:/ids --socket-mode=0000 --socket-group=0",
	 "listen=unix:@ids;unix:/ids socket-mode=0 socket-group=0"},
	{"--listen unix:/ids --socket-mode 0777 --socket-mode 1", "listen=unix:/ids socket-mode=1"},
	/* the default mode needs no file */
	{"--listen @ids --socket-mode 666", "listen=unix:@ids"},
	{"--socket-mode 0666", ""},
	{"--admin-host ids.example --admin-host Other --admin-listen localhost:9990",
	 "admin-listen=localhost:9990 admin-host=ids.example;Other"},
	/* the audit log */
	{"--audit-log=file:/a --audit-log=scribe://b", "audit-log=file:/a;scribe://b"},
	/* relays */
	{"--relay a.example", "relay=a.example:7609"},
	{"--relay a.example:1,[::1]:2,10.0.0.1 --relay-discover",
	 "relay=a.example:1;[::1]:2;10.0.0.1:7609 relay-discover=true"},
	{"--relay unix:/run/ids,unix:@ids", "relay=unix:/run/ids;unix:@ids"},
	{"--relay a --relay b --relay-agent batch-7", "relay=b:7609 relay-agent=batch-7"},
	{RELAY "--relay-agent a" HUNDRED HUNDRED FIFTY "12345",
	 "relay=a.example:7609 relay-agent=a" HUNDRED HUNDRED FIFTY "12345"},
	{"--relay tls:a --tls-certificate /c --tls-key /k",
	 "tls-certificate=/c tls-key=/k relay=tls:a:7609"},
	{"--relay a --relay-prefetch 1 --relay-max-age 2",
	 "relay=a:7609 relay-prefetch=1 relay-max-age=2"},
	{"--relay a --relay-prefetch 500", "relay=a:7609 relay-prefetch=500"},
	{"--relay a --relay-prefetch 10000 --relay-max-age 3600000",
	 "relay=a:7609 relay-prefetch=10000 relay-max-age=3600000"},
	{"--relay a --layout discord --max-batch 5 --max-wait 0 --listen unix:/ids "
	 "--audit-log file:/audit --threads 200",
	 "listen=unix:/ids relay=a:7609 "
	 "layout=epoch_ms=1420070400000,tick_ms=1,time_bits=41,datacenter_bits=5,"
	 "worker_bits=5,sequence_bits=12 max-batch=5 max-wait=0 threads=200 audit-log=file:/audit"},
	/* options at their defaults are accepted */
	{"--relay a --max-ahead 10 --on-clock-step refuse --session-timeout 10000", "relay=a:7609"},
};

TEST("/options/good-args", test_good_args)
{
	for (gsize i = 0; i < G_N_ELEMENTS(GOOD_ARGS); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = parse(GOOD_ARGS[i].args, &error);
		g_autofree char *found = NULL;

		say("", GOOD_ARGS[i].args);
		g_assert_no_error(error);
		found = changes(options);
		g_assert_cmpstr(found, ==, GOOD_ARGS[i].changes);
	}
}

/* Asserts that the message is one line and contains @expected. */
static void assert_refused(const Options *options, const GError *error, const char *expected)
{
	g_assert_null(options);
	g_assert_nonnull(error);
	say("->", error->message);
	g_assert_null(strchr(error->message, '\n'));
	if (strstr(error->message, expected) == NULL)
		g_error("expected \"%s\" in \"%s\"", expected, error->message);
}

static const struct {
	const char *args;
	const char *message;
} BAD_ARGS[] = {
	{"extra", "unexpected argument \"extra\"; see --help"},
	{"--threads 1 extra", "unexpected argument \"extra\""},
	{"-- extra", "\"; see --help"},
	{"-", "\"-\"; see --help"},
	{"--help extra", "--help: \"extra\" is not true or false"},
	{"--nope", "unknown option \"--nope\"; see --help"},
	{"--nope=1", "unknown option \"--nope=1\""},
	{"--nope --help", "unknown option \"--nope\""},
	{"-h", "unknown option \"-h\""},
	{"-t 1", "unknown option \"-t\""},
	{"--thread 1", "unknown option \"--thread\"; did you mean --threads?"},
	{"--Threads=1", "unknown option \"--Threads=1\"; did you mean --threads?"},
	{"--confg x", "unknown option \"--confg\"; did you mean --config?"},
	{"-threads", "unknown option \"-threads\"; see --help"},
	{"--threads", "--threads; see --help"},
	{"--config", "--config; see --help"},
	{"--config=", "--config: the path is empty"},
	{"--config /does/not/exist", "/does/not/exist"},
	{"--config /", "--config: "},
	{"--state-directory=", "--state-directory: the path is empty"},
	{"--listen=", "--listen: \"\" is not HOST:PORT"},
	{"--listen 7609", "--listen: \"7609\" is not HOST:PORT"},
	{"--listen [::1]:1 --listen a:1",
	 "listen: other machines can reach a:1, and servers with the "
	 "same worker ID issue duplicate IDs; set worker-id to "},
	{"--listen *:1 --listen h:x", "--listen: \"h:x\" is not HOST:PORT"},
	{"--listen a:1;b:1", "--listen: \"a:1;b:1\" is not HOST:PORT"},
	{"--advertise *:7609",
	 "--advertise: \"*:7609\" is not HOST:PORT: other machines cannot connect to this address"},
	{"--advertise 0.0.0.0:1", "other machines cannot connect to this address"},
	{"--advertise [::]:1", "other machines cannot connect to this address"},
	{"--advertise host:0", "other machines cannot connect to this address"},
	{"--advertise ::1", "--advertise: \"::1\" is not HOST:PORT"},
	{"--zookeeper=", "--zookeeper: "},
	{"--zookeeper a:x --datacenter-id 0", "--zookeeper: "},
	{"--zookeeper a", "zookeeper: requires datacenter-id; "},
	{"--zookeeper a --worker-id 1", "zookeeper: requires datacenter-id; "},
	{"--zookeeper a --datacenter-id 32",
	 "datacenter ID 32 does not fit the layout, which allows 0 to 31"},
	{"--zookeeper a --datacenter-id 0 --state-directory /a",
	 "state-directory: has no effect with zookeeper, which stores the reservations; remove it"},
	{"--zookeeper-auth /a", "zookeeper-auth: has no effect without zookeeper; remove it"},
	{"--postgresql host=a --datacenter-id 0 --zookeeper a",
	 "postgresql: cannot be combined with zookeeper; remove one"},
	{"--postgresql host=a", "postgresql: requires datacenter-id; "},
	{"--postgresql a", "is not a connection string of PostgreSQL: missing \"=\" after \"a\""},
	{"--postgresql postgresql://u:p@h/d", "contains a password"},
	{"--postgresql-schema a", "postgresql-schema: has no effect without postgresql; remove it"},
	{"--postgresql-schema A", "is not the name of a schema"},
	{"--session-timeout 10001",
	 "session-timeout: has no effect without zookeeper or postgresql; remove it"},
	{"--connect-timeout 100",
	 "connect-timeout: has no effect without zookeeper or postgresql; remove it"},
	{"--reservation 1000",
	 "reservation: has no effect without zookeeper or postgresql; remove it"},
	{"--registry-id 6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55",
	 "registry-id: has no effect without zookeeper or postgresql; remove it"},
	{"--registry-id x", "--registry-id: \"x\" is not a UUID"},
	{"--create-registry",
	 "create-registry: has no effect without zookeeper or postgresql; remove it"},
	{"--skip-sanity-checks",
	 "skip-sanity-checks: has no effect without zookeeper or postgresql; remove it"},
	{"--tls-certificate /c --tls-key /k",
	 "tls-certificate: has no effect without tls:HOST:PORT in listen; add tls: there, or "
	 "remove tls-certificate and tls-key"},
	{"--tls-certificate /c --tls-key /k --zookeeper a --datacenter-id 0",
	 "tls-certificate: has no effect without tls:HOST:PORT in listen"},
	{"--tls-certificate /c --tls-key /k --relay a",
	 "tls-certificate: has no effect without tls:HOST:PORT in listen"},
	{"--layout x", "--layout: unknown layout \"x\""},
	{"--layout=", "--layout: "},
	{"--layout tick_ms=1", "--layout: "},
	{"--log-level loud", "--log-level: \"loud\" is not one of error, warning, info, debug"},
	{"--log-level INFO", "--log-level: \"INFO\""},
	{"--log-format xml", "--log-format: \"xml\" is not one of auto, logfmt, json, journal"},
	{"--on-clock-step wait", "--on-clock-step: \"wait\" is not one of refuse, reclaim"},
	{"--on-clock-step=", "--on-clock-step: \"\" is not one of"},
	{"--no-fast-path=1", "--no-fast-path: \"1\" is not true or false"},
	{"--no-fast-path=", "--no-fast-path: \"\" is not true or false"},
	{"--worker-id 32", "worker ID 32 does not fit the layout, which allows 0 to 31"},
	{"--datacenter-id 32", "datacenter ID 32 does not fit the layout, which allows 0 to 31"},
	{"--datacenter-id 1 --layout uid-generator",
	 "datacenter ID 1 does not fit the layout, which allows 0"},
	{"--worker-id 4294967296", "worker ID 4294967296 does not fit"},
	{"--sequence-start 4097", "sequence-start: 4097 exceeds 4096, "},
	{"--sequence-start 8193 --layout uid-generator", "sequence-start: 8193 exceeds 8192, "},
	{"--threads \x1b[31m", "--threads: \"\\x1b[31m\" is not"},
	/* words instead of numbers */
	{"--worker-id MAC", "--worker-id: \"MAC\" is not a whole number, 0 to the layout's "
			    "limit, or mac or ip or ordinal"},
	{"--worker-id mac0", "--worker-id: \"mac0\" is not a whole number"},
	{"--worker-id mac,ip", "--worker-id: \"mac,ip\" is not a whole number"},
	{"--worker-id continue", "--worker-id: \"continue\" is not a whole number"},
	{"--worker-id -2", "--worker-id: \"-2\" is not a whole number"},
	{"--worker-id=", "--worker-id: \"\" is not a whole number"},
	{"--on-clock-step reclaim",
	 "on-clock-step: \"reclaim\" switches to another worker ID, so "
	 "it requires zookeeper or postgresql, and worker-id must not be a number"},
	{"--zookeeper a --datacenter-id 0 --on-clock-step reclaim --worker-id 0",
	 "on-clock-step: \"reclaim\" switches to another worker ID"},
	{"--on-clock-step reclaim --worker-id ip",
	 "on-clock-step: \"reclaim\" switches to another"},
	{"--sequence-start 0",
	 "--sequence-start: \"0\" is not a whole number, 1 to the layout's limit, or continue"},
	{"--sequence-start Continue", "--sequence-start: \"Continue\" is not a whole"},
	{"--sequence-start=", "--sequence-start: \"\" is not a whole number"},
	/* local sockets */
	{"--listen unix:ids", "--listen: \"unix:ids\" is not unix:PATH: the path is not"},
	{"--listen /ids", "--listen: \"/ids\" is not HOST:PORT: a path must follow unix:"},
	{"--advertise unix:/ids", "--advertise: \"unix:/ids\" is not HOST:PORT: a local"},
	{"--admin-listen @ids", "--admin-listen: \"@ids\" is not HOST:PORT: a local socket"},
	{"--admin-host ids:9990", "--admin-host: \"ids:9990\" is not a host name without"},
	{"--admin-host *", "--admin-host: \"*\" is not a host name"},
	{"--admin-host=", "--admin-host: \"\" is not a host name"},
	{"--admin-host ids", "admin-host: has no effect without admin-listen; remove it"},
	{"--socket-mode 1000", "--socket-mode: \"1000\" is not an octal number from 0000 to "
			       "0777"},
	{"--socket-mode 0680", "--socket-mode: \"0680\" is not an octal number"},
	{"--socket-mode=", "--socket-mode: \"\" is not an octal number"},
	{"--socket-mode u=rw", "--socket-mode: \"u=rw\" is not an octal number"},
	{"--socket-mode 0660", "socket-mode: has no effect without unix:/PATH in listen"},
	{"--socket-mode 0660 --listen @ids", "socket-mode: has no effect without unix:/PATH"},
	{"--socket-group ids", "socket-group: has no effect without unix:/PATH in listen"},
	{"--socket-group= --listen unix:/ids", "--socket-group: the name is empty"},
	/* the audit log */
	{"--audit-log=/a", "--audit-log: \"/a\" is neither file:PATH nor"},
	{"--audit-log=", "--audit-log: \"\" is neither file:PATH nor"},
	{"--audit-log=file:/a --audit-log=scribe:b",
	 "--audit-log: \"scribe:b\" is neither file:PATH nor"},
	{"--audit-log=file:/a --audit-log=file:/b --audit-log=file:/a",
	 "--audit-log: \"file:/a\" is given twice; remove one"},
	{"--audit-log=file:/a\nb --audit-log=file:/a\nb",
	 "--audit-log: \"file:/a\\x0ab\" is given twice; remove one"},
	{"--audit-queue=65535", "--audit-queue: \"65535\" is not a whole number, "},
	/* relays */
	{"--relay=", "--relay: no server is given; specify"},
	{"--relay a,", "--relay: an entry is empty"},
	{"--relay ,a", "--relay: an entry is empty"},
	{"--relay a,,b", "--relay: an entry is empty"},
	{"--relay a;b", "--relay: \"a;b\" is not HOST:PORT"},
	{"--relay a:0", "--relay: \"a:0\" is not HOST:PORT"},
	{"--relay a:65536", "--relay: \"a:65536\" is not HOST:PORT"},
	{"--relay *:7609", "--relay: \"*:7609\" is not HOST:PORT"},
	{"--relay unix:ids", "--relay: \"unix:ids\" is not unix:PATH"},
	{RELAY "--relay-agent=", "--relay-agent: the name is empty"},
	{RELAY "--relay-agent 7", "relay-agent: \"7\" is not a useragent; use"},
	{RELAY "--relay-agent a_b", "relay-agent: \"a_b\" is not a useragent"},
	{RELAY "--relay-agent a" HUNDRED HUNDRED FIFTY "123456", "relay-agent: \"a"},
	{RELAY "--relay-discover=1", "--relay-discover: \"1\" is not true or false"},
	{RELAY "--relay-prefetch 0", "--relay-prefetch: \"0\" is not a whole number"},
	{RELAY "--relay-prefetch 10001 --relay-max-age 3600000",
	 "--relay-prefetch: \"10001\" is not a whole number"},
	{RELAY "--relay-prefetch 1 --relay-max-age 1",
	 "--relay-max-age: \"1\" is not a whole number"},
	{RELAY "--relay-max-age 3600001", "--relay-max-age: \"3600001\" is not a whole number"},
	{RELAY "--relay-max-age 99", "relay-max-age: 99 ms is below 100, twice"},
	{RELAY "--relay-prefetch 501", "relay-max-age: 1000 ms is below 1002, twice"},
};

/* Errors repeat the argument, but shorten a long one. */
TEST("/options/long-args", test_long_args)
{
	static const char *const NAMES[] = {"listen", "zookeeper", "layout",
					    "config", "log-level", "nope"};
	g_autofree char *value = g_strnfill(100000, 'a');

	for (gsize i = 0; i < G_N_ELEMENTS(NAMES); i++) {
		g_autofree char *arg = g_strdup_printf("--%s=%s:x=,", NAMES[i], value);
		char *words[] = {arg, NULL};
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = parse_words(words, &error);

		assert_refused(options, error, NAMES[i]);
		g_assert_cmpuint(strlen(error->message), <, 300);
	}
}

static void assert_args_refused(const char *args, const char *message)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = NULL;

	say("", args);
	options = parse(args, &error);
	assert_refused(options, error, message);
	g_assert_null(parse(args, NULL));
}

TEST("/options/bad-args", test_bad_args)
{
	for (gsize i = 0; i < G_N_ELEMENTS(BAD_ARGS); i++)
		assert_args_refused(BAD_ARGS[i].args, BAD_ARGS[i].message);
}

#define G "[snowflaked]\n"

static const struct {
	const char *args;
	const char *text;
	const char *changes;
} GOOD_FILES[] = {
	{"", "", ""},
	{"", "# nothing\n", ""},
	{"", G, ""},
	{"", G "threads=200\n", "threads=200"},
	{"", G "  threads = 200  \n", "threads=200"},
	{"", G "threads=200\t", "threads=200"},
	{"", G "state-directory= /a b \n", "state-directory=/a b"},
	{"", "[snowflaked]\r\nthreads=200\r\n", "threads=200"},
	{"", G "threads=200\n" G "max-depth=5\n", "threads=200 max-depth=5"},
	{"", G "listen=[::1]:0;*:1\nworker-id=0\n", "listen=[::1]:0;*:1 worker-id=0"},
	{"", G "listen=[::1]:0 ; *:1\nworker-id=0\n", "listen=[::1]:0;*:1 worker-id=0"},
	{"", G "no-fast-path=true\n", "no-fast-path=true"},
	{"--datacenter-id 1", G "zookeeper=a:1,b:1\nreservation=1000\n",
	 "datacenter-id=1 zookeeper=a:1,b:1 reservation=1000"},
	{"--zookeeper b", G "zookeeper=a\ndatacenter-id=1\n", "datacenter-id=1 zookeeper=b"},
	{"", G "no-fast-path=false\n", ""},
	{"", G "state-directory=/a b\\s;c\n", "state-directory=/a b\\s;c"},
	{"", G "state-directory=/\xff\n", "state-directory=/\xff"},
	/* the command line has priority */
	{"--threads 199", G "threads=200\nmax-depth=5\n", "threads=199 max-depth=5"},
	{"--listen b:2", G "listen=a:1;c:3\nworker-id=0\n", "listen=b:2 worker-id=0"},
	{"--no-fast-path=false", G "no-fast-path=true\n", ""},
	{"", G "audit-log=file:/a b ; scribe://c:1/d\n", "audit-log=file:/a b;scribe://c:1/d"},
	{"", G "admin-listen=a:1\nadmin-host=a.example ; b\n",
	 "admin-listen=a:1 admin-host=a.example;b"},
	{"--audit-log=file:/a", G "audit-log=file:/b;file:/c\n", "audit-log=file:/a"},
	{"--layout uid-generator", G "worker-id=40\n",
	 "worker-id=40 layout=epoch_ms=1474300800000,tick_ms=1000,time_bits=29,"
	 "datacenter_bits=0,worker_bits=21,sequence_bits=13"},
};

TEST("/options/good-files", test_good_files)
{
	for (gsize i = 0; i < G_N_ELEMENTS(GOOD_FILES); i++) {
		g_autofree char *path = NULL;
		g_autofree char *found = NULL;
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = NULL;

		say(GOOD_FILES[i].args, GOOD_FILES[i].text);
		options = parse_file(GOOD_FILES[i].args, GOOD_FILES[i].text, -1, &path, &error);
		g_assert_no_error(error);
		g_assert_cmpstr(options->config, ==, path);
		found = changes(options);
		g_assert_cmpstr(found, ==, GOOD_FILES[i].changes);
	}
}

static const struct {
	const char *args;
	const char *text;
	guint line;
	const char *message; /* message after the line */
} BAD_FILES[] = {
	{"", "threads=1\n", 1, "a key before the group; add a line [snowflaked] above it"},
	{"", G "threads\n", 2, "threads"},
	{"", "[snowflaked\nthreads=1\n", 1, "[snowflaked"},
	{"", "\xef\xbb\xbf" G "threads=1\n", 1, "a byte order mark; save the file without it"},
	{"", "[snowflaked] # c\n", 1,
	 "\"[snowflaked] # c\" is not a group; put the comment on its own line"},
	{"", "[server]\n", 1, "unknown group [server]; the only group is [snowflaked]"},
	{"", G "threads=1\n[other]\n", 3, "unknown group [other]"},
	{"", G "thread=1\n", 2, "unknown key \"thread\"; did you mean threads?"},
	{"", G "Threads=1\n", 2, "unknown key \"Threads\""},
	{"", G "\xc3\xa4=1\n", 2, "unknown key \"\\xc3\\xa4\""},
	{"", G "threads[de]=1\n", 2, "unknown key \"threads[de]\""},
	{"", G "config=x\n", 2, "unknown key \"config\"; --print-config lists all keys"},
	{"", G "help=true\n", 2, "unknown key \"help\""},
	{"", G "threads=1\nthreads=1\n", 3, "threads is given twice; remove one"},
	{"", G "threads=1\n" G "threads=2\n", 4, "threads is given twice"},
	{"", G "listen=a:1\nlisten=b:1\n", 3, "listen is given twice"},
	{"", G "threads=\n", 2, "threads: \"\" is not a whole number, 1 to 256"},
	{"", G "threads=4 # four\n", 2, "threads: \"4 # four\" is not a whole number"},
	{"", G "threads=257\n", 2, "threads: \"257\" is not a whole number, 1 to 256"},
	{"", G "listen=\n", 2, "listen: \"\" is not HOST:PORT"},
	{"", G "listen=a:1;\n", 2, "; remove the semicolon at the end"},
	{"", G "listen=;a:1\n", 2, "listen: \"\" is not HOST:PORT"},
	{"", G "listen=a:1,b:1\n", 2, "listen: \"a:1,b:1\" is not HOST:PORT"},
	{"", G "advertise=\n", 2, "advertise: \"\" is not HOST:PORT"},
	{"", G "state-directory=\n", 2, "state-directory: the path is empty"},
	{"", G "state-directory=ids\n", 2, "state-directory: \"ids\" is not an absolute path"},
	{"", G "state-directory=\"/ids\"\n", 2, "is not an absolute path"},
	{"", G "state-directory=/ids # x\n", 2,
	 "state-directory: the path contains \" #\"; put the comment on its own line"},
	{"", G "state-directory=\"/ids\"\n", 2, "is not an absolute path; remove the quotes"},
	{"", G "no-fast-path\n", 2, "no-fast-path"},
	{"", G "no-fast-path=1\n", 2, "no-fast-path: \"1\" is not true or false"},
	{"", G "no-fast-path=True\n", 2, "no-fast-path: \"True\" is not true or false"},
	{"", G "zookeeper=\n", 2, "zookeeper: "},
	{"", G "zookeeper=a\ndatacenter-id=1\nzookeeper-auth=a\n", 4,
	 "zookeeper-auth: \"a\" is not an absolute path"},
	{"", G "audit-log=\n", 2, "audit-log: \"\" is neither file:PATH nor"},
	{"", G "audit-log=file:/a;\n", 2, "audit-log: \"\" is neither file:PATH nor"},
	{"", G "audit-log=file:a\n", 2, "audit-log: \"file:a\" is not an absolute path"},
	{"", G "log-level=loud\n", 2, "log-level: \"loud\" is not one of"},
	{"", G "layout=x\n", 2, "layout: unknown layout \"x\""},
	{"", G "threads: 4\n", 2, "\"threads: 4\" is not KEY=VALUE"},
	{"", G "threads=\"4\"\n", 2,
	 "threads: '\"4\"' is not a whole number, 1 to 256; remove the quotes"},
	{"", G "#\n\nthreads=4 # four\n", 4, "1 to 256; put the comment on its own line"},
	{"", G "worker-id=1\nlisten=a:1,b:1\n", 3,
	 "it is more than one address; separate the values with semicolons"},
	/* options that contradict each other */
	{"", G "session-timeout=10001\n", 2, "session-timeout: has no effect without zookeeper"},
	{"", G "datacenter-id=32\n", 2, "datacenter-id: datacenter ID 32 does not fit the layout"},
	{"", G "worker-id=32\n", 2, "worker-id: worker ID 32 does not fit the layout"},
	{"", G "listen=127.0.0.1:7609\nadmin-listen=127.0.0.1:7609\n", 3,
	 "admin-listen: 127.0.0.1:7609 is in listen, too; use a different port"},
	{"", G "listen=a:7609\nrelay=b,a\n", 3,
	 "relay: a:7609 is the relay's own address in listen; use the addresses of servers"},
	/* even if the command line overrides it */
	{"--threads 1", G "threads=0\n", 2, "threads: \"0\" is not a whole number"},
};

TEST("/options/bad-files", test_bad_files)
{
	for (gsize i = 0; i < G_N_ELEMENTS(BAD_FILES); i++) {
		g_autofree char *path = NULL;
		g_autofree char *prefix = NULL;
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = NULL;

		say(BAD_FILES[i].args, BAD_FILES[i].text);
		options = parse_file(BAD_FILES[i].args, BAD_FILES[i].text, -1, &path, &error);
		assert_refused(options, error, BAD_FILES[i].message);
		prefix = g_strdup_printf("%s:%u: ", path, BAD_FILES[i].line);
		g_assert_true(g_str_has_prefix(error->message, prefix));
	}
}

/* The path in a message is escaped, and complete. */
TEST("/options/path-of-file", test_path_of_file)
{
	g_autofree char *directory = g_dir_make_tmp("snowflake-XXXXXX", NULL);
	g_autofree char *path = g_strdup_printf("%s/%0100d\n", directory, 1);
	g_autofree char *arg = g_strconcat("--config=", path, NULL);
	g_autofree char *begin = g_strdup_printf("%s/%0100d\\x0a:2: ", directory, 1);
	char *argv[] = {(char *)"snowflaked", arg, NULL};

	for (int i = 0; i < 2; i++) {
		g_autoptr(GError) error = NULL;

		g_file_set_contents(path, i == 0 ? G "thread=1\n" : G "threads=x\n", -1, NULL);
		g_assert_null(options_new_from_args(2, argv, &error));
		g_assert_true(g_str_has_prefix(error->message, begin));
	}
	unlink(path);
	rmdir(directory);
}

TEST("/options/file-with-nul", test_file_with_nul)
{
	static const char TEXT[] = G "threads=4\0garbage\n";
	g_autofree char *path = NULL;
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = parse_file("", TEXT, sizeof TEXT - 1, &path, &error);

	assert_refused(options, error, "not a text file");
}

TEST("/options/argv", test_argv)
{
	char *argv[] = {(char *)"snowflaked", (char *)"--threads", (char *)"3", NULL};
	char *before[G_N_ELEMENTS(argv)];
	g_autoptr(Options) without_program = options_new_from_args(0, (char *[]){NULL}, NULL);
	g_autoptr(Options) options = NULL;

	g_assert_nonnull(without_program);
	/* options_new_from_args() does not change argv */
	memcpy(before, argv, sizeof argv);
	options = options_new_from_args(3, argv, NULL);
	g_assert_cmpint(options->threads, ==, 3);
	g_assert_cmpmem(argv, sizeof argv, before, sizeof before);
}

/* If each default in the comments of the sample becomes an option, only the options set by the
 * sample differ from the defaults. */
TEST("/options/sample-config-is-defaults", test_sample_config_is_defaults)
{
	g_autofree char *sample = options_table_sample_config();
	g_auto(GStrv) lines = g_strsplit(sample, "\n", -1);
	g_autoptr(GString) text = g_string_new(NULL);
	g_autofree char *found = NULL;
	g_autofree char *path = NULL;
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = NULL;
	guint n_keys = 0, n_set = 0;

	for (char **line = lines; *line != NULL; line++) {
		gboolean is_key = g_regex_match_simple("^#?[a-z]", *line, 0, 0);
		gboolean is_set = is_key && **line == '#' && !g_str_has_suffix(*line, "=");

		n_keys += is_key;
		n_set += is_set;
		g_string_append_printf(text, "%s\n", *line + is_set);
	}
	options = parse_file("", text->str, -1, &path, &error);
	g_assert_no_error(error);
	found = changes(options);
	g_assert_cmpstr(found, ==, "admin-listen=127.0.0.1:9990");
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		n_keys -= !OPTIONS_TABLE[i].only_args;
		n_set -= OPTIONS_TABLE[i].default_text != NULL;
	}
	g_assert_cmpuint(n_keys, ==, 0);
	g_assert_cmpuint(n_set, ==, 0);
}

/* Valid values that are not the defaults. */
static const struct {
	const char *name;
	const char *value;
} OF_ISSUER[] =
	{
		{"datacenter-id", "0"},     {"worker-id", "0"},       {"state-directory", "/ids"},
		{"zookeeper", "a.example"}, {"max-ahead", "11"},      {"on-clock-step", "reclaim"},
		{"sequence-start", "2"},    {"postgresql", "host=a"},
},
  OF_RELAY[] = {
	  {"relay-discover", "true"},
	  {"relay-agent", "other"},
	  {"relay-prefetch", "49"},
	  {"relay-max-age", "1001"},
};

/* An option without effect is refused: a relay issues no IDs, and only a relay has upstreams. */
TEST("/options/relay-what-does-nothing", test_what_does_nothing)
{
	for (gsize i = 0; i < G_N_ELEMENTS(OF_ISSUER); i++) {
		g_autofree char *args =
			g_strdup_printf(RELAY "--%s %s", OF_ISSUER[i].name, OF_ISSUER[i].value);
		g_autofree char *message =
			g_strdup_printf("%s: has no effect with relay, because", OF_ISSUER[i].name);

		assert_args_refused(args, message);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(OF_RELAY); i++) {
		g_autofree char *args =
			g_strdup_printf("--%s=%s", OF_RELAY[i].name, OF_RELAY[i].value);
		g_autofree char *message = g_strdup_printf(
			"%s: has no effect without relay; remove it", OF_RELAY[i].name);

		assert_args_refused(args, message);
	}
	assert_args_refused(RELAY "--reservation 1000",
			    "reservation: has no effect without zookeeper or postgresql; "
			    "remove it");
}

/* The tables above are complete. */
TEST("/options/relay-marks", test_marks)
{
	guint of_issuer = 0;
	guint of_relay = 0;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		of_issuer += spec->of_issuer;
		of_relay += spec->of_relay;
		g_assert_cmpint(spec->of_relay, ==, g_str_has_prefix(spec->name, "relay-"));
	}
	g_assert_cmpuint(of_issuer, ==, G_N_ELEMENTS(OF_ISSUER));
	g_assert_cmpuint(of_relay, ==, G_N_ELEMENTS(OF_RELAY));
}

/* The ranges of numeric options */

/* Returns the options that must be set so that the whole range is allowed. */
static const char *const *needs_of(const OptionSpec *spec)
{
	static const char *const nothing[] = {NULL};
	static const char *const zookeeper[] = {"zookeeper=a", "datacenter-id=0", NULL};
	static const char *const relay[] = {"relay=a", "relay-max-age=3600000", NULL};
	static const char *const max_age[] = {"relay=a", "relay-prefetch=1", NULL};

	if (spec->of_store)
		return zookeeper;
	if (!spec->of_relay)
		return nothing;
	return strcmp(spec->name, "relay-max-age") == 0 ? max_age : relay;
}

/* Parses @value from the command line and from a file, which must agree. */
static Options *parse_number(const OptionSpec *spec, const char *value, GError **error)
{
	g_autoptr(GString) text = g_string_new("[snowflaked]\n");
	g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(Options) from_file = NULL;
	g_autofree char *path = NULL;
	Options *from_args;

	g_ptr_array_add(words, g_strdup_printf("--%s=%s", spec->name, value));
	g_string_append_printf(text, "%s=%s\n", spec->name, value);
	for (const char *const *need = needs_of(spec); *need != NULL; need++) {
		g_ptr_array_add(words, g_strconcat("--", *need, NULL));
		g_string_append_printf(text, "%s\n", *need);
	}
	g_ptr_array_add(words, NULL);
	g_test_message("%s", (const char *)words->pdata[0]);
	from_file = parse_file("", text->str, -1, &path, NULL);
	from_args = parse_words((char **)words->pdata, error);
	g_assert_cmpint(from_file != NULL, ==, from_args != NULL);
	return from_args;
}

static void assert_number(const OptionSpec *spec, gint64 value)
{
	g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT, value);
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = parse_number(spec, text, &error);

	g_assert_no_error(error);
	g_assert_cmpint(G_STRUCT_MEMBER(gint64, options, spec->offset), ==, value);
}

static void assert_no_number(const OptionSpec *spec, const char *text)
{
	g_autofree char *range = options_table_range(spec);
	g_autofree char *message =
		g_strdup_printf("--%s: \"%s\" is not a whole number, %s", spec->name, text, range);
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = parse_number(spec, text, &error);

	g_assert_null(options);
	g_assert_cmpstr(error->message, ==, message);
}

/* Tries both ends of every range, one past each end, and strings that are not numbers. */
TEST("/options/number-ranges", test_numbers)
{
	static const char *const BAD[] = {
		"",
		"x",
		"1x",
		"1.0",
		"1e3",
		"0x10",
		"-1",
		"+1",
		"1,000",
		"1_000",
		"1 2",
		"--1",
		"inf",
		"9223372036854775808",
		"-9223372036854775809",
		"18446744073709551615",
		"18446744073709551616",
		"18446744073709551617",
		"99999999999999999999999999999999",
	};

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		if (spec->type != OPTION_NUMBER)
			continue;
		for (gsize j = 0; j < G_N_ELEMENTS(BAD); j++)
			assert_no_number(spec, BAD[j]);
		assert_number(spec, spec->min);
		if (spec->min > 0) {
			g_autofree char *below =
				g_strdup_printf("%" G_GINT64_FORMAT, spec->min - 1);

			assert_no_number(spec, below);
		}
		if (spec->max < G_MAXINT64) {
			g_autofree char *above =
				g_strdup_printf("%" G_GINT64_FORMAT, spec->max + 1);

			assert_number(spec, spec->max);
			assert_no_number(spec, above);
		}
	}
}
