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
#include "options/help-text.h"

#define MAX_TIMEOUT_MS 3600000

/* called by the parser of options, see run_help() */
static const CtlCommand help_command = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "Shows the options, or the help for a command.",
};

static const CtlCommand *const COMMANDS[] = {
	&ctl_id_command,
	&ctl_ulid_command,
	&ctl_uuid_command,
	&ctl_decode_command,
	&ctl_convert_command,
	&ctl_layouts_command,
	&ctl_range_command,
	&ctl_ping_command,
	&ctl_health_command,
	&ctl_status_command,
	&ctl_workers_command,
	&ctl_top_command,
	&ctl_registry_command,
	&ctl_audit_command,
	&ctl_config_command,
	&ctl_bench_command,
	&ctl_completion_command,
	&help_command,
	NULL,
};

/* Values from the command line. */
static struct {
	CtlOptions options; /* texts that stay */
	char **arguments;   /* without the command */
	char *timeout;
	gboolean help, version;
} given;

/* The options that every command has. */
static GOptionEntry common_entries[] = {
	{"server", 0, 0, G_OPTION_ARG_STRING_ARRAY, &given.options.servers,
	 "Server, as HOST:PORT, tls:HOST:PORT or unix:PATH; give several for failover (default "
	 "$" CTL_SERVERS_VARIABLE ", or " SNOWFLAKE_CLIENT_DEFAULT_SERVER ")",
	 "HOST:PORT"},
	{"zookeeper", 0, 0, G_OPTION_ARG_STRING, &given.options.zookeeper,
	 "ZooKeeper of the servers: HOST:PORT,...[/PATH] (default $" CTL_ZOOKEEPER_VARIABLE ")",
	 "HOSTS"},
	{"zookeeper-auth", 0, 0, G_OPTION_ARG_FILENAME, &given.options.zookeeper_auth,
	 "File with the servers' USER:PASSWORD for ZooKeeper", "FILE"},
	{"tls-ca", 0, 0, G_OPTION_ARG_FILENAME, &given.options.tls.ca,
	 "CA certificates for verifying servers (default: the system trust store)", "FILE"},
	{"tls-certificate", 0, 0, G_OPTION_ARG_FILENAME, &given.options.tls.certificate,
	 "Client certificate, for servers that require one", "FILE"},
	{"tls-key", 0, 0, G_OPTION_ARG_FILENAME, &given.options.tls.key, "Key of this certificate",
	 "FILE"},
	{"tls-any-name", 0, 0, G_OPTION_ARG_NONE, &given.options.tls.any_name,
	 "Accept a server certificate with any host name", NULL},
	{"json", 0, 0, G_OPTION_ARG_NONE, &given.options.json, "Print JSON", NULL},
	{"timeout", 0, 0, G_OPTION_ARG_STRING, &given.timeout,
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

static gboolean is_option_with_value(const GOptionEntry *entries, const char *argument)
{
	for (const GOptionEntry *entry = entries; entry->long_name != NULL; entry++) {
		/* G_OPTION_REMAINING has an empty name, which "--" must not match */
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

/* Returns: (transfer full) (element-type GOptionEntry): the options of every command and those of
 *   @command; without a command, those of all commands */
static GPtrArray *list_tables(const CtlCommand *command)
{
	GPtrArray *tables = g_ptr_array_new();

	g_ptr_array_add(tables, common_entries);
	for (gsize i = 0; COMMANDS[i] != NULL; i++) {
		if ((command == NULL || command == COMMANDS[i]) && COMMANDS[i]->entries != NULL)
			g_ptr_array_add(tables, (gpointer)COMMANDS[i]->entries);
	}
	return tables;
}

/* Removes the command from @argv, which is NULL-terminated. The command is the first argument that
 * is neither an option nor an option's value. Returns: (nullable): the command. */
static char *take_command(int *argc, char **argv)
{
	g_autoptr(GPtrArray) tables = list_tables(NULL);

	for (int i = 1; argv[i] != NULL; i++) {
		char *argument = argv[i];
		gboolean has_value = FALSE;

		if (argument[0] != '-') {
			memmove(argv + i, argv + i + 1, (gsize)(*argc - i) * sizeof(*argv));
			--*argc;
			return argument;
		}
		for (guint j = 0; j < tables->len; j++)
			has_value |= is_option_with_value(tables->pdata[j], argument);
		if (has_value && argv[i + 1] != NULL)
			i++;
	}
	return NULL;
}

static void complain_of_command(const char *name)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	g_autofree char *shown = text_escape(name, strlen(name));

	for (gsize i = 0; COMMANDS[i] != NULL; i++)
		g_ptr_array_add(names, (gpointer)COMMANDS[i]->name);
	g_ptr_array_add(names, NULL);

	const char *meant = help_text_suggest(name, (const char *const *)names->pdata);

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
	g_autoptr(GPtrArray) tables = list_tables(command);
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	g_autofree char *shown = text_escape(option, strlen(option));
	gboolean is_long = g_str_has_prefix(option, "--");
	g_autofree char *name = g_strndup(option + 2, is_long ? strcspn(option + 2, "=") : 0);

	for (guint i = 0; i < tables->len; i++) {
		for (const GOptionEntry *entry = tables->pdata[i]; entry->long_name != NULL;
		     entry++) {
			/* G_OPTION_REMAINING has an empty name */
			if (entry->long_name[0] != '\0')
				g_ptr_array_add(names, (gpointer)entry->long_name);
		}
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
	g_option_context_set_description(
		context, "Exit status: 0 on success; 1 if a server refused or could not be "
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
	g_auto(GStrv) taken = g_strsplit(usage, "|", -1);
	const char *extra = NULL;

	if (arguments != NULL)
		extra = g_strv_contains((const char *const *)taken, arguments[0]) ? arguments[1]
										  : arguments[0];
	if (extra != NULL) {
		g_autofree char *shown = text_escape(extra, strlen(extra));

		ctl_output_complain("help takes one command; unexpected argument \"%s\"", shown);
		return CTL_USAGE;
	}
	print_help(command);
	return CTL_OK;
}

/* Run */

static CtlStatus run_command(const CtlCommand *command, const CtlOptions *options, char **arguments)
{
	static const char *const none[] = {NULL};

	if (!command->takes_zookeeper &&
	    (options->zookeeper != NULL || options->zookeeper_auth != NULL)) {
		ctl_output_complain("%s does not take --zookeeper%s", command->name,
				    command->takes_no_server ? "" : "; give --server HOST:PORT");
		return CTL_USAGE;
	}
	if (command->arguments == NULL && arguments != NULL) {
		g_autofree char *shown = text_escape(arguments[0], strlen(arguments[0]));

		ctl_output_complain("%s takes no argument; unexpected argument \"%s\"",
				    command->name, shown);
		return CTL_USAGE;
	}
	return command->run(options, arguments != NULL ? (const char *const *)arguments : none);
}

/* Parses @argv, and sets the options of @command, or of all commands. Returns %FALSE, after
 * printing a message, if the usage is incorrect. */
static gboolean parse_options(int argc, char **argv, const CtlCommand *command)
{
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GPtrArray) tables = list_tables(command);
	g_autoptr(GError) error = NULL;

	g_option_context_set_help_enabled(context, FALSE);
	/* unknown options stay in argv, so that our own message reports them */
	g_option_context_set_ignore_unknown_options(context, TRUE);
	for (guint i = 0; i < tables->len; i++)
		g_option_context_add_main_entries(context, tables->pdata[i], NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		ctl_output_complain("%s; see snowflakectl --help", error->message);
		return FALSE;
	}
	return check_unknown_options(argv + 1, command);
}

static CtlStatus parse_and_run(int argc, char **argv)
{
	guint64 timeout_ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS;
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
	if (given.help || is_help)
		return run_help(command, is_help ? given.arguments : NULL);
	if (given.version) {
		ctl_output_print("snowflakectl %s\n", SNOWFLAKE_VERSION);
		return CTL_OK;
	}
	if (command == NULL) {
		ctl_output_complain("no command is given; see snowflakectl --help");
		return CTL_USAGE;
	}
	if (!ctl_options_number("--timeout MS", given.timeout, 1, MAX_TIMEOUT_MS, &timeout_ms))
		return CTL_USAGE;
	given.options.timeout_ms = (guint)timeout_ms;
	if (!ctl_options_check_tls(&given.options))
		return CTL_USAGE;
	return run_command(command, &given.options, given.arguments);
}

int main(int argc, char **argv)
{
	gboolean wants_json = FALSE;
	CtlStatus status;
	int fd;

	/* if descriptors 0 to 2 are closed, keep them from becoming sockets; writing to one of them
	 * still fails */
	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
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
