/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/completion-shells.h"

#include <string.h>

/* Specifications for _arguments, a list for each command. See zshcompsys(1). */

/* @special: what _arguments would take for more than text */
static void append_text(GString *script, const char *text, const char *special)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			g_string_append(script, "'\\''");
		else if (strchr(special, *text) != NULL)
			g_string_append_printf(script, "\\%c", *text);
		else
			g_string_append_c(script, *text);
	}
}

/* ":MESSAGE:ACTION" */
static void append_value(GString *script, const char *message, const CtlCompletionValue *value)
{
	g_autofree char *words = value->words != NULL ? g_strjoinv(" ", value->words) : NULL;

	g_string_append_c(script, ':');
	append_text(script, message, ":\\");
	switch (value->kind) {
	case CTL_COMPLETION_ANY:
		g_string_append(script, ": ");
		break;
	case CTL_COMPLETION_WORDS:
		g_string_append_printf(script, ":(%s)", words);
		break;
	case CTL_COMPLETION_FILES:
		g_string_append(script, ":_files");
		break;
	case CTL_COMPLETION_DIRECTORIES:
		g_string_append(script, ":_files -/");
		break;
	}
}

/* @dashes: and the name */
static void append_option(GString *script, const CtlCompletionOption *option, const char *dashes)
{
	gboolean is_long = dashes[1] == '-';

	g_string_append(script, "\t\t'");
	if (option->is_repeated)
		g_string_append_c(script, '*');
	else if (option->short_name != '\0')
		g_string_append_printf(script, "(--%s -%c)", option->name, option->short_name);
	g_string_append_printf(script, "%s%s[", dashes,
			       option->argument != NULL ? (is_long ? "=" : "+") : "");
	append_text(script, option->help, "[]\\");
	g_string_append_c(script, ']');
	if (option->argument != NULL)
		append_value(script, option->argument, &option->value);
	g_string_append(script, "'\n");
}

static void append_options(GString *script, const CtlCompletionCommand *command)
{
	for (guint i = 0; i < command->options->len; i++) {
		const CtlCompletionOption *option = command->options->pdata[i];
		const char short_name[] = {'-', option->short_name, '\0'};
		g_autofree char *long_name = g_strconcat("--", option->name, NULL);

		append_option(script, option, long_name);
		if (option->short_name != '\0')
			append_option(script, option, short_name);
	}
}

static void append_places(GString *script, const CtlCompletionCommand *command)
{
	for (guint i = 0; i < command->places->len; i++) {
		gboolean is_endless = command->is_endless && i == command->places->len - 1;
		g_autofree char *place = g_strdup_printf("%u", i + 1);

		g_string_append_printf(script, "\t\t'%s", is_endless ? "*" : place);
		append_value(script, "argument", command->places->pdata[i]);
		g_string_append(script, "'\n");
	}
}

static void write_list(const CtlCompletionCommand *command, gpointer data)
{
	GString *script = data;

	if (command->name == NULL)
		g_string_append(script, "\tesac\n\tspecs+=(\n");
	else
		g_string_append_printf(script, "\t%s)\n\t\tspecs=(\n",
				       command->name[0] != '\0' ? command->name : "''");
	append_options(script, command);
	append_places(script, command);
	g_string_append(script, command->name == NULL ? "\t)\n" : "\t\t) ;;\n");
}

static void write_commands(GString *script, const CtlCompletion *self)
{
	g_string_append(script, "\tcommands=(\n");
	for (guint i = 0; i < self->commands->len; i++) {
		const CtlCompletionCommand *command = self->commands->pdata[i];

		g_string_append_printf(script, "\t\t'%s:", command->name);
		append_text(script, command->summary, "\\");
		g_string_append(script, "'\n");
	}
	g_string_append(script, "\t)\n");
}

char *ctl_completion_shells_zsh(const CtlCompletion *self)
{
	gboolean has_commands = self->commands->len > 0;
	GString *script = g_string_new(NULL);

	g_string_append_printf(script,
			       "#compdef %s\n"
			       "# Completion of %s in zsh, made by snowflakectl completion.\n\n"
			       "_%s_specs() {\n"
			       "\tcase $1 in\n",
			       self->name, self->name, self->name);
	ctl_completion_each(self, write_list, script);
	g_string_append_printf(script,
			       "}\n\n"
			       "_%s() {\n"
			       "\tlocal curcontext=$curcontext state line\n"
			       "\tlocal -A opt_args\n"
			       "\tlocal -a specs commands\n\n"
			       "\t_%s_specs ''\n",
			       self->name, self->name);
	if (has_commands) {
		write_commands(script, self);
		g_string_append_printf(script,
				       "\t_arguments -C -A '-*' $specs '1:command:->command' "
				       "'*::argument:->argument' && return\n"
				       "\tcase $state in\n"
				       "\tcommand) _describe -t commands command commands ;;\n"
				       "\targument)\n"
				       "\t\tspecs=()\n"
				       "\t\t_%s_specs $words[1]\n"
				       "\t\t_arguments $specs ;;\n"
				       "\tesac\n",
				       self->name);
	} else {
		g_string_append(script, "\t_arguments $specs\n");
	}
	/* loaded as a function by the first use of it, or read like any other script */
	g_string_append_printf(script,
			       "}\n\n"
			       "if [[ $funcstack[1] == _%s ]]; then\n"
			       "\t_%s \"$@\"\n"
			       "else\n"
			       "\tcompdef _%s %s\n"
			       "fi\n",
			       self->name, self->name, self->name, self->name);
	return g_string_free(script, FALSE);
}
