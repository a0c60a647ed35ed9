/* SPDX-License-Identifier: Apache-2.0 */

/* Options of a relay, and what goes with them. */
#include <string.h>

#include "options/options-table.h"
#include "options/options.h"

#define RELAY   "--relay a.example "
#define FIFTY   "12345678901234567890123456789012345678901234567890"
#define HUNDRED FIFTY FIFTY

/* Values that are right by themselves, and not the default. */
static const struct {
	const char *name;
	const char *value;
} OF_ISSUER[] =
	{
		{"datacenter-id", "0"},     {"worker-id", "0"},  {"state-directory", "/ids"},
		{"zookeeper", "a.example"}, {"max-ahead", "11"}, {"on-clock-step", "reclaim"},
		{"sequence-start", "2"},
},
  OF_RELAY[] = {
	  {"relay-discover", "true"},
	  {"relay-agent", "other"},
	  {"relay-prefetch", "49"},
	  {"relay-max-age", "1001"},
};

static Options *parse(const char *args, GError **error)
{
	g_autofree char *line = g_strconcat("snowflaked ", args, NULL);
	g_auto(GStrv) argv = g_strsplit(line, " ", -1);

	return options_new_from_args((int)g_strv_length(argv), argv, error);
}

static char *servers_text(const Options *options)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < options->relay->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? " " : "",
				       ((const Address *)options->relay->pdata[i])->text);
	return g_string_free(text, FALSE);
}

static void test_good(void)
{
	static const struct {
		const char *args;
		const char *servers;
		gboolean discover;
		const char *agent;
		gint64 prefetch_ms;
		gint64 max_age_ms;
	} CASES[] = {
		{"--relay a.example", "a.example:7609", FALSE, "snowflake-relay", 50, 1000},
		{"--relay a.example:1,[::1]:2,10.0.0.1 --relay-discover",
		 "a.example:1 [::1]:2 10.0.0.1:7609", TRUE, "snowflake-relay", 50, 1000},
		{"--relay unix:/run/ids,unix:@ids", "unix:/run/ids unix:@ids", FALSE,
		 "snowflake-relay", 50, 1000},
		{"--relay a --relay b --relay-agent batch-7", "b:7609", FALSE, "batch-7", 50, 1000},
		{RELAY "--relay-agent a" HUNDRED HUNDRED FIFTY "12345", "a.example:7609", FALSE,
		 "a" HUNDRED HUNDRED FIFTY "12345", 50, 1000},
		{"--relay a --relay-prefetch 1 --relay-max-age 2", "a:7609", FALSE,
		 "snowflake-relay", 1, 2},
		{"--relay a --relay-prefetch 500", "a:7609", FALSE, "snowflake-relay", 500, 1000},
		{"--relay a --relay-prefetch 10000 --relay-max-age 3600000", "a:7609", FALSE,
		 "snowflake-relay", 10000, 3600000},
		/* what a server has, too */
		{"--relay a --layout discord --max-batch 5 --max-wait 0 --listen unix:/ids "
		 "--audit-log file:/audit --threads 1",
		 "a:7609", FALSE, "snowflake-relay", 50, 1000},
		/* at their defaults, nothing is asked for */
		{"--relay a --max-ahead 10 --on-clock-step refuse --session-timeout 10000",
		 "a:7609", FALSE, "snowflake-relay", 50, 1000},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = parse(CASES[i].args, &error);
		g_autofree char *servers = NULL;

		g_test_message("%s", CASES[i].args);
		g_assert_no_error(error);
		servers = servers_text(options);
		g_assert_cmpstr(servers, ==, CASES[i].servers);
		g_assert_cmpint(options->relay_discover, ==, CASES[i].discover);
		g_assert_cmpstr(options->relay_agent, ==, CASES[i].agent);
		g_assert_cmpint(options->relay_prefetch_ms, ==, CASES[i].prefetch_ms);
		g_assert_cmpint(options->relay_max_age_ms, ==, CASES[i].max_age_ms);
	}
}

static void assert_refused(const char *args, const char *message)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = parse(args, &error);

	g_test_message("%s", args);
	g_assert_null(options);
	g_assert_nonnull(error);
	g_test_message("-> %s", error->message);
	g_assert_null(strchr(error->message, '\n'));
	g_assert_true(g_str_has_prefix(error->message, message));
}

static void test_bad(void)
{
	static const struct {
		const char *args;
		const char *message;
	} CASES[] = {
		{"--relay=", "--relay: there is no server"},
		{"--relay a,", "--relay: a server is missing"},
		{"--relay ,a", "--relay: a server is missing"},
		{"--relay a,,b", "--relay: a server is missing"},
		{"--relay a;b", "--relay: \"a;b\" is not HOST:PORT"},
		{"--relay a:0", "--relay: \"a:0\" is not HOST:PORT"},
		{"--relay a:65536", "--relay: \"a:65536\" is not HOST:PORT"},
		{"--relay *:7609", "--relay: \"*:7609\" is not HOST:PORT"},
		{"--relay unix:ids", "--relay: \"unix:ids\" is not unix:PATH"},
		{RELAY "--relay-agent=", "--relay-agent: the name is empty"},
		{RELAY "--relay-agent 7", "relay-agent: \"7\" is no useragent, which"},
		{RELAY "--relay-agent a_b", "relay-agent: \"a_b\" is no useragent"},
		{RELAY "--relay-agent a" HUNDRED HUNDRED FIFTY "123456", "relay-agent: \"a"},
		{RELAY "--relay-discover=1", "--relay-discover: \"1\" is neither true nor false"},
		{RELAY "--relay-prefetch 0", "--relay-prefetch: \"0\" is not a whole number"},
		{RELAY "--relay-prefetch 10001 --relay-max-age 3600000",
		 "--relay-prefetch: \"10001\" is not a whole number"},
		{RELAY "--relay-prefetch 1 --relay-max-age 1",
		 "--relay-max-age: \"1\" is not a whole number"},
		{RELAY "--relay-max-age 3600001",
		 "--relay-max-age: \"3600001\" is not a whole number"},
		{RELAY "--relay-max-age 99", "relay-max-age: 99 ms is below 100, twice"},
		{RELAY "--relay-prefetch 501", "relay-max-age: 1000 ms is below 1002, twice"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		assert_refused(CASES[i].args, CASES[i].message);
}

/* What would do nothing: a relay issues nothing, and only a relay relays. */
static void test_what_does_nothing(void)
{
	for (gsize i = 0; i < G_N_ELEMENTS(OF_ISSUER); i++) {
		g_autofree char *args =
			g_strdup_printf(RELAY "--%s %s", OF_ISSUER[i].name, OF_ISSUER[i].value);
		g_autofree char *message =
			g_strdup_printf("%s: does nothing with relay, which", OF_ISSUER[i].name);

		assert_refused(args, message);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(OF_RELAY); i++) {
		g_autofree char *args =
			g_strdup_printf("--%s=%s", OF_RELAY[i].name, OF_RELAY[i].value);
		g_autofree char *message =
			g_strdup_printf("%s: does nothing without relay", OF_RELAY[i].name);

		assert_refused(args, message);
	}
	assert_refused(RELAY "--reservation 1000", "reservation: does nothing without zookeeper");
}

/* None is left out above. */
static void test_marks(void)
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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/options-relay/good", test_good);
	g_test_add_func("/options-relay/bad", test_bad);
	g_test_add_func("/options-relay/what-does-nothing", test_what_does_nothing);
	g_test_add_func("/options-relay/marks", test_marks);
	return g_test_run();
}
