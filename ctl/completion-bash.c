/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/completion-shells.h"

/*
 * A function that goes through the words before the cursor: which command is it, which of its
 * arguments, or the value of which option? Then three tables say what it may be. The words are
 * taken from the line, with their quotes, as bash would make several of what has a colon or an = in
 * it. It puts what it is told in the place of what comes after that, and of names of files it does
 * not know what to quote: so these are left to bash itself, which does.
 */

/* As a pattern. */
static const char *name_of(const CtlCompletionCommand *command)
{
	return command->name != NULL ? command->name : "*";
}

static void end_arm(GString *script, const CtlCompletionValue *value)
{
	g_autofree char *words = value->words != NULL ? g_strjoinv(" ", value->words) : NULL;

	if (value->kind == CTL_COMPLETION_WORDS)
		g_string_append_printf(script, "words='%s' ;;\n", words);
	else
		g_string_append_printf(script, "default='%s' ;;\n",
				       value->kind == CTL_COMPLETION_FILES ? "default"
									   : "dirnames");
}

/* "--number | -n" */
static char *names_of(const CtlCompletionOption *option, const char *before, const char *between)
{
	if (option->short_name == '\0')
		return g_strdup_printf("%s--%s", before, option->name);
	return g_strdup_printf("%s--%s%s%s-%c", before, option->name, between, before,
			       option->short_name);
}

static void write_values(const CtlCompletionCommand *command, gpointer data)
{
	for (guint i = 0; i < command->options->len; i++) {
		const CtlCompletionOption *option = command->options->pdata[i];
		g_autofree char *prefix = g_strconcat(name_of(command), ":", NULL);
		g_autofree char *names = names_of(option, prefix, " | ");

		if (option->value.kind == CTL_COMPLETION_ANY)
			continue;
		g_string_append_printf(data, "\t\t%s) ", names);
		end_arm(data, &option->value);
	}
}

static void write_options(const CtlCompletionCommand *command, gpointer data)
{
	g_autoptr(GString) words = g_string_new(NULL);

	for (guint i = 0; i < command->options->len; i++) {
		g_autofree char *names = names_of(command->options->pdata[i], "", " ");

		g_string_append_printf(words, "%s%s", i > 0 ? " " : "", names);
	}
	if (command->name == NULL)
		g_string_append_printf(data, "\t\tesac\n\t\twords+=' %s'\n", words->str);
	else if (words->len > 0)
		g_string_append_printf(data, "\t\t%s) words='%s' ;;\n",
				       command->name[0] != '\0' ? command->name : "''", words->str);
}

static void write_places(const CtlCompletionCommand *command, gpointer data)
{
	for (guint i = 0; i < command->places->len; i++) {
		const CtlCompletionValue *value = command->places->pdata[i];
		gboolean is_endless = command->is_endless && i == command->places->len - 1;
		g_autofree char *place = is_endless ? g_strdup("*") : g_strdup_printf("%u", i);

		if (value->kind == CTL_COMPLETION_ANY)
			continue;
		g_string_append_printf(data, "\t\t%s:%s) ", name_of(command), place);
		end_arm(data, value);
	}
}

/* Those with a value, whichever command they are of, as snowflakectl itself finds its command. */
static void collect_with_value(const CtlCompletionCommand *command, gpointer data)
{
	for (guint i = 0; i < command->options->len; i++) {
		const CtlCompletionOption *option = command->options->pdata[i];

		if (option->argument == NULL)
			continue;
		g_hash_table_add(data, g_strdup_printf("--%s", option->name));
		if (option->short_name != '\0')
			g_hash_table_add(data, g_strdup_printf("-%c", option->short_name));
	}
}

/* (transfer full): "--agent | --number | -n" */
static char *options_with_value(const CtlCompletion *self)
{
	g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	g_autoptr(GList) sorted = NULL;
	GString *pattern = g_string_new(NULL);

	ctl_completion_each(self, collect_with_value, names);
	sorted = g_list_sort(g_hash_table_get_keys(names), (GCompareFunc)g_strcmp0);
	for (GList *one = sorted; one != NULL; one = one->next)
		g_string_append_printf(pattern, "%s%s", one != sorted ? " | " : "",
				       (const char *)one->data);
	return g_string_free(pattern, FALSE);
}

static void write_commands(GString *script, const CtlCompletion *self)
{
	if (self->commands->len == 0)
		return;
	g_string_append(script, "\t\t:0) words='");
	for (guint i = 0; i < self->commands->len; i++) {
		const CtlCompletionCommand *command = self->commands->pdata[i];

		g_string_append_printf(script, "%s%s", i > 0 ? " " : "", command->name);
	}
	g_string_append(script, "' ;;\n");
}

/* @has_commands: the first argument is one */
static void write_reader(GString *script, const char *with_value, gboolean has_commands)
{
	g_string_append_printf(
		script,
		"\twhile [[ $line =~ $a_word ]]; do\n"
		"\t\ttyped+=(\"${BASH_REMATCH[1]}\") line=${line:${#BASH_REMATCH}}\n"
		"\tdone\n"
		"\t[[ -n $line ]] && typed+=('')\n"
		"\tcurrent=${typed[-1]}\n"
		"\tfor word in \"${typed[@]:1:${#typed[@]}-2}\"; do\n"
		"\t\tif [[ -n $option ]]; then option=; continue; fi\n"
		"\t\tcase $word in\n"
		"\t\t%s) option=$word ;;\n"
		"\t\t-*) ;;\n"
		"\t\t*) %s ;;\n"
		"\t\tesac\n"
		"\tdone\n"
		"\tif [[ -z $option && $current == --*=* ]]; then\n"
		"\t\toption=${current%%%%=*} current=${current#*=}\n"
		"\tfi\n",
		with_value,
		has_commands ? "if [[ -z $command ]]; then command=$word; else ((place++)); fi"
			     : "((place++))");
}

char *ctl_completion_shells_bash(const CtlCompletion *self)
{
	GString *script = g_string_new(NULL);
	g_autofree char *with_value = options_with_value(self);

	g_string_append_printf(
		script,
		"# Completion of %s in bash, made by snowflakectl completion.\n"
		"_%s() {\n"
		"\tlocal IFS=$' \\t\\n' line=${COMP_LINE:0:COMP_POINT} typed=() word current\n"
		"\tlocal command='' option='' words='' default='' place=0\n"
		"\tlocal a_word=$'^[[:blank:]]*(([^[:blank:]\"\\'\\\\]|\\\\\\\\(.|$)|"
		"\\'[^\\']*(\\'|$)|\"([^\"\\\\]|\\\\\\\\(.|$))*(\"|$))+)'\n\n",
		self->name, self->name);
	write_reader(script, with_value, self->commands->len > 0);
	g_string_append(script, "\tif [[ -n $option ]]; then\n\t\tcase $command:$option in\n");
	ctl_completion_each(self, write_values, script);
	g_string_append(script, "\t\tesac\n\telif [[ $current == -* ]]; then\n"
				"\t\tcase $command in\n");
	ctl_completion_each(self, write_options, script);
	g_string_append(script, "\telse\n\t\tcase $command:$place in\n");
	write_commands(script, self);
	ctl_completion_each(self, write_places, script);
	g_string_append_printf(script,
			       "\t\tesac\n\tfi\n"
			       "\t[[ -n $default ]] && compopt -o \"$default\"\n"
			       "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
			       "}\n"
			       "complete -F _%s %s\n",
			       self->name, self->name);
	return g_string_free(script, FALSE);
}
