/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/help.h"

#include <string.h>

#include "common/suggestion.h"
#include "common/wrap.h"
#include "core/text.h"
#include "ctl/output.h"

const CtlCommand *ctl_help_find_command(const char *name)
{
	for (gsize i = 0; CTL_COMMANDS[i] != NULL; i++) {
		if (strcmp(CTL_COMMANDS[i]->name, name) == 0)
			return CTL_COMMANDS[i];
	}
	return NULL;
}

static void add_entries(GOptionContext *context, const GOptionEntry *entries)
{
	if (entries != NULL)
		g_option_context_add_main_entries(context, entries, NULL);
}

static GOptionContext *context_new(const char *usage, const GOptionEntry *common)
{
	GOptionContext *context = g_option_context_new(usage);

	/* GLib's own does not see whether it could be written */
	g_option_context_set_help_enabled(context, FALSE);
	/* so that they are left over, for a message of our own */
	g_option_context_set_ignore_unknown_options(context, TRUE);
	add_entries(context, common);
	return context;
}

GOptionContext *ctl_help_context(const CtlCommand *command, const GOptionEntry *common)
{
	GOptionContext *context = context_new(NULL, common);

	if (command != NULL)
		add_entries(context, command->entries);
	for (gsize i = 0; command == NULL && CTL_COMMANDS[i] != NULL; i++)
		add_entries(context, CTL_COMMANDS[i]->entries);
	return context;
}

static char *summarize_commands(void)
{
	GString *summary =
		g_string_new("Asks a Snowflake service for IDs and for its servers, and takes IDs "
			     "apart.\n\n"
			     "Commands:");

	for (gsize i = 0; CTL_COMMANDS[i] != NULL; i++)
		g_string_append_printf(summary, "\n  %-8s %s", CTL_COMMANDS[i]->name,
				       CTL_COMMANDS[i]->summary);
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
		wrap_append(out, lines[i] + column, indent);
	}
	return g_string_free(out, FALSE);
}

void ctl_help_print(const CtlCommand *command, const GOptionEntry *common)
{
	g_autofree char *usage = command != NULL
					 ? g_strjoin(" ", command->name, command->arguments, NULL)
					 : g_strdup("COMMAND");
	g_autofree char *summary =
		command != NULL ? g_strjoin("\n", command->summary, command->details, NULL)
				: summarize_commands();
	g_autoptr(GOptionContext) context = context_new(usage, NULL);

	g_option_context_set_summary(context, summary);
	g_option_context_set_description(context, "Exit status: 0, 1 if refused or not reachable, "
						  "2 if misused, 130 after Ctrl-C.");
	if (command != NULL)
		add_entries(context, command->entries);
	add_entries(context, common);

	g_autofree char *help = g_option_context_get_help(context, TRUE, NULL);
	g_autofree char *wrapped = wrap(help);

	ctl_output_print("%s", wrapped);
}

void ctl_help_complain_of_command(const char *name)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	g_autofree char *shown = text_escape(name, strlen(name));

	for (gsize i = 0; CTL_COMMANDS[i] != NULL; i++)
		g_ptr_array_add(names, (gpointer)CTL_COMMANDS[i]->name);
	g_ptr_array_add(names, NULL);

	const char *meant = suggestion_find(name, (const char *const *)names->pdata);

	if (meant != NULL)
		ctl_output_complain("there is no command \"%s\"; did you mean %s?", shown, meant);
	else
		ctl_output_complain("there is no command \"%s\"; see snowflakectl --help", shown);
}

static void add_names(GPtrArray *names, const GOptionEntry *entries)
{
	for (; entries != NULL && entries->long_name != NULL; entries++) {
		/* the entry of what remains has no name */
		if (entries->long_name[0] != '\0')
			g_ptr_array_add(names, (gpointer)entries->long_name);
	}
}

void ctl_help_complain_of_option(const char *option, const CtlCommand *command,
				 const GOptionEntry *common)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	g_autofree char *shown = text_escape(option, strlen(option));
	gboolean is_long = g_str_has_prefix(option, "--");
	g_autofree char *name = g_strndup(option + 2, is_long ? strcspn(option + 2, "=") : 0);

	add_names(names, common);
	if (command != NULL)
		add_names(names, command->entries);
	for (gsize i = 0; command == NULL && CTL_COMMANDS[i] != NULL; i++)
		add_names(names, CTL_COMMANDS[i]->entries);
	g_ptr_array_add(names, NULL);

	const char *meant = suggestion_find(name, (const char *const *)names->pdata);

	if (meant != NULL)
		ctl_output_complain("unknown option \"%s\"; did you mean --%s?", shown, meant);
	else
		ctl_output_complain("unknown option \"%s\"; see snowflakectl %s%s--help", shown,
				    command != NULL ? command->name : "",
				    command != NULL ? " " : "");
}
