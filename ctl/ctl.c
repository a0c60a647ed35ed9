/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/ctl.h"

#include <string.h>

#include "common/zookeeper/auth.h"
#include "core/text.h"
#include "ctl/output.h"

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

/* (transfer full) */
static char **servers(const CtlOptions *options)
{
	const char *environment = g_getenv(CTL_SERVERS_VARIABLE);
	g_autoptr(GStrvBuilder) named = g_strv_builder_new();
	g_auto(GStrv) parts = g_strsplit(environment != NULL ? environment : "", ",", -1);

	if (options->servers != NULL)
		return g_strdupv(options->servers);
	for (gsize i = 0; parts[i] != NULL; i++) {
		if (g_strstrip(parts[i])[0] != '\0')
			g_strv_builder_add(named, parts[i]);
	}

	char **found = g_strv_builder_end(named);

	if (found[0] == NULL) {
		g_strfreev(found);
		found = g_strsplit(SNOWFLAKE_CLIENT_DEFAULT_SERVER, ",", -1);
	}
	return found;
}

GPtrArray *ctl_addresses(const CtlOptions *options)
{
	g_auto(GStrv) texts = servers(options);
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);

	for (gsize i = 0; texts[i] != NULL; i++) {
		g_autoptr(GError) error = NULL;
		Address *address = address_parse_peer(texts[i], &error);

		if (address == NULL) {
			ctl_output_complain("%s: %s",
					    options->servers != NULL ? "--server, one at a time"
								     : CTL_SERVERS_VARIABLE,
					    error->message);
			return NULL;
		}
		g_ptr_array_add(addresses, address);
	}
	return g_steal_pointer(&addresses);
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

SnowflakeClient *ctl_client_new(const Address *const *servers, guint count, guint timeout_ms)
{
	g_autofree const char **texts = g_new0(const char *, count + 1);
	SnowflakeClient *client;

	for (guint i = 0; i < count; i++)
		texts[i] = servers[i]->text;
	client = snowflake_client_new(texts, NULL);
	snowflake_client_set_timeout_ms(client, timeout_ms);
	return client;
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
