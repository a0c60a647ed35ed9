/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/completion.h"

#include <string.h>

#include "core/id-text.h"
#include "core/layout.h"
#include "ctl/top-table.h"
#include "load/wire.h"
#include "options/options-table.h"

static void value_clear(CtlCompletionValue *self)
{
	g_strfreev(self->words);
}

static void value_free(CtlCompletionValue *self)
{
	value_clear(self);
	g_free(self);
}

static void option_free(CtlCompletionOption *self)
{
	value_clear(&self->value);
	g_free(self);
}

static CtlCompletionCommand *command_new(const char *name, const char *summary)
{
	CtlCompletionCommand *self = g_new0(CtlCompletionCommand, 1);

	self->name = name;
	self->summary = summary;
	self->options = g_ptr_array_new_with_free_func((GDestroyNotify)option_free);
	self->places = g_ptr_array_new_with_free_func((GDestroyNotify)value_free);
	return self;
}

static void command_free(CtlCompletionCommand *self)
{
	g_ptr_array_unref(self->options);
	g_ptr_array_unref(self->places);
	g_free(self);
}

static CtlCompletion *completion_new(const char *name)
{
	CtlCompletion *self = g_new(CtlCompletion, 1);

	self->name = name;
	self->commands = g_ptr_array_new_with_free_func((GDestroyNotify)command_free);
	self->none = command_new("", NULL);
	self->any = command_new(NULL, NULL);
	return self;
}

void ctl_completion_free(CtlCompletion *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->commands);
	command_free(self->none);
	command_free(self->any);
	g_free(self);
}

void ctl_completion_each(const CtlCompletion *self,
			 void (*each)(const CtlCompletionCommand *command, gpointer data),
			 gpointer data)
{
	each(self->none, data);
	for (guint i = 0; i < self->commands->len; i++)
		each(self->commands->pdata[i], data);
	each(self->any, data);
}

/* What values may be: (transfer full), NULL-terminated. */

static char **layout_names(void)
{
	g_autoptr(GStrvBuilder) names = g_strv_builder_new();

	for (const LayoutPreset *preset = LAYOUT_PRESETS; preset->name != NULL; preset++)
		g_strv_builder_add(names, preset->name);
	return g_strv_builder_end(names);
}

static char **form_names(void)
{
	g_autoptr(GStrvBuilder) names = g_strv_builder_new();
	const char *name;

	for (IdTextForm form = 0; (name = id_text_form_name(form)) != NULL; form++)
		g_strv_builder_add(names, name);
	return g_strv_builder_end(names);
}

static char **call_names(void)
{
	return g_strdupv((char **)load_wire_call_names);
}

static char **column_names(void)
{
	return g_strdupv((char **)ctl_top_table_columns());
}

/* By the name that --help has for it: the options of snowflakectl with choices. */
static CtlCompletionValue value_of_argument(const char *argument)
{
	static const struct {
		const char *argument;
		char **(*words)(void);
	} CHOICES[] = {
		{"LAYOUT", layout_names},
		{"FORM", form_names},
		{"CALL", call_names},
		{"COLUMN", column_names},
	};

	if (g_strcmp0(argument, "FILE") == 0)
		return (CtlCompletionValue){CTL_COMPLETION_FILES, NULL};
	for (gsize i = 0; i < G_N_ELEMENTS(CHOICES); i++) {
		if (g_strcmp0(argument, CHOICES[i].argument) == 0)
			return (CtlCompletionValue){CTL_COMPLETION_WORDS, CHOICES[i].words()};
	}
	return (CtlCompletionValue){CTL_COMPLETION_ANY, NULL};
}

/* snowflakectl */

static void add_entry(CtlCompletionCommand *command, const GOptionEntry *entry)
{
	CtlCompletionOption *option = g_new(CtlCompletionOption, 1);

	*option = (CtlCompletionOption){
		.name = entry->long_name,
		.short_name = entry->short_name,
		.help = entry->description,
		.argument = entry->arg_description,
		.is_repeated = entry->arg == G_OPTION_ARG_STRING_ARRAY,
		.value = value_of_argument(entry->arg_description),
	};
	g_ptr_array_add(command->options, option);
}

static char **command_names(const CtlCommand *const *commands)
{
	g_autoptr(GStrvBuilder) names = g_strv_builder_new();

	for (gsize i = 0; commands[i] != NULL; i++)
		g_strv_builder_add(names, commands[i]->name);
	return g_strv_builder_end(names);
}

/* @word: of what --help has for the arguments: "quarantine|secure", "[COMMAND]", "FILE", "[ID...]"
 */
static CtlCompletionValue value_of_place(const char *word, const CtlCommand *const *commands)
{
	if (strstr(word, "FILE") != NULL)
		return (CtlCompletionValue){CTL_COMPLETION_FILES, NULL};
	if (strstr(word, "COMMAND") != NULL)
		return (CtlCompletionValue){CTL_COMPLETION_WORDS, command_names(commands)};
	if (!g_ascii_islower(word[strspn(word, "[")]))
		return (CtlCompletionValue){CTL_COMPLETION_ANY, NULL};

	g_autofree char *bare =
		g_strndup(word + strspn(word, "["), strcspn(word + strspn(word, "["), "]"));

	return (CtlCompletionValue){CTL_COMPLETION_WORDS, g_strsplit(bare, "|", -1)};
}

static void add_places(CtlCompletionCommand *self, const char *arguments,
		       const CtlCommand *const *commands)
{
	g_auto(GStrv) words = g_strsplit(arguments, " ", -1);

	for (gsize i = 0; words[i] != NULL; i++) {
		CtlCompletionValue value = value_of_place(words[i], commands);

		g_ptr_array_add(self->places, g_memdup2(&value, sizeof(value)));
	}
	self->is_endless = strstr(arguments, "...") != NULL;
}

static CtlCompletionCommand *describe(const CtlCommand *command, const CtlCommand *const *commands)
{
	CtlCompletionCommand *self = command_new(command->name, command->summary);

	for (const GOptionEntry *entry = command->entries;
	     entry != NULL && entry->long_name != NULL; entry++)
		add_entry(self, entry);
	if (command->arguments != NULL)
		add_places(self, command->arguments, commands);
	return self;
}

/* The option --server: of those that ask one, and before it is known which command it is. */
static void add_server(const CtlCompletion *self, const GOptionEntry *entry,
		       const CtlCommand *const *commands)
{
	add_entry(self->none, entry);
	for (guint i = 0; i < self->commands->len; i++) {
		if (!commands[i]->takes_no_server)
			add_entry(self->commands->pdata[i], entry);
	}
}

CtlCompletion *ctl_completion_new(const CtlCommand *const *commands, const GOptionEntry *common)
{
	CtlCompletion *self = completion_new("snowflakectl");

	for (gsize i = 0; commands[i] != NULL; i++)
		g_ptr_array_add(self->commands, describe(commands[i], commands));
	for (const GOptionEntry *entry = common; entry->long_name != NULL; entry++) {
		if (strcmp(entry->long_name, "server") == 0)
			add_server(self, entry, commands);
		else if (entry->long_name[0] != '\0') /* what remains */
			add_entry(self->any, entry);
	}
	return self;
}

/* snowflaked */

static char **words_of(const OptionSpec *spec)
{
	g_autoptr(GStrvBuilder) words = g_strv_builder_new();

	for (const OptionWord *one = spec->words; one->word != NULL; one++)
		g_strv_builder_add(words, one->word);
	return g_strv_builder_end(words);
}

static CtlCompletionValue value_of_spec(const OptionSpec *spec)
{
	if (spec->type == OPTION_PATH && strcmp(spec->argument, "DIR") == 0)
		return (CtlCompletionValue){CTL_COMPLETION_DIRECTORIES, NULL};
	if (spec->type == OPTION_PATH)
		return (CtlCompletionValue){CTL_COMPLETION_FILES, NULL};
	if (spec->type == OPTION_LAYOUT)
		return (CtlCompletionValue){CTL_COMPLETION_WORDS, layout_names()};
	if (spec->choices != NULL)
		return (CtlCompletionValue){CTL_COMPLETION_WORDS,
					    g_strdupv((char **)spec->choices)};
	if (spec->words != NULL)
		return (CtlCompletionValue){CTL_COMPLETION_WORDS, words_of(spec)};
	return (CtlCompletionValue){CTL_COMPLETION_ANY, NULL};
}

CtlCompletion *ctl_completion_new_for_server(void)
{
	CtlCompletion *self = completion_new("snowflaked");

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		CtlCompletionOption *option = g_new(CtlCompletionOption, 1);

		*option = (CtlCompletionOption){
			.name = spec->name,
			.help = spec->help,
			.argument = spec->argument,
			.is_repeated = options_table_is_list(spec),
			.value = value_of_spec(spec),
		};
		g_ptr_array_add(self->any->options, option);
	}
	return self;
}
