/* SPDX-License-Identifier: Apache-2.0 */

/* "config check": checks whether snowflaked would start with a config file and the files that it
 * names, and prints the options that it sets. "config show": prints the options of snowflakectl. */

#include <string.h>

#include "common/tls/client.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/settings.h"
#include "options/options-table.h"

/* Parses the file as snowflaked does if it is started with only that file. Returns: (nullable): the
 * options */
static Options *read_options(const char *file, GError **error)
{
	g_autofree char *config = g_strconcat("--config=", file, NULL);
	char *arguments[] = {"snowflaked", config, NULL};

	return options_new_from_args(file != NULL ? 2 : 1, arguments, error);
}

/* Reads the files that the options name, as the server does when it starts. Returns %FALSE with an
 * error set. */
static gboolean check_files(Options *options, GError **error)
{
	const TlsNames names = options_tls_names(options);
	g_autofree char *auth = NULL;

	if (address_any_is_tls(options->listen)) {
		g_autoptr(TlsContext) context = tls_context_new_server(
			options->tls_certificate, options->tls_key, options->tls_client_ca, error);

		if (context == NULL)
			return FALSE;
	}
	if (names.ca != NULL || names.certificate != NULL) {
		g_autoptr(TlsClient) client = tls_client_new(&names, error);

		if (client == NULL)
			return FALSE;
	}
	if (options->zookeeper != NULL &&
	    !zookeeper_hosts_set_tls(options->zookeeper, &names, error)) {
		g_prefix_error(error, "--zookeeper: ");
		return FALSE;
	}
	if (options->zookeeper_auth != NULL) {
		auth = zookeeper_hosts_read_auth(options->zookeeper_auth, error);
		if (auth == NULL) {
			g_prefix_error(error, "--zookeeper-auth: ");
			return FALSE;
		}
	}
	for (guint i = 0; i < options->audit_log->len; i++)
		if (!audit_target_check(options->audit_log->pdata[i], error)) {
			g_prefix_error(error, "--audit-log: ");
			return FALSE;
		}
	return TRUE;
}

/* Prints the options that differ from their defaults. */
static void print_check(const Options *options, gboolean json, const char *file)
{
	static const char *const HEADS[] = {"option", "value", "default", NULL};
	g_autoptr(Options) defaults = read_options(NULL, NULL);
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);
	g_autoptr(JsonArray) array = json_array_new();
	gboolean has_any = FALSE;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *value = options_text_of(options, spec);
		g_autofree char *otherwise = options_text_of(defaults, spec);

		if (spec->only_args || g_strcmp0(value, otherwise) == 0)
			continue;
		has_any = TRUE;
		if (json) {
			JsonObject *element = json_object_new();

			json_object_set_string_member(element, "option", spec->name);
			ctl_format_json_text(element, "value", value);
			ctl_format_json_text(element, "default", otherwise);
			json_array_add_object_element(array, element);
		} else {
			ctl_table_add(table, g_strdup(spec->name));
			ctl_table_add(table, ctl_format_path(value));
			ctl_table_add(table, otherwise != NULL ? ctl_format_path(otherwise)
							       : g_strdup("-"));
		}
	}
	if (json) {
		JsonObject *object = json_object_new();

		ctl_format_json_text(object, "file", file);
		json_object_set_boolean_member(object, "ok", TRUE);
		json_object_set_array_member(object, "not_default", g_steal_pointer(&array));
		ctl_output_print_object(object);
		return;
	}
	ctl_output_print("ok\n");
	if (has_any)
		ctl_table_print(table);
}

static CtlStatus run_check(const CtlOptions *ctl_options, const char *file)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = read_options(file, &error);

	if (options == NULL) {
		ctl_output_complain("%s", error->message);
		return error->domain == G_FILE_ERROR ? CTL_USAGE : CTL_FAILED;
	}
	if (!check_files(options, &error)) {
		ctl_output_complain("%s", error->message);
		return CTL_FAILED;
	}
	print_check(options, ctl_options->json, file);
	return CTL_OK;
}

static void add_setting_row(CtlTable *table, const char *option, const char *value,
			    const char *source)
{
	ctl_table_add(table, g_strdup(option));
	ctl_table_add(table, value != NULL ? ctl_format_path(value) : g_strdup("-"));
	ctl_table_add(table, ctl_format_path(source));
}

static void add_setting_object(const CtlSettingSpec *spec, const char *value, const char *source)
{
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "option", spec->option);
	json_object_set_string_member(object, "variable", spec->variable);
	ctl_format_json_text(object, "value", value);
	ctl_format_json_text(object, "source", source);
	ctl_output_add_object(object);
}

/* Prints the options of snowflakectl that the environment and config files can set, with their
 * sources. */
static CtlStatus run_show(const CtlOptions *ctl_options)
{
	static const char *const HEADS[] = {"option", "value", "source", NULL};
	CtlOptions options = *ctl_options;
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);
	g_autoptr(GError) error = NULL;

	if (!ctl_settings_load(&options, CTL_USE_ALL, NULL, &error))
		return ctl_output_misuse("%s", error->message);
	for (guint i = 0; i < CTL_N_SETTINGS; i++) {
		const CtlSettingSpec *spec = &CTL_SETTINGS[i];
		const CtlOrigin *origin = &options.origins[i];
		g_autofree char *value = ctl_settings_text(&options, i);
		const char *source = origin->source == CTL_SOURCE_DEFAULT        ? "default"
				     : origin->source == CTL_SOURCE_COMMAND_LINE ? "command line"
										 : origin->where;

		if (options.json)
			add_setting_object(spec, value, source);
		else
			add_setting_row(table, spec->option, value, source);
	}
	ctl_output_end_array(options.json, TRUE);
	if (!options.json)
		ctl_table_print(table);
	return CTL_OK;
}

static CtlStatus run_config(const CtlOptions *options, const char *const *arguments)
{
	guint n_arguments = g_strv_length((char **)arguments);

	if (n_arguments == 1 && strcmp(arguments[0], "show") == 0)
		return run_show(options);
	if (n_arguments == 2 && strcmp(arguments[0], "check") == 0 && arguments[1][0] != '\0')
		return run_check(options, arguments[1]);
	return ctl_output_misuse("config takes show, or check and a file name");
}

const CtlCommand ctl_config_command = {
	.name = "config",
	.arguments = "check FILE | show",
	.summary = "Checks snowflaked's config file, or shows snowflakectl's options.",
	.details = "config show prints the options that the environment and the config files of "
		   "snowflakectl can set, with the source of each value. "
		   "config check reads FILE as snowflaked --config does, and the certificates, "
		   "keys and passwords that it names. If they are valid, prints ok and the options "
		   "that "
		   "differ from their defaults. Otherwise, prints the error that snowflaked would "
		   "print, and exits with status 1, or 2 if FILE cannot be read. Opens no "
		   "connections. Run it as the user that snowflaked runs as.",
	.takes_no_server = TRUE,
	.run = run_config,
};
