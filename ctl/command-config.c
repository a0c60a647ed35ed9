/* SPDX-License-Identifier: Apache-2.0 */

/* "config check": whether snowflaked would start with a config file, and which options it sets. */

#include <string.h>

#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "options/options-table.h"

/* (nullable): parses as snowflaked does if it is started with that file alone */
static Options *read_options(const char *file, GError **error)
{
	g_autofree char *config = g_strconcat("--config=", file, NULL);
	char *arguments[] = {"snowflaked", config, NULL};

	return options_new_from_args(file != NULL ? 2 : 1, arguments, error);
}

typedef struct {
	const char *name;
	char *value; /* (nullable), as the next: there is none */
	char *otherwise;
} Difference;

static void difference_free(Difference *self)
{
	g_free(self->value);
	g_free(self->otherwise);
	g_free(self);
}

/* (transfer full): of Difference, in the order of --help. */
static GPtrArray *find_differences(const Options *options, const Options *defaults)
{
	GPtrArray *differences = g_ptr_array_new_with_free_func((GDestroyNotify)difference_free);

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *value = options_table_text_of(options, spec);
		g_autofree char *otherwise = options_table_text_of(defaults, spec);

		if (spec->only_args || g_strcmp0(value, otherwise) == 0)
			continue;

		Difference *difference = g_new(Difference, 1);

		*difference = (Difference){spec->name, g_steal_pointer(&value),
					   g_steal_pointer(&otherwise)};
		g_ptr_array_add(differences, difference);
	}
	return differences;
}

static void print_differences(const GPtrArray *differences)
{
	static const char *const HEADS[] = {"option", "value", "default", NULL};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	ctl_output_print("ok\n");
	for (guint i = 0; i < differences->len; i++) {
		const Difference *difference = differences->pdata[i];

		ctl_table_add(table, g_strdup(difference->name));
		ctl_table_add(table, ctl_format_path(difference->value));
		ctl_table_add(table, difference->otherwise != NULL
					     ? ctl_format_path(difference->otherwise)
					     : g_strdup("-"));
	}
	if (differences->len > 0)
		ctl_table_print(table);
}

static void print_json(const char *file, const GPtrArray *differences)
{
	JsonObject *object = json_object_new();
	JsonArray *array = json_array_new();

	for (guint i = 0; i < differences->len; i++) {
		const Difference *difference = differences->pdata[i];
		JsonObject *element = json_object_new();

		json_object_set_string_member(element, "option", difference->name);
		ctl_format_json_text(element, "value", difference->value);
		ctl_format_json_text(element, "default", difference->otherwise);
		json_array_add_object_element(array, element);
	}
	ctl_format_json_text(object, "file", file);
	json_object_set_boolean_member(object, "ok", TRUE);
	json_object_set_array_member(object, "not_default", array);

	g_autofree char *text = ctl_format_json(object);

	ctl_output_print("%s\n", text);
}

static CtlStatus check_file(const char *file, gboolean json)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = read_options(file, &error);
	g_autoptr(Options) defaults = read_options(NULL, NULL);

	if (options == NULL) {
		ctl_output_complain("%s", error->message);
		return error->domain == G_FILE_ERROR ? CTL_USAGE : CTL_FAILED;
	}

	g_autoptr(GPtrArray) differences = find_differences(options, defaults);

	if (json)
		print_json(file, differences);
	else
		print_differences(differences);
	return CTL_OK;
}

static CtlStatus run_config(const CtlOptions *options, const char *const *arguments)
{
	gboolean has_file = arguments[0] != NULL && arguments[1] != NULL &&
			    arguments[1][0] != '\0' && arguments[2] == NULL;

	if (!has_file || strcmp(arguments[0], "check") != 0) {
		ctl_output_complain("config takes two arguments: check and a file");
		return CTL_USAGE;
	}
	return check_file(arguments[1], options->json);
}

const CtlCommand ctl_config_command = {
	.name = "config",
	.arguments = "check FILE",
	.summary = "Checks a config file of snowflaked.",
	.details = "Reads it as snowflaked --config does, and says what that would say: what is "
		   "wrong, with exit status 1, and 2 if the file cannot be read; or ok, and what "
		   "is not at its default. Looks at no machine, port or directory that is named "
		   "in it.",
	.takes_no_server = TRUE,
	.run = run_config,
};
