/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/completion-shells.h"

/* A line for each option of each command, and for each place of an argument, with a condition:
 * which command is it of? */

typedef struct {
	GString *script;
	const char *program;
} Writer;

static void append_quoted(GString *script, const char *text)
{
	g_string_append_c(script, '\'');
	for (; *text != '\0'; text++) {
		if (*text == '\'' || *text == '\\')
			g_string_append_c(script, '\\');
		g_string_append_c(script, *text);
	}
	g_string_append_c(script, '\'');
}

/* @more: of the condition, "" if that is all of it */
static void begin_line(const Writer *self, const CtlCompletionCommand *command, const char *more)
{
	g_string_append_printf(self->script, "complete -c %s", self->program);
	if (command->name == NULL)
		return;
	if (command->name[0] == '\0')
		g_string_append(self->script, " -n \"not __fish_seen_subcommand_from $commands\"");
	else
		g_string_append_printf(self->script, " -n '__fish_seen_subcommand_from %s%s'",
				       command->name, more);
}

static void append_value(GString *script, const CtlCompletionValue *value)
{
	g_autofree char *words = value->words != NULL ? g_strjoinv(" ", value->words) : NULL;

	switch (value->kind) {
	case CTL_COMPLETION_ANY:
		break;
	case CTL_COMPLETION_WORDS:
		g_string_append_printf(script, " -a '%s'", words);
		break;
	case CTL_COMPLETION_FILES:
		g_string_append(script, " -F");
		break;
	case CTL_COMPLETION_DIRECTORIES:
		g_string_append(script, " -a '(__fish_complete_directories)'");
		break;
	}
}

static void write_option(const Writer *self, const CtlCompletionCommand *command,
			 const CtlCompletionOption *option)
{
	begin_line(self, command, "");
	g_string_append_printf(self->script, " -l %s", option->name);
	if (option->short_name != '\0')
		g_string_append_printf(self->script, " -s %c", option->short_name);
	if (option->argument != NULL)
		g_string_append(self->script,
				option->value.kind == CTL_COMPLETION_FILES ? " -r" : " -x");
	append_value(self->script, &option->value);
	g_string_append(self->script, " -d ");
	append_quoted(self->script, option->help);
	g_string_append_c(self->script, '\n');
}

/* (transfer full): fish tells of words that were typed, but not in which place. So an argument
 * comes after one of the words of the place before, and the first one before any of its own, unless
 * the command is one of these. */
static char *condition_of(const CtlCompletionCommand *command, guint place)
{
	const CtlCompletionValue *value = command->places->pdata[place > 0 ? place - 1 : 0];

	if (value->words == NULL ||
	    g_strv_contains((const char *const *)value->words, command->name))
		return g_strdup("");

	g_autofree char *words = g_strjoinv(" ", value->words);

	return g_strdup_printf("; and %s__fish_seen_subcommand_from %s", place == 0 ? "not " : "",
			       words);
}

static void write_places(const Writer *self, const CtlCompletionCommand *command)
{
	for (guint i = 0; i < command->places->len; i++) {
		const CtlCompletionValue *value = command->places->pdata[i];
		g_autofree char *condition = condition_of(command, i);

		if (value->kind == CTL_COMPLETION_ANY)
			continue;
		begin_line(self, command, condition);
		append_value(self->script, value);
		g_string_append_c(self->script, '\n');
	}
}

static void write_command(const CtlCompletionCommand *command, gpointer data)
{
	const Writer *self = data;

	for (guint i = 0; i < command->options->len; i++)
		write_option(self, command, command->options->pdata[i]);
	write_places(self, command);
}

static void write_commands(const Writer *self, const CtlCompletion *completion)
{
	for (guint i = 0; i < completion->commands->len; i++) {
		const CtlCompletionCommand *command = completion->commands->pdata[i];

		begin_line(self, completion->none, "");
		g_string_append_printf(self->script, " -a %s -d ", command->name);
		append_quoted(self->script, command->summary);
		g_string_append_c(self->script, '\n');
	}
}

static void set_commands(const Writer *self, const CtlCompletion *completion)
{
	if (completion->commands->len == 0)
		return;
	g_string_append(self->script, "set -l commands");
	for (guint i = 0; i < completion->commands->len; i++) {
		const CtlCompletionCommand *command = completion->commands->pdata[i];

		g_string_append_printf(self->script, " %s", command->name);
	}
	g_string_append_c(self->script, '\n');
}

char *ctl_completion_shells_fish(const CtlCompletion *self)
{
	Writer writer = {g_string_new(NULL), self->name};

	g_string_append_printf(writer.script,
			       "# Completion of %s in fish, made by snowflakectl completion.\n",
			       self->name);
	set_commands(&writer, self);
	g_string_append_printf(writer.script, "complete -c %s -f\n", self->name);
	write_commands(&writer, self);
	ctl_completion_each(self, write_command, &writer);
	return g_string_free(writer.script, FALSE);
}
