/* SPDX-License-Identifier: Apache-2.0 */

/* The command line tool: options first, then one command. */

#include <locale.h>
#include <signal.h>
#include <string.h>

#include "client/ctl-output.h"
#include "client/ctl.h"
#include "core/text.h"

#define MAX_TIMEOUT_MS     3600000
#define SERVERS_VARIABLE   "SNOWFLAKE_SERVERS"
#define ZOOKEEPER_VARIABLE "SNOWFLAKE_ZOOKEEPER"

static const CtlCommand *const commands[] = {
	&ctl_id_command,      &ctl_decode_command,   &ctl_ping_command,
	&ctl_workers_command, &ctl_registry_command, &ctl_bench_command,
};

gboolean ctl_number(const char *option, const char *text, guint64 min, guint64 max,
		    guint64 *out_number)
{
	if (text == NULL || g_ascii_string_to_unsigned(text, 10, min, max, out_number, NULL))
		return TRUE;

	g_autofree char *shown = text_escape(text, strlen(text));

	ctl_output_complain("%s: \"%s\" is not a whole number from %" G_GUINT64_FORMAT
			    " to %" G_GUINT64_FORMAT,
			    option, shown, min, max);
	return FALSE;
}

char **ctl_servers(const CtlOptions *options)
{
	const char *environment = g_getenv(SERVERS_VARIABLE);
	g_autoptr(GStrvBuilder) servers = g_strv_builder_new();
	g_auto(GStrv) parts = g_strsplit(environment != NULL ? environment : "", ",", -1);

	if (options->servers != NULL)
		return g_strdupv(options->servers);
	for (gsize i = 0; parts[i] != NULL; i++) {
		if (g_strstrip(parts[i])[0] != '\0')
			g_strv_builder_add(servers, parts[i]);
	}

	char **found = g_strv_builder_end(servers);

	if (found[0] == NULL) {
		g_strfreev(found);
		found = g_strsplit(SNOWFLAKE_CLIENT_DEFAULT_SERVER, ",", -1);
	}
	return found;
}

SnowflakeClient *ctl_client_new(const char *const *servers, const CtlOptions *options)
{
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client = snowflake_client_new(servers, &error);

	if (client == NULL)
		ctl_output_complain("%s: %s",
				    options->servers != NULL ? "--server, one at a time"
							     : SERVERS_VARIABLE,
				    error->message);
	else
		snowflake_client_set_timeout_ms(client, options->timeout_ms);
	return client;
}

/* --zookeeper, or what the environment has in its place; an empty one is none. */
static const char *zookeeper_text(const CtlOptions *options)
{
	const char *environment = g_getenv(ZOOKEEPER_VARIABLE);

	if (options->zookeeper != NULL)
		return options->zookeeper;
	if (options->servers != NULL || environment == NULL || environment[0] == '\0')
		return NULL;
	return environment;
}

gboolean ctl_zookeeper_hosts(const CtlOptions *options, ZookeeperHosts **out_hosts, char **out_auth)
{
	const char *text = zookeeper_text(options);
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;
	g_autoptr(GError) error = NULL;

	if (options->zookeeper != NULL && options->servers != NULL) {
		ctl_output_complain("--server or --zookeeper, not both");
		return FALSE;
	}
	if (text != NULL && (hosts = zookeeper_hosts_parse(text, &error)) == NULL) {
		ctl_output_complain("%s: %s",
				    options->zookeeper != NULL ? "--zookeeper" : ZOOKEEPER_VARIABLE,
				    error->message);
		return FALSE;
	}
	if (hosts != NULL && options->zookeeper_auth != NULL &&
	    (auth = zookeeper_auth_read(options->zookeeper_auth, &error)) == NULL) {
		ctl_output_complain("--zookeeper-auth: %s", error->message);
		return FALSE;
	}
	if (hosts == NULL && options->zookeeper_auth != NULL) {
		ctl_output_complain("--zookeeper-auth without --zookeeper");
		return FALSE;
	}
	*out_hosts = g_steal_pointer(&hosts);
	*out_auth = g_steal_pointer(&auth);
	return TRUE;
}

static const CtlCommand *command_by_name(const char *name)
{
	for (gsize i = 0; i < G_N_ELEMENTS(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static gboolean is_option_with_value(const GOptionEntry *entries, const char *argument)
{
	for (const GOptionEntry *entry = entries; entry->long_name != NULL; entry++) {
		/* the entry of what remains has no name; "--" is not it */
		gboolean is_long = entry->long_name[0] != '\0' &&
				   g_str_has_prefix(argument, "--") &&
				   strcmp(argument + 2, entry->long_name) == 0;
		gboolean is_short = argument[1] == entry->short_name && argument[1] != '\0' &&
				    argument[2] == '\0';

		if (is_long || is_short)
			return entry->arg != G_OPTION_ARG_NONE;
	}
	return FALSE;
}

/* The place of the command in @argv: of the first argument that is neither an option nor the value
 * of one; 0 if there is none. */
static int find_command(int argc, char **argv, const GOptionEntry *common)
{
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			return i;

		gboolean has_value = is_option_with_value(common, argv[i]);

		for (gsize j = 0; j < G_N_ELEMENTS(commands); j++)
			has_value |= is_option_with_value(commands[j]->entries, argv[i]);
		if (has_value)
			i++;
	}
	return 0;
}

static char *summarize_commands(void)
{
	GString *summary =
		g_string_new("Asks a Snowflake service for IDs and for its servers, and takes IDs "
			     "apart.\n\n"
			     "Commands:");

	for (gsize i = 0; i < G_N_ELEMENTS(commands); i++)
		g_string_append_printf(summary, "\n  %-8s %s", commands[i]->name,
				       commands[i]->summary);
	g_string_append(summary, "\n\nsnowflakectl COMMAND --help shows a command's options.");
	return g_string_free(summary, FALSE);
}

/* For the --help of a command, or of the program where @command is NULL. */
static GOptionContext *make_context(const CtlCommand *command, const GOptionEntry *common)
{
	g_autofree char *usage = NULL;
	g_autofree char *summary = NULL;

	if (command != NULL) {
		usage = g_strjoin(" ", command->name, command->arguments, NULL);
		summary = g_strjoin("\n", command->summary, command->details, NULL);
	} else {
		usage = g_strdup("COMMAND");
		summary = summarize_commands();
	}

	GOptionContext *context = g_option_context_new(usage);

	/* GLib's own does not see whether it could be written */
	g_option_context_set_help_enabled(context, FALSE);
	g_option_context_set_summary(context, summary);
	g_option_context_set_description(
		context, "Exit status: 0, 1 if refused or not reachable, 2 if used wrongly.");
	if (command != NULL)
		g_option_context_add_main_entries(context, command->entries, NULL);
	g_option_context_add_main_entries(context, common, NULL);
	return context;
}

static CtlStatus run_command(const CtlCommand *command, const CtlOptions *options, char **arguments)
{
	static const char *const none[] = {NULL};

	if (!command->takes_zookeeper &&
	    (options->zookeeper != NULL || options->zookeeper_auth != NULL)) {
		ctl_output_complain("%s does not ask ZooKeeper; it takes --server HOST:PORT",
				    command->name);
		return CTL_USAGE;
	}
	if (command->arguments == NULL && arguments != NULL) {
		ctl_output_complain("%s takes no argument, but there is \"%s\"", command->name,
				    arguments[0]);
		return CTL_USAGE;
	}

	CtlStatus status =
		command->run(options, arguments != NULL ? (const char *const *)arguments : none);

	ctl_output_flush();
	return status;
}

static CtlStatus print_help(GOptionContext *context)
{
	g_autofree char *help = g_option_context_get_help(context, TRUE, NULL);

	ctl_output_print("%s", help);
	ctl_output_flush();
	return CTL_OK;
}

static CtlStatus print_version(void)
{
	ctl_output_print("snowflakectl %s\n", VERSION);
	ctl_output_flush();
	return CTL_OK;
}

static CtlStatus parse_and_run(int argc, char **argv)
{
	CtlOptions options = {.timeout_ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS};
	g_auto(GStrv) servers = NULL;
	g_auto(GStrv) arguments = NULL;
	g_autofree char *timeout = NULL;
	g_autofree char *zookeeper = NULL;
	g_autofree char *zookeeper_auth = NULL;
	gboolean help = FALSE;
	gboolean version = FALSE;
	GOptionEntry common[] = {
		{"server", 0, 0, G_OPTION_ARG_STRING_ARRAY, &servers,
		 "Where to ask; again for others to turn to (default $" SERVERS_VARIABLE
		 ", or " SNOWFLAKE_CLIENT_DEFAULT_SERVER ")",
		 "HOST:PORT"},
		{"zookeeper", 0, 0, G_OPTION_ARG_STRING, &zookeeper,
		 "Where servers register: HOST:PORT,...[/PATH] (default $" ZOOKEEPER_VARIABLE ")",
		 "HOSTS"},
		{"zookeeper-auth", 0, 0, G_OPTION_ARG_FILENAME, &zookeeper_auth,
		 "A file with the servers' USER:PASSWORD for ZooKeeper", "FILE"},
		{"json", 0, 0, G_OPTION_ARG_NONE, &options.json, "Print JSON", NULL},
		{"timeout", 0, 0, G_OPTION_ARG_STRING, &timeout,
		 "For connecting, and for an answer (default 2000)", "MS"},
		{"help", 'h', 0, G_OPTION_ARG_NONE, &help, "Print this", NULL},
		{"version", 0, 0, G_OPTION_ARG_NONE, &version, "Print the version", NULL},
		{G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &arguments, NULL, NULL},
		G_OPTION_ENTRY_NULL,
	};
	int place = find_command(argc, argv, common);
	const CtlCommand *command = place > 0 ? command_by_name(argv[place]) : NULL;
	g_autoptr(GError) error = NULL;

	if (command != NULL && command->takes_no_server)
		common[0].flags |= G_OPTION_FLAG_HIDDEN;

	g_autoptr(GOptionContext) context = make_context(command, common);

	if (command != NULL) {
		/* what remains are its arguments; argv ends in NULL */
		memmove(argv + place, argv + place + 1, (argc - place) * sizeof(*argv));
		argc--;
	}
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		ctl_output_complain("%s; see snowflakectl --help", error->message);
		return CTL_USAGE;
	}
	if (help)
		return print_help(context);
	if (version)
		return print_version();
	if (command == NULL && arguments == NULL) {
		ctl_output_complain("a command is missing; see snowflakectl --help");
		return CTL_USAGE;
	}
	if (command == NULL) {
		ctl_output_complain("there is no command \"%s\"; see snowflakectl --help",
				    arguments[0]);
		return CTL_USAGE;
	}
	if (!ctl_number("--timeout MS", timeout, 1, MAX_TIMEOUT_MS, &options.timeout_ms))
		return CTL_USAGE;
	options.servers = servers;
	options.zookeeper = zookeeper;
	options.zookeeper_auth = zookeeper_auth;
	return run_command(command, &options, arguments);
}

int main(int argc, char **argv)
{
	setlocale(LC_ALL, "");
	/* a reader that goes away is seen where it is written to */
	signal(SIGPIPE, SIG_IGN);
	g_set_prgname("snowflakectl");
	return parse_and_run(argc, argv);
}
