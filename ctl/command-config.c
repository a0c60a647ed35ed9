/* SPDX-License-Identifier: Apache-2.0 */

/* "config check": checks whether snowflaked would start with a config file and the files that it
 * names, and prints the options that the config file sets. */

#include <string.h>

#include "common/tls/client.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
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

static CtlStatus run_config(const CtlOptions *ctl_options, const char *const *arguments)
{
	static const char *const HEADS[] = {"option", "value", "default", NULL};
	const char *file = arguments[0] != NULL ? arguments[1] : NULL;
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = NULL;
	g_autoptr(Options) defaults = read_options(NULL, NULL);
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);
	JsonObject *object;
	JsonArray *array;

	if (file == NULL || *file == '\0' || arguments[2] != NULL ||
	    strcmp(arguments[0], "check") != 0) {
		ctl_output_complain("config takes two arguments: check and a file name");
		return CTL_USAGE;
	}
	options = read_options(file, &error);
	if (options == NULL) {
		ctl_output_complain("%s", error->message);
		return error->domain == G_FILE_ERROR ? CTL_USAGE : CTL_FAILED;
	}
	if (!check_files(options, &error)) {
		ctl_output_complain("%s", error->message);
		return CTL_FAILED;
	}
	object = json_object_new();
	array = json_array_new();
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *value = options_text_of(options, spec);
		g_autofree char *otherwise = options_text_of(defaults, spec);
		JsonObject *element;

		if (spec->only_args || g_strcmp0(value, otherwise) == 0)
			continue;
		ctl_table_add(table, g_strdup(spec->name));
		ctl_table_add(table, ctl_format_path(value));
		ctl_table_add(table,
			      otherwise != NULL ? ctl_format_path(otherwise) : g_strdup("-"));
		element = json_object_new();
		json_object_set_string_member(element, "option", spec->name);
		ctl_format_json_text(element, "value", value);
		ctl_format_json_text(element, "default", otherwise);
		json_array_add_object_element(array, element);
	}
	ctl_format_json_text(object, "file", file);
	json_object_set_boolean_member(object, "ok", TRUE);
	gboolean has_any = json_array_get_length(array) > 0;

	json_object_set_array_member(object, "not_default", array);

	g_autofree char *text = ctl_format_json(object);

	ctl_output_print("%s\n", ctl_options->json ? text : "ok");
	if (!ctl_options->json && has_any)
		ctl_table_print(table);
	return CTL_OK;
}

const CtlCommand ctl_config_command = {
	.name = "config",
	.arguments = "check FILE",
	.summary = "Checks a config file for snowflaked.",
	.details = "Reads FILE as snowflaked --config does, and the certificates, keys and "
		   "passwords that it names. If they are valid, prints ok and the options that "
		   "differ from their defaults. Otherwise, prints the error that snowflaked would "
		   "print, and exits with status 1, or 2 if FILE cannot be read. Opens no "
		   "connections. Run it as the user that snowflaked runs as.",
	.takes_no_server = TRUE,
	.run = run_config,
};
