/* SPDX-License-Identifier: Apache-2.0 */

/* Options from a config file, from a command line, or as settings of an embedded node. The first
 * byte selects one of these; arguments are separated by newlines. Options that were parsed, and are
 * passed again as a command line, must have the same values. */
#include <string.h>

#include "options/options-table.h"
#include "options/options.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"

#define PROGRAM "snowflaked"

typedef Options *(*Read)(const guint8 *data, gsize size, GError **error);

static Options *read_args(char **args, GError **error)
{
	return options_new_from_args((int)g_strv_length(args), args, error);
}

static Options *read_file(const guint8 *data, gsize size, GError **error)
{
	g_autofree char *config = g_strconcat("--config=", input_file(data, size), NULL);
	char *args[] = {PROGRAM, config, NULL};

	return read_args(args, error);
}

static char **split(const guint8 *data, gsize size, const char *first)
{
	g_autofree char *text = input_text(data, size);
	g_autofree char *all = g_strconcat(first, text, NULL);

	return g_strsplit(all, "\n", -1);
}

static Options *read_command_line(const guint8 *data, gsize size, GError **error)
{
	g_auto(GStrv) args = split(data, size, PROGRAM "\n");

	/* a file of this machine is not part of the input */
	for (char **arg = args; *arg != NULL; arg++)
		if (g_str_has_prefix(*arg, "--config")) {
			g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, "a file");
			return NULL;
		}
	return read_args(args, error);
}

static Options *read_settings(const guint8 *data, gsize size, GError **error)
{
	g_auto(GStrv) settings = split(data, size, "");

	return options_embedded_new((const char *const *)settings, error);
}

static void add(GPtrArray *args, const OptionSpec *spec, const char *text)
{
	g_ptr_array_add(args, g_strdup_printf("--%s=%s", spec->name, text));
}

/* Adds an argument; for a list, one for each element. */
static void add_option(GPtrArray *args, const Options *options, const OptionSpec *spec)
{
	g_autofree char *text = NULL;

	if (spec->type == OPTION_ADDRESSES) {
		for (guint i = 0; i < options->listen->len; i++)
			add(args, spec, ((const Address *)options->listen->pdata[i])->text);
		return;
	}
	if (spec->type == OPTION_TARGETS) {
		for (guint i = 0; i < options->audit_log->len; i++)
			add(args, spec, ((const AuditTarget *)options->audit_log->pdata[i])->text);
		return;
	}
	if (spec->type == OPTION_HOSTS) {
		for (guint i = 0; i < options->admin_hosts->len; i++)
			add(args, spec, options->admin_hosts->pdata[i]);
		return;
	}
	text = options_text_of(options, spec);
	if (text != NULL)
		add(args, spec, text);
}

static void check_again(const Options *options)
{
	g_autoptr(GPtrArray) args = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) again = NULL;

	g_ptr_array_add(args, g_strdup(PROGRAM));
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (!OPTIONS_TABLE[i].only_args)
			add_option(args, options, &OPTIONS_TABLE[i]);
	g_ptr_array_add(args, NULL);
	again = read_args((char **)args->pdata, &error);
	g_assert_no_error(error);
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *text = options_text_of(options, spec);
		g_autofree char *text_again = options_text_of(again, spec);

		if (!spec->only_args)
			g_assert_cmpstr(text, ==, text_again);
	}
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	static const Read READERS[] = {read_file, read_command_line, read_settings};
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = NULL;

	if (size == 0)
		return 0;
	options = READERS[data[0] % G_N_ELEMENTS(READERS)](data + 1, size - 1, &error);
	input_check_error(options == NULL, &error);
	if (options != NULL && !options->help && !options->version && !options->print_config)
		check_again(options);
	return 0;
}
