/* SPDX-License-Identifier: Apache-2.0 */

/*
 * "completion" prints a script that completes command lines in a shell. When the user presses Tab,
 * the script runs "snowflakectl __complete SHELL PROGRAM LINE", where LINE ends at the cursor. That
 * command prints the words that are possible there, one per line. It uses the same tables as
 * --help. If it prints ":files" or ":directories", the shell lists them itself, because it knows
 * how to quote their names.
 */

#include <string.h>

#include "core/id-text.h"
#include "core/layout.h"
#include "ctl/command.h"
#include "ctl/output.h"
#include "load/wire.h"
#include "options/options-table.h"

static const struct {
	const char *name;
	const char *script; /* PROGRAM is replaced by the program's name */
	/* separates a candidate from its description; '\0' if there is no description */
	char separator;
	/* the shell discards candidates that do not begin with the word at the cursor */
	gboolean has_filter;
	/* a candidate must be a complete word: "--name=value", not only the value */
	gboolean takes_words;
} SHELLS[] = {
	{"bash",
	 "# Completion of PROGRAM in bash, made by snowflakectl completion.\n"
	 "_PROGRAM() {\n"
	 "\tmapfile -t COMPREPLY < <(\n"
	 "\t\tsnowflakectl __complete bash PROGRAM \"${COMP_LINE:0:COMP_POINT}\" 2>/dev/null)\n"
	 "\tcase ${COMPREPLY[0]} in\n"
	 "\t:files) COMPREPLY=() && compopt -o default ;;\n"
	 "\t:directories) COMPREPLY=() && compopt -o dirnames ;;\n"
	 "\tesac\n"
	 "}\n"
	 "complete -F _PROGRAM PROGRAM\n",
	 '\0', FALSE, FALSE},
	/* works both as an autoloaded function and as a sourced script */
	{"zsh",
	 "#compdef PROGRAM\n"
	 "# Completion of PROGRAM in zsh, made by snowflakectl completion.\n\n"
	 "_PROGRAM() {\n"
	 "\tlocal line=\"${(j: :)words[1,CURRENT-1]} ${(q)PREFIX}\"\n"
	 "\tlocal -a found\n"
	 "\tfound=(${(f)\"$(snowflakectl __complete zsh PROGRAM $line 2>/dev/null)\"})\n"
	 "\tcompset -P '--[^=]#='\n"
	 "\tcase $found[1] in\n"
	 "\t:files) _files ;;\n"
	 "\t:directories) _files -/ ;;\n"
	 "\t?*) _describe -t arguments argument found ;;\n"
	 "\tesac\n"
	 "}\n\n"
	 "if [[ $funcstack[1] == _PROGRAM ]]; then\n"
	 "\t_PROGRAM \"$@\"\n"
	 "else\n"
	 "\tcompdef _PROGRAM PROGRAM\n"
	 "fi\n",
	 ':', TRUE, FALSE},
	{"fish",
	 "# Completion of PROGRAM in fish, made by snowflakectl completion.\n"
	 "function __PROGRAM_complete\n"
	 "\tsnowflakectl __complete fish PROGRAM (commandline -cp | string collect) 2>/dev/null\n"
	 "end\n"
	 "complete -c PROGRAM -f -n 'not __PROGRAM_complete | string match -q \":*\"' "
	 "-a '(__PROGRAM_complete)'\n"
	 "complete -c PROGRAM -n '__PROGRAM_complete | string match -q :files' -F\n"
	 "complete -c PROGRAM -f -n '__PROGRAM_complete | string match -q :directories' "
	 "-a '(__fish_complete_directories)'\n",
	 '\t', TRUE, TRUE},
};

typedef struct {
	const char *name; /* without dashes, as is short_name */
	char short_name;  /* '\0': none */
	const char *help;
	const char *argument;   /* name of the value in --help; NULL if it takes no value */
	const OptionSpec *spec; /* for an option of snowflaked; otherwise NULL */
	gboolean is_repeated;   /* the option can be given several times */
} Option;

/* A command line up to the cursor. */
typedef struct {
	const CtlCommand *const *commands; /* NULL for snowflaked, which has no commands */
	guint shell;                       /* index in SHELLS */
	GPtrArray *words; /* (element-type utf8): unquoted; the last one ends at the cursor */
	GArray *options;  /* (element-type Option): options that are possible at the cursor */
	const char *current;
	const char *prefix; /* "--name=" before a value at the cursor; otherwise "" */
} Line;

/* Returns: (transfer full): the words of @line, without their quotes. The last one is the part
 * before the cursor: "" after a space. */
static GPtrArray *split_line(const char *line)
{
	GPtrArray *words = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GString) word = g_string_new(NULL);
	gboolean is_in_word = FALSE;
	char quote = '\0';

	for (const char *at = line; *at != '\0'; at++) {
		if (quote == '\0' && g_ascii_isspace(*at)) {
			if (is_in_word)
				g_ptr_array_add(words, g_strdup(word->str));
			g_string_truncate(word, 0);
			is_in_word = FALSE;
			continue;
		}
		is_in_word = TRUE;
		if (*at == quote)
			quote = '\0';
		else if (quote == '\0' && (*at == '\'' || *at == '"'))
			quote = *at;
		else if (*at == '\\' && quote != '\'' && at[1] != '\0')
			g_string_append_c(word, *++at);
		else
			g_string_append_c(word, *at);
	}
	g_ptr_array_add(words, g_strdup(word->str));
	return words;
}

static void add_entries(GArray *options, const GOptionEntry *entries, gboolean with_server)
{
	for (const GOptionEntry *entry = entries; entry != NULL && entry->long_name != NULL;
	     entry++) {
		const Option option = {
			.name = entry->long_name,
			.short_name = entry->short_name,
			.help = entry->description,
			.argument = entry->arg_description,
			.is_repeated = entry->arg == G_OPTION_ARG_STRING_ARRAY,
		};

		/* G_OPTION_REMAINING has an empty name */
		if (option.name[0] != '\0' && (with_server || strcmp(option.name, "server") != 0))
			g_array_append_val(options, option);
	}
}

static void add_server_options(GArray *options)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		const Option option = {
			.name = spec->name,
			.help = spec->help,
			.argument = spec->argument,
			.spec = spec,
			.is_repeated = options_table_is_list(spec),
		};

		g_array_append_val(options, option);
	}
}

/* Returns: (nullable): the option in @word: "--name", with or without a value, or "-n". */
static const Option *find_option(const GArray *options, const char *word)
{
	gboolean is_long = g_str_has_prefix(word, "--");
	gsize length = is_long ? strcspn(word + 2, "=") : 0;

	for (guint i = 0; i < options->len; i++) {
		const Option *option = &g_array_index(options, Option, i);

		if (is_long ? strlen(option->name) == length &&
				      strncmp(option->name, word + 2, length) == 0
			    : word[0] == '-' && word[1] != '\0' && word[1] == option->short_name &&
				      word[2] == '\0')
			return option;
	}
	return NULL;
}

/* Candidates */

/* @help: (nullable) */
static void print_candidate(const Line *self, const char *word, const char *help)
{
	const char *prefix = SHELLS[self->shell].takes_words ? self->prefix : "";
	char separator = SHELLS[self->shell].separator;

	if (!SHELLS[self->shell].has_filter && !g_str_has_prefix(word, self->current))
		return;
	if (separator != '\0' && help != NULL)
		ctl_output_print("%s%s%c%s\n", prefix, word, separator, help);
	else
		ctl_output_print("%s%s\n", prefix, word);
}

static void print_words(const Line *self, const char *const *words)
{
	for (gsize i = 0; words[i] != NULL; i++)
		print_candidate(self, words[i], NULL);
}

static void print_commands(const Line *self)
{
	for (gsize i = 0; self->commands[i] != NULL; i++)
		print_candidate(self, self->commands[i]->name, self->commands[i]->summary);
}

/* Prints the options that are not on the line yet. */
static void print_options(const Line *self)
{
	for (guint i = 0; i < self->options->len; i++) {
		const Option *option = &g_array_index(self->options, Option, i);
		gboolean is_given = FALSE;
		g_autofree char *name = g_strconcat("--", option->name, NULL);
		const char short_name[] = {'-', option->short_name, '\0'};

		for (guint j = 1; j + 1 < self->words->len && !option->is_repeated; j++)
			is_given |= find_option(self->options, self->words->pdata[j]) == option;
		if (is_given)
			continue;
		print_candidate(self, name, option->help);
		if (option->short_name != '\0')
			print_candidate(self, short_name, option->help);
	}
}

/* Prints possible values. Their kind follows from the name of the value in --help. */
static void print_values(const Line *self, const Option *option)
{
	const struct {
		const char *argument;
		const char *const *words;
	} CHOICES[] = {
		{"CALL", load_wire_call_names},
		{"COLUMN", ctl_command_top_columns()},
	};
	const OptionSpec *spec = option != NULL ? option->spec : NULL;
	const char *argument = option != NULL && option->argument != NULL ? option->argument : "";
	gboolean is_layout =
		spec != NULL ? spec->type == OPTION_LAYOUT : strcmp(argument, "LAYOUT") == 0;
	gboolean is_path = spec != NULL ? spec->type == OPTION_PATH : strcmp(argument, "FILE") == 0;
	const char *name;

	if (*argument == '\0')
		return;
	if (is_path)
		ctl_output_print(strcmp(argument, "DIR") == 0 ? ":directories\n" : ":files\n");
	for (const LayoutPreset *one = LAYOUT_PRESETS; is_layout && one->name != NULL; one++)
		print_candidate(self, one->name, NULL);
	if (spec != NULL && spec->choices != NULL && !is_path && !is_layout)
		print_words(self, spec->choices);
	for (const OptionWord *one = spec != NULL ? spec->words : NULL;
	     one != NULL && one->word != NULL; one++)
		print_candidate(self, one->word, NULL);
	if (spec != NULL)
		return;
	for (IdTextForm form = 0;
	     strcmp(argument, "FORM") == 0 && (name = id_text_form_name(form)) != NULL; form++)
		print_candidate(self, name, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(CHOICES); i++) {
		if (strcmp(argument, CHOICES[i].argument) == 0)
			print_words(self, CHOICES[i].words);
	}
}

/* @usage: the command's arguments in --help: "check FILE", "init|quarantine", "[COMMAND]",
 * "[ID...]". @place: index of the argument */
static void print_arguments(const Line *self, const char *usage, guint place)
{
	g_auto(GStrv) places = g_strsplit(usage, " ", -1);
	guint n_places = g_strv_length(places);

	if (place >= n_places && strstr(usage, "...") == NULL)
		return;

	const char *word = places[MIN(place, n_places - 1)];

	if (strstr(word, "FILE") != NULL) {
		ctl_output_print(":files\n");
	} else if (strstr(word, "COMMAND") != NULL) {
		print_commands(self);
	} else if (g_ascii_islower(word[strspn(word, "[")])) {
		g_auto(GStrv) words = g_strsplit_set(word, "[|]", -1);

		for (gsize i = 0; words[i] != NULL; i++) {
			if (words[i][0] != '\0')
				print_candidate(self, words[i], NULL);
		}
	}
}

/* @common: the options that all commands accept; NULL to complete for snowflaked */
static void print_candidates(Line *self, const GOptionEntry *common)
{
	g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Option));
	const char *name = NULL; /* name of the command */
	const CtlCommand *command = NULL;
	guint n_arguments = 0;
	const char *option = NULL; /* option whose value is at the cursor */

	/* recognise options of any command, as take_command() in snowflakectl.c does */
	add_entries(all, common, TRUE);
	for (gsize i = 0; self->commands != NULL && self->commands[i] != NULL; i++)
		add_entries(all, self->commands[i]->entries, TRUE);
	if (self->commands == NULL)
		add_server_options(all);
	for (guint i = 1; i + 1 < self->words->len; i++) {
		const char *word = self->words->pdata[i];
		const Option *found = find_option(all, word);
		gboolean takes_next =
			found != NULL && found->argument != NULL && strchr(word, '=') == NULL;

		if (option != NULL)
			option = NULL;
		else if (word[0] == '-')
			option = takes_next ? word : NULL;
		else if (self->commands != NULL && name == NULL)
			name = word;
		else
			n_arguments++;
	}
	for (gsize i = 0; self->commands != NULL && self->commands[i] != NULL; i++) {
		if (g_strcmp0(self->commands[i]->name, name) == 0)
			command = self->commands[i];
	}
	add_entries(self->options, command != NULL ? command->entries : NULL, TRUE);
	add_entries(self->options, common, command == NULL || !command->takes_no_server);
	if (self->commands == NULL)
		add_server_options(self->options);

	const char *value =
		g_str_has_prefix(self->current, "--") ? strchr(self->current, '=') : NULL;
	g_autofree char *prefix =
		value != NULL ? g_strndup(self->current, (gsize)(value + 1 - self->current)) : NULL;

	if (option == NULL && value != NULL) {
		option = prefix;
		self->prefix = prefix;
		self->current = value + 1;
	}
	if (option != NULL)
		print_values(self, find_option(self->options, option));
	else if (self->current[0] == '-')
		print_options(self);
	else if (self->commands != NULL && name == NULL)
		print_commands(self);
	else if (command != NULL && command->arguments != NULL)
		print_arguments(self, command->arguments, n_arguments);
}

void ctl_command_complete(const CtlCommand *const *commands, const GOptionEntry *common,
			  const char *shell, const char *program, const char *line)
{
	gboolean is_server = strcmp(program, "snowflaked") == 0;
	g_autoptr(GPtrArray) words = split_line(line);
	g_autoptr(GArray) options = g_array_new(FALSE, FALSE, sizeof(Option));
	Line self = {
		.commands = is_server ? NULL : commands,
		.words = words,
		.options = options,
		.current = words->pdata[words->len - 1],
		.prefix = "",
	};

	while (self.shell < G_N_ELEMENTS(SHELLS) && strcmp(SHELLS[self.shell].name, shell) != 0)
		self.shell++;
	if (self.shell < G_N_ELEMENTS(SHELLS))
		print_candidates(&self, is_server ? NULL : common);
}

static CtlStatus run_completion(G_GNUC_UNUSED const CtlOptions *options,
				const char *const *arguments)
{
	guint n_arguments = g_strv_length((char **)arguments);
	gboolean for_server = n_arguments == 2 && strcmp(arguments[1], "snowflaked") == 0;
	guint shell = 0;

	while (shell < G_N_ELEMENTS(SHELLS) && g_strcmp0(arguments[0], SHELLS[shell].name) != 0)
		shell++;
	if (shell == G_N_ELEMENTS(SHELLS) || n_arguments > 2 || (n_arguments == 2 && !for_server)) {
		ctl_output_complain("completion takes a shell, bash, zsh or fish, and optionally "
				    "snowflaked, for the server's options");
		return CTL_USAGE;
	}

	g_auto(GStrv) pieces = g_strsplit(SHELLS[shell].script, "PROGRAM", -1);
	g_autofree char *script = g_strjoinv(for_server ? "snowflaked" : "snowflakectl", pieces);

	ctl_output_print("%s", script);
	return CTL_OK;
}

const CtlCommand ctl_completion_command = {
	.name = "completion",
	.arguments = "bash|zsh|fish [snowflaked]",
	.summary = "Prints a script that completes command lines in a shell.",
	.details =
		"Packages install these scripts. To load one manually, in bash or zsh: source "
		"<(snowflakectl completion bash); in fish: snowflakectl completion fish | source.",
	.takes_no_server = TRUE,
	.run = run_completion,
};
