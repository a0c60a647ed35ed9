/* SPDX-License-Identifier: Apache-2.0 */

/* The command line tool: parses options, and runs one command. */

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/version.h"
#include "core/text.h"
#include "ctl/command.h"
#include "ctl/output.h"
#include "ctl/probe.h"
#include "ctl/settings.h"
#include "options/help-text.h"

/* called by the parser of options, see run_help() */
static const CtlCommand help_command = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "Shows the options, or the help for a command.",
};

#define N_COMMANDS 16

/* Its last element is NULL. */
static const CtlCommand *const COMMANDS[N_COMMANDS + 1] = {
	&ctl_id_command,      &ctl_ulid_command,  &ctl_uuid_command,       &ctl_decode_command,
	&ctl_layouts_command, &ctl_range_command, &ctl_ping_command,       &ctl_status_command,
	&ctl_workers_command, &ctl_top_command,   &ctl_registry_command,   &ctl_audit_command,
	&ctl_config_command,  &ctl_bench_command, &ctl_completion_command, &help_command,
};

/* Values from the command line. */
static struct {
	CtlOptions options; /* texts that stay */
	char **arguments;   /* without the command */
	gboolean help, version;
} given;

/* The options that every command has. */
static GOptionEntry common_entries[] = {
	{"server", 0, 0, G_OPTION_ARG_STRING_ARRAY, &given.options.servers,
	 "Server, as HOST:PORT, tls:HOST:PORT or unix:PATH; repeat for failover "
	 "(default $SNOWFLAKE_SERVERS, or " SNOWFLAKE_CLIENT_DEFAULT_SERVER ")",
	 "HOST:PORT"},
	{"zookeeper", 0, 0, G_OPTION_ARG_STRING, &given.options.zookeeper,
	 "ZooKeeper of the servers: HOST:PORT,...[/PATH] (default $SNOWFLAKE_ZOOKEEPER)", "HOSTS"},
	{"zookeeper-auth", 0, 0, G_OPTION_ARG_FILENAME, &given.options.zookeeper_auth,
	 "File with the servers' USER:PASSWORD for ZooKeeper", "FILE"},
	{"postgresql", 0, 0, G_OPTION_ARG_STRING, &given.options.postgresql,
	 "PostgreSQL of the servers: a connection string (default $SNOWFLAKE_POSTGRESQL)",
	 "CONNINFO"},
	{"postgresql-schema", 0, 0, G_OPTION_ARG_STRING, &given.options.postgresql_schema,
	 "Schema of the registry in PostgreSQL (default " POSTGRESQL_DEFAULT_SCHEMA ")", "NAME"},
	{"tls-ca", 0, 0, G_OPTION_ARG_FILENAME, &given.options.tls.ca,
	 "CA certificates for verifying servers (default: the system trust store)", "FILE"},
	{"tls-certificate", 0, 0, G_OPTION_ARG_FILENAME, &given.options.tls.certificate,
	 "Client certificate, for servers that require one", "FILE"},
	{"tls-key", 0, 0, G_OPTION_ARG_FILENAME, &given.options.tls.key, "Key of this certificate",
	 "FILE"},
	{"tls-any-name", 0, 0, G_OPTION_ARG_NONE, &given.options.tls.any_name,
	 "Accept a server certificate with any host name", NULL},
	{"config", 0, 0, G_OPTION_ARG_FILENAME, &given.options.config,
	 "Config file to read instead of the user's and the system's "
	 "(default $" CTL_SETTINGS_VARIABLE ")",
	 "FILE"},
	{"json", 0, 0, G_OPTION_ARG_NONE, &given.options.json, "Print JSON", NULL},
	{"timeout", 0, 0, G_OPTION_ARG_STRING, &given.options.timeout,
	 "Time limit for a call, including connecting and failover (default 3000)", "MS"},
	{"help", 'h', 0, G_OPTION_ARG_NONE, &given.help, "Print this text", NULL},
	{"version", 0, 0, G_OPTION_ARG_NONE, &given.version, "Print the version", NULL},
	{G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &given.arguments, NULL, NULL},
	G_OPTION_ENTRY_NULL,
};

/* (nullable). @name: (nullable) */
static const CtlCommand *find_command(const char *name)
{
	for (gsize i = 0; COMMANDS[i] != NULL; i++) {
		if (g_strcmp0(COMMANDS[i]->name, name) == 0)
			return COMMANDS[i];
	}
	return NULL;
}

/* Returns: (transfer full) (element-type GOptionEntry): the options of every command and those of
 *   @command, NULL-terminated; without a command, those of all commands */
static GArray *list_options(const CtlCommand *command)
{
	GArray *options = g_array_new(TRUE, FALSE, sizeof(GOptionEntry));

	for (const GOptionEntry *entry = common_entries; entry->long_name != NULL; entry++)
		g_array_append_val(options, *entry);
	for (gsize i = 0; COMMANDS[i] != NULL; i++) {
		const GOptionEntry *entry = COMMANDS[i]->entries;

		if (command != NULL && command != COMMANDS[i])
			continue;
		for (; entry != NULL && entry->long_name != NULL; entry++)
			g_array_append_val(options, *entry);
	}
	return options;
}

/* Removes the command from @argv, which is NULL-terminated. The command is the first argument that
 * is neither an option nor an option's value. Returns: (nullable): the command. */
static char *take_command(int *argc, char **argv)
{
	g_autoptr(GArray) options = list_options(NULL);

	for (int i = 1; argv[i] != NULL; i++) {
		char *argument = argv[i];

		if (argument[0] != '-') {
			memmove(argv + i, argv + i + 1, (gsize)(*argc - i) * sizeof(*argv));
			--*argc;
			return argument;
		}
		if (ctl_command_takes_next(ctl_command_find_option(options, argument), argument) &&
		    argv[i + 1] != NULL)
			i++;
	}
	return NULL;
}

static void complain_of_command(const char *name)
{
	g_autofree const char **names = g_new0(const char *, G_N_ELEMENTS(COMMANDS));
	g_autofree char *shown = text_escape(name, strlen(name));
	const char *meant;

	for (gsize i = 0; COMMANDS[i] != NULL; i++)
		names[i] = COMMANDS[i]->name;
	meant = help_text_suggest(name, names);
	if (meant != NULL)
		ctl_output_complain("unknown command \"%s\"; did you mean %s?", shown, meant);
	else
		ctl_output_complain("unknown command \"%s\"; see snowflakectl --help", shown);
}

/* Reports the first option that the parser did not accept and left in @argv. Returns %FALSE if
 * there is one. */
static gboolean check_unknown_options(char **argv, const CtlCommand *command)
{
	while (*argv != NULL &&
	       ((*argv)[0] != '-' || (*argv)[1] == '\0' || strcmp(*argv, "--") == 0))
		argv++;
	if (*argv == NULL)
		return TRUE;

	const char *option = *argv;
	g_autoptr(GArray) options = list_options(command);
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	g_autofree char *shown = text_escape(option, strlen(option));
	gboolean is_long = g_str_has_prefix(option, "--");
	g_autofree char *name = g_strndup(option + 2, is_long ? strcspn(option + 2, "=") : 0);

	for (guint i = 0; i < options->len; i++) {
		const char *known = g_array_index(options, GOptionEntry, i).long_name;

		/* G_OPTION_REMAINING has an empty name */
		if (known[0] != '\0')
			g_ptr_array_add(names, (gpointer)known);
	}
	g_ptr_array_add(names, NULL);

	const char *meant = help_text_suggest(name, (const char *const *)names->pdata);

	if (meant != NULL)
		ctl_output_complain("unknown option \"%s\"; did you mean --%s?", shown, meant);
	else
		ctl_output_complain("unknown option \"%s\"; see snowflakectl %s%s--help", shown,
				    command != NULL ? command->name : "",
				    command != NULL ? " " : "");
	return FALSE;
}

/* Help */

static void print_help(const CtlCommand *command)
{
	g_autofree char *usage = command != NULL
					 ? g_strjoin(" ", command->name, command->arguments, NULL)
					 : g_strdup("COMMAND");
	g_autoptr(GString) summary =
		g_string_new(command != NULL ? command->summary
					     : "Gets IDs from a Snowflake service, lists its "
					       "servers, and decodes IDs.\n\nCommands:");
	g_autoptr(GOptionContext) context = g_option_context_new(usage);
	g_autoptr(GString) wrapped = g_string_new(NULL);

	if (command != NULL && command->details != NULL)
		g_string_append_printf(summary, "\n%s", command->details);
	for (gsize i = 0; command == NULL && COMMANDS[i] != NULL; i++)
		g_string_append_printf(summary, "\n  %-10s %s", COMMANDS[i]->name,
				       COMMANDS[i]->summary);
	if (command == NULL)
		g_string_append(summary,
				"\n\nsnowflakectl COMMAND --help shows a command's options.");
	/* GLib's own help ignores write errors */
	g_option_context_set_help_enabled(context, FALSE);
	g_option_context_set_summary(context, summary->str);
	g_option_context_set_description(context,
					 "The environment and config files also set options; "
					 "snowflakectl config show prints them.\n\n"
					 "Exit status: 0; 1 if a server refused or could not be "
					 "reached; 2 for incorrect usage; 130 after Ctrl-C.");
	if (command != NULL && command->entries != NULL)
		g_option_context_add_main_entries(context, command->entries, NULL);
	g_option_context_add_main_entries(context, common_entries, NULL);

	g_autofree char *help = g_option_context_get_help(context, TRUE, NULL);
	g_auto(GStrv) lines = g_strsplit(help, "\n", -1);

	/* the text ends with a newline, and GLib must not wrap it */
	for (gsize i = 0; lines[i + 1] != NULL; i++) {
		const char *line = lines[i];
		const char *end = g_str_has_prefix(line, "  -") ? strstr(line + 3, "  ") : NULL;
		/* column of an option's description; 0 in other lines */
		gsize column = end != NULL ? (gsize)(end - line) + strspn(end, " ") : 0;
		g_autofree char *indent = g_strnfill(column, ' ');

		g_string_append_len(wrapped, line, (gssize)column);
		help_text_wrap(wrapped, line + column, indent);
	}
	ctl_output_print("%s", wrapped->str);
}

/* Runs "help COMMAND" or COMMAND --help. @command: (nullable): the command to explain; %NULL for
 * the program. @arguments: (nullable): further arguments after "help COMMAND", such as "init" or
 * "quarantine" */
static CtlStatus run_help(const CtlCommand *command, char *const *arguments)
{
	const char *usage = command != NULL && command->arguments != NULL ? command->arguments : "";
	g_auto(GStrv) taken = g_strsplit_set(usage, "| ", -1);
	const char *extra = NULL;

	if (arguments != NULL)
		extra = g_strv_contains((const char *const *)taken, arguments[0]) ? arguments[1]
										  : arguments[0];
	if (extra != NULL) {
		g_autofree char *shown = text_escape(extra, strlen(extra));

		return ctl_output_misuse("help takes one command; unexpected argument \"%s\"",
					 shown);
	}
	print_help(command);
	return CTL_OK;
}

/* Run */

/* Parses @argv, and sets the options of @command, or of all commands. Returns %FALSE, after
 * printing a message, if the usage is incorrect. */
static gboolean parse_options(int argc, char **argv, const CtlCommand *command)
{
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GArray) options = list_options(command);
	g_autoptr(GError) error = NULL;

	/* GLib ignores the value of an option that takes none, such as --yes=false */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const GOptionEntry *option = ctl_command_find_option(options, argv[i]);
		const char *value = strchr(argv[i], '=');

		if (option != NULL && option->arg == G_OPTION_ARG_NONE && value != NULL) {
			ctl_output_complain("--%s takes no value; remove %s", option->long_name,
					    value);
			return FALSE;
		}
	}
	g_option_context_set_help_enabled(context, FALSE);
	/* unknown options stay in argv, so that our own message reports them */
	g_option_context_set_ignore_unknown_options(context, TRUE);
	g_option_context_add_main_entries(context, (const GOptionEntry *)(gpointer)options->data,
					  NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		ctl_output_complain("%s; see snowflakectl --help", error->message);
		return FALSE;
	}
	return check_unknown_options(argv + 1, command);
}

/* Reads the options that @command takes from the environment and the config files. %FALSE, with the
 * message printed, because this is incorrect usage. */
static gboolean load_settings(const CtlCommand *command)
{
	guint uses = (command->takes_no_server ? 0 : CTL_USE_SERVERS) |
		     (command->takes_registry ? CTL_USE_REGISTRY : 0);
	g_autoptr(GError) error = NULL;

	if (ctl_settings_load(&given.options, uses, NULL, &error))
		return TRUE;
	ctl_output_complain("%s", error->message);
	return FALSE;
}

static CtlStatus parse_and_run(int argc, char **argv)
{
	static const char *const NO_ARGUMENTS[] = {NULL};
	gboolean is_help = FALSE;

	if (argc == 5 && strcmp(argv[1], "__complete") == 0) {
		ctl_command_complete(COMMANDS, common_entries, argv[2], argv[3], argv[4]);
		return CTL_OK;
	}

	char *name = take_command(&argc, argv);

	while (g_strcmp0(name, help_command.name) == 0) {
		is_help = TRUE;
		name = take_command(&argc, argv);
	}

	const CtlCommand *command = find_command(name);

	if (command != NULL && command->takes_no_server)
		common_entries[0].flags |= G_OPTION_FLAG_HIDDEN;
	if (!parse_options(argc, argv, command))
		return CTL_USAGE;
	if (command == NULL && (name != NULL || given.arguments != NULL)) {
		complain_of_command(name != NULL ? name : given.arguments[0]);
		return CTL_USAGE;
	}
	if (given.options.json && (given.help || is_help || given.version))
		return ctl_output_misuse("--json has no effect on %s; remove it",
					 given.version ? "--version" : "help");
	if (given.help || is_help)
		return run_help(command, is_help ? given.arguments : NULL);
	if (given.version) {
		ctl_output_print("snowflakectl %s\n", SNOWFLAKE_VERSION);
		return CTL_OK;
	}
	if (command == NULL)
		return ctl_output_misuse("no command is given; see snowflakectl --help");
	if (!load_settings(command) || !ctl_options_check(&given.options))
		return CTL_USAGE;
	if (!command->takes_registry &&
	    (given.options.zookeeper != NULL || given.options.zookeeper_auth != NULL ||
	     given.options.postgresql != NULL || given.options.postgresql_schema != NULL))
		return ctl_output_misuse(
			"%s does not take %s%s", command->name,
			given.options.zookeeper != NULL || given.options.zookeeper_auth != NULL
				? "--zookeeper"
				: "--postgresql",
			command->takes_no_server ? "" : "; use --server HOST:PORT");
	if (command->arguments == NULL && given.arguments != NULL) {
		g_autofree char *shown =
			text_escape(given.arguments[0], strlen(given.arguments[0]));

		return ctl_output_misuse("%s takes no argument; unexpected argument \"%s\"",
					 command->name, shown);
	}
	return command->run(&given.options, given.arguments != NULL
						    ? (const char *const *)given.arguments
						    : NO_ARGUMENTS);
}

int main(int argc, char **argv)
{
	gboolean wants_json = FALSE;
	CtlStatus status;
	int fd;

	/* if descriptors 0 to 2 are closed, keep them from becoming sockets; reading from them and
	 * writing to them still fails */
	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	close(fd);
	/* done before parsing, because the rest of the line may be invalid */
	for (int i = 1; argv[i] != NULL && strcmp(argv[i], "--") != 0; i++)
		wants_json |= strcmp(argv[i], "--json") == 0;
	setlocale(LC_ALL, "");
	/* if there is no reader, write() then returns EPIPE */
	signal(SIGPIPE, SIG_IGN);
	g_set_prgname("snowflakectl");
	ctl_probe_raise_limit();
	ctl_output_begin(wants_json);
	status = parse_and_run(argc, argv);
	ctl_output_end(status);
	return status;
}
