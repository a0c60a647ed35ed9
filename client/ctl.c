/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl.h"

#include <string.h>

#include "client/ctl-output.h"
#include "core/text.h"

const CtlCommand ctl_help_command = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "Shows the options, of a command too.",
};

const CtlCommand *const CTL_COMMANDS[] = {
	&ctl_id_command,       &ctl_decode_command, &ctl_ping_command, &ctl_workers_command,
	&ctl_registry_command, &ctl_bench_command,  &ctl_help_command, NULL,
};

gboolean ctl_number(const char *option, const char *text, guint64 min, guint64 max,
		    guint64 *out_number)
{
	if (text == NULL || g_ascii_string_to_unsigned(text, 10, min, max, out_number, NULL))
		return TRUE;

	g_autofree char *shown = text_escape(text, strlen(text));

	ctl_output_complain("%s: \"%s\" is not a whole number from %" G_GUINT64_FORMAT
			    " to %" G_GUINT64_FORMAT,
			    option, shown, min, max);
	return FALSE;
}

char **ctl_servers(const CtlOptions *options)
{
	const char *environment = g_getenv(CTL_SERVERS_VARIABLE);
	g_autoptr(GStrvBuilder) servers = g_strv_builder_new();
	g_auto(GStrv) parts = g_strsplit(environment != NULL ? environment : "", ",", -1);

	if (options->servers != NULL)
		return g_strdupv(options->servers);
	for (gsize i = 0; parts[i] != NULL; i++) {
		if (g_strstrip(parts[i])[0] != '\0')
			g_strv_builder_add(servers, parts[i]);
	}

	char **found = g_strv_builder_end(servers);

	if (found[0] == NULL) {
		g_strfreev(found);
		found = g_strsplit(SNOWFLAKE_CLIENT_DEFAULT_SERVER, ",", -1);
	}
	return found;
}

SnowflakeClient *ctl_client_new(const char *const *servers, const CtlOptions *options)
{
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client = snowflake_client_new(servers, &error);

	if (client == NULL)
		ctl_output_complain("%s: %s",
				    options->servers != NULL ? "--server, one at a time"
							     : CTL_SERVERS_VARIABLE,
				    error->message);
	else
		snowflake_client_set_timeout_ms(client, options->timeout_ms);
	return client;
}

/* --zookeeper, or what the environment has in its place; an empty one is none. */
static const char *zookeeper_text(const CtlOptions *options)
{
	const char *environment = g_getenv(CTL_ZOOKEEPER_VARIABLE);

	if (options->zookeeper != NULL)
		return options->zookeeper;
	if (options->servers != NULL || environment == NULL || environment[0] == '\0')
		return NULL;
	return environment;
}

gboolean ctl_zookeeper_hosts(const CtlOptions *options, ZookeeperHosts **out_hosts, char **out_auth)
{
	const char *text = zookeeper_text(options);
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;
	g_autoptr(GError) error = NULL;

	if (options->zookeeper != NULL && options->servers != NULL) {
		ctl_output_complain("--server or --zookeeper, not both");
		return FALSE;
	}
	if (text != NULL && (hosts = zookeeper_hosts_parse(text, &error)) == NULL) {
		ctl_output_complain("%s: %s",
				    options->zookeeper != NULL ? "--zookeeper"
							       : CTL_ZOOKEEPER_VARIABLE,
				    error->message);
		return FALSE;
	}
	if (hosts != NULL && options->zookeeper_auth != NULL &&
	    (auth = zookeeper_auth_read(options->zookeeper_auth, &error)) == NULL) {
		ctl_output_complain("--zookeeper-auth: %s", error->message);
		return FALSE;
	}
	if (hosts == NULL && options->zookeeper_auth != NULL) {
		ctl_output_complain("--zookeeper-auth without --zookeeper");
		return FALSE;
	}
	*out_hosts = g_steal_pointer(&hosts);
	*out_auth = g_steal_pointer(&auth);
	return TRUE;
}
