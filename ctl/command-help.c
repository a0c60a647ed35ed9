/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/command-help.h"

#include <string.h>

#include "common/help-text.h"
#include "core/text.h"
#include "ctl/output.h"

static char *summarize_commands(const CtlCommand *const *commands)
{
	GString *summary =
		g_string_new("Asks a Snowflake service for IDs and for its servers, and takes IDs "
			     "apart.\n\n"
			     "Commands:");

	for (gsize i = 0; commands[i] != NULL; i++)
		g_string_append_printf(summary, "\n  %-10s %s", commands[i]->name,
				       commands[i]->summary);
	g_string_append(summary, "\n\nsnowflakectl COMMAND --help shows a command's options.");
	return g_string_free(summary, FALSE);
}

/* Where the description of an option begins in its line; 0 in any other line. */
static gsize description_column(const char *line)
{
	const char *end = g_str_has_prefix(line, "  -") ? strstr(line + 3, "  ") : NULL;

	return end != NULL ? (gsize)(end - line) + strspn(end, " ") : 0;
}

/* (transfer full): @help, which GLib has made and does not wrap. It ends in a newline. */
static char *wrap(const char *help)
{
	g_auto(GStrv) lines = g_strsplit(help, "\n", -1);
	GString *out = g_string_new(NULL);

	for (gsize i = 0; lines[i + 1] != NULL; i++) {
		gsize column = description_column(lines[i]);
		g_autofree char *indent = g_strnfill(column, ' ');

		g_string_append_len(out, lines[i], (gssize)column);
		help_text_wrap(out, lines[i] + column, indent);
	}
	return g_string_free(out, FALSE);
}

static void print_help(const CtlCommand *const *commands, const CtlCommand *command,
		       const GOptionEntry *common)
{
	g_autofree char *usage = command != NULL
					 ? g_strjoin(" ", command->name, command->arguments, NULL)
					 : g_strdup("COMMAND");
	g_autofree char *summary =
		command != NULL ? g_strjoin("\n", command->summary, command->details, NULL)
				: summarize_commands(commands);
	g_autoptr(GOptionContext) context = g_option_context_new(usage);

	/* GLib's own does not see whether it could be written */
	g_option_context_set_help_enabled(context, FALSE);
	g_option_context_set_summary(context, summary);
	g_option_context_set_description(context, "Exit status: 0, 1 if refused or not reachable, "
						  "2 if misused, 130 after Ctrl-C.");
	if (command != NULL && command->entries != NULL)
		g_option_context_add_main_entries(context, command->entries, NULL);
	g_option_context_add_main_entries(context, common, NULL);

	g_autofree char *help = g_option_context_get_help(context, TRUE, NULL);
	g_autofree char *wrapped = wrap(help);

	ctl_output_print("%s", wrapped);
}

/* Whether @argument is one that @command takes, as its usage names them: "quarantine|secure". */
static gboolean takes_argument(const CtlCommand *command, const char *argument)
{
	g_auto(GStrv) taken = g_strsplit(
		command != NULL && command->arguments != NULL ? command->arguments : "", "|", -1);

	return g_strv_contains((const char *const *)taken, argument);
}

CtlStatus ctl_command_help(const CtlCommand *const *commands, const CtlCommand *command,
			   const GOptionEntry *common, char *const *arguments)
{
	const char *more = NULL;

	if (arguments != NULL)
		more = takes_argument(command, arguments[0]) ? arguments[1] : arguments[0];
	if (more != NULL) {
		g_autofree char *shown = text_escape(more, strlen(more));

		ctl_output_complain("help takes one command, but there is \"%s\"", shown);
		return CTL_USAGE;
	}
	print_help(commands, command, common);
	return CTL_OK;
}

const CtlCommand ctl_help_command = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "Shows the options, of a command too.",
};
