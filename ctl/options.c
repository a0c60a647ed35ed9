/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include <string.h>

#include "common/tls/stream.h"
#include "common/zookeeper/hosts.h"
#include "core/text.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/settings.h"

#define MAX_TIMEOUT_MS 3600000

/* Prints a message about the value of an option, after the source of the value. */
static void complain_of(const CtlOptions *self, CtlSetting setting, const char *message)
{
	g_autofree char *name = ctl_settings_name(self, setting);

	ctl_output_complain("%s: %s", name, message);
}

GPtrArray *ctl_options_addresses(const CtlOptions *self)
{
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);

	for (char **text = self->servers; text != NULL && *text != NULL; text++) {
		g_autoptr(GError) error = NULL;
		Address *address = address_parse_server(*text, &error);

		if (address == NULL) {
			if (self->origins[CTL_SERVER].source == CTL_SOURCE_COMMAND_LINE)
				ctl_output_complain("--server, one at a time: %s", error->message);
			else
				complain_of(self, CTL_SERVER, error->message);
			return NULL;
		}
		g_ptr_array_add(addresses, address);
	}
	if (addresses->len == 0)
		g_ptr_array_add(addresses,
				address_parse_server(SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL));
	return g_steal_pointer(&addresses);
}

TlsClient *ctl_options_tls_new(const CtlOptions *self)
{
	g_autoptr(GError) error = NULL;
	TlsClient *tls = tls_client_new(&self->tls, &error);

	if (tls == NULL)
		complain_of(self,
			    error->code == TLS_ERROR_CERTIFICATE ? CTL_TLS_CERTIFICATE
			    : error->code == TLS_ERROR_KEY       ? CTL_TLS_KEY
								 : CTL_TLS_CA,
			    error->message);
	return tls;
}

static gboolean has_tls(const CtlOptions *self)
{
	return self->tls.ca != NULL || self->tls.certificate != NULL || self->tls.key != NULL ||
	       self->tls.any_name;
}

SnowflakeClient *ctl_options_client_new(const CtlOptions *self, const Address *const *servers,
					guint count)
{
	g_autofree const char **texts = g_new0(const char *, count + 1);
	const SnowflakeClientTls tls = {
		.ca = self->tls.ca,
		.certificate = self->tls.certificate,
		.key = self->tls.key,
		.any_name = self->tls.any_name,
	};
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client;

	for (guint i = 0; i < count; i++)
		texts[i] = servers[i]->text;
	client = snowflake_client_new(texts, NULL);
	snowflake_client_set_timeout_ms(client, self->timeout_ms);
	snowflake_client_set_retry(client, FALSE);
	/* this rereads the files; if they have become invalid, no server is trusted */
	if (has_tls(self) && !snowflake_client_set_tls(client, &tls, &error))
		ctl_output_complain("%s", error->message);
	return client;
}

void ctl_options_add_remedy(const CtlOptions *self, GError *error)
{
	g_autofree char *message = error->message;
	const char *remedy = "";

	if (self->tls.ca == NULL && strstr(message, TLS_STREAM_REFUSES) != NULL)
		remedy = "; if your own CA signed it, specify the CA with --tls-ca";
	else if (self->tls.certificate == NULL && strstr(message, TLS_STREAM_REPORTS) != NULL)
		remedy = "; if the server requires a client certificate, use --tls-certificate "
			 "and --tls-key";
	error->message = g_strconcat(message, remedy, NULL);
}

void ctl_registry_free(CtlRegistry *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->hosts, zookeeper_hosts_free);
	g_clear_pointer(&self->postgresql, postgresql_target_free);
	g_free(self->auth);
	g_free(self->schema);
	g_free(self->root);
	g_free(self);
}

/* Fills @registry from --zookeeper. Returns %FALSE, with the message printed. */
static gboolean set_zookeeper(const CtlOptions *self, CtlRegistry *registry)
{
	g_autoptr(GError) error = NULL;

	registry->hosts = zookeeper_hosts_parse(self->zookeeper, &error);
	if (registry->hosts == NULL ||
	    !zookeeper_hosts_set_tls(registry->hosts, &self->tls, &error)) {
		complain_of(self, CTL_ZOOKEEPER, error->message);
		return FALSE;
	}
	if (self->zookeeper_auth != NULL &&
	    (registry->auth = zookeeper_hosts_read_auth(self->zookeeper_auth, &error)) == NULL) {
		complain_of(self, CTL_ZOOKEEPER_AUTH, error->message);
		return FALSE;
	}
	registry->name = "ZooKeeper";
	registry->option = "--zookeeper";
	registry->servers = registry->hosts->servers;
	registry->root = g_strdup(registry->hosts->root);
	return TRUE;
}

/* Fills @registry from --postgresql. Returns %FALSE, with the message printed. */
static gboolean set_postgresql(const CtlOptions *self, CtlRegistry *registry)
{
	g_autoptr(GError) error = NULL;

	registry->postgresql = postgresql_target_parse(self->postgresql, &error);
	if (registry->postgresql == NULL) {
		complain_of(self, CTL_POSTGRESQL, error->message);
		return FALSE;
	}
	registry->schema =
		postgresql_schema_parse(self->postgresql_schema != NULL ? self->postgresql_schema
									: POSTGRESQL_DEFAULT_SCHEMA,
					&error);
	if (registry->schema == NULL) {
		complain_of(self, CTL_POSTGRESQL_SCHEMA, error->message);
		return FALSE;
	}
	registry->name = "PostgreSQL";
	registry->option = "--postgresql";
	registry->servers = registry->postgresql->shown;
	registry->root = g_strconcat("/", registry->schema, NULL);
	return TRUE;
}

gboolean ctl_options_registry(const CtlOptions *self, CtlRegistry **out_registry)
{
	CtlSource zookeeper_source = self->origins[CTL_ZOOKEEPER].source;
	CtlSource postgresql_source = self->origins[CTL_POSTGRESQL].source;
	gboolean is_postgresql = self->postgresql != NULL &&
				 (self->zookeeper == NULL || postgresql_source > zookeeper_source);
	CtlSource source = is_postgresql ? postgresql_source : zookeeper_source;
	CtlSource server_source =
		self->servers != NULL ? self->origins[CTL_SERVER].source : CTL_SOURCE_DEFAULT;
	gboolean is_wanted = (is_postgresql || self->zookeeper != NULL) && source >= server_source;
	g_autoptr(CtlRegistry) registry = NULL;

	if (self->zookeeper != NULL && self->postgresql != NULL &&
	    postgresql_source == zookeeper_source) {
		ctl_output_complain("--zookeeper and --postgresql cannot be combined; remove one");
		return FALSE;
	}
	if (is_wanted && server_source == CTL_SOURCE_COMMAND_LINE) {
		ctl_output_complain("--server and %s cannot be combined; remove one",
				    is_postgresql ? "--postgresql" : "--zookeeper");
		return FALSE;
	}
	if (self->zookeeper_auth != NULL && (!is_wanted || is_postgresql) &&
	    self->origins[CTL_ZOOKEEPER_AUTH].source == CTL_SOURCE_COMMAND_LINE) {
		ctl_output_complain("--zookeeper-auth requires --zookeeper");
		return FALSE;
	}
	if (self->postgresql_schema != NULL && (!is_wanted || !is_postgresql) &&
	    self->origins[CTL_POSTGRESQL_SCHEMA].source == CTL_SOURCE_COMMAND_LINE) {
		ctl_output_complain("--postgresql-schema requires --postgresql");
		return FALSE;
	}
	if (is_wanted) {
		registry = g_new0(CtlRegistry, 1);
		if (!(is_postgresql ? set_postgresql : set_zookeeper)(self, registry))
			return FALSE;
	}
	*out_registry = g_steal_pointer(&registry);
	return TRUE;
}

gboolean ctl_options_check(CtlOptions *self)
{
	guint64 timeout_ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS;
	g_autofree char *source = ctl_settings_name(self, CTL_TIMEOUT);
	g_autoptr(TlsClient) tls = NULL;
	gboolean is_option = self->origins[CTL_TIMEOUT].source == CTL_SOURCE_COMMAND_LINE;

	if (!ctl_options_number(is_option ? "--timeout MS" : source, self->timeout, 1,
				MAX_TIMEOUT_MS, &timeout_ms))
		return FALSE;
	self->timeout_ms = (guint)timeout_ms;
	tls = has_tls(self) ? ctl_options_tls_new(self) : NULL;
	return tls != NULL || !has_tls(self);
}

gboolean ctl_options_number(const char *option, const char *text, guint64 min, guint64 max,
			    guint64 *out_number)
{
	if (text == NULL || text_parse_number(text, 10, min, max, out_number))
		return TRUE;

	g_autofree char *shown = text_escape(text, strlen(text));

	ctl_output_complain("%s: \"%s\" is not a whole number from %" G_GUINT64_FORMAT
			    " to %" G_GUINT64_FORMAT,
			    option, shown, min, max);
	return FALSE;
}

gboolean ctl_options_time(const char *option, const char *text, gint64 *out_time_ms)
{
	guint64 number;

	if (text == NULL)
		return TRUE;
	if (text_parse_number(text, 10, 0, CTL_FORMAT_MAX_TIME_MS, &number)) {
		*out_time_ms = (gint64)number;
		return TRUE;
	}
	if (ctl_format_parse_time(text, out_time_ms))
		return TRUE;

	g_autofree char *shown = text_escape(text, strlen(text));

	ctl_output_complain(
		"%s: \"%s\" is not a time; use milliseconds since 1970 (at most %" G_GINT64_FORMAT
		"), or an RFC 3339 time such as 2026-01-31T12:00:00.000Z",
		option, shown, CTL_FORMAT_MAX_TIME_MS);
	return FALSE;
}

gboolean ctl_options_layout(const char *text, Layout *out_layout)
{
	g_autoptr(GError) error = NULL;

	if (text == NULL || layout_parse(text, out_layout, &error))
		return TRUE;
	ctl_output_complain("--layout: %s", error->message);
	return FALSE;
}
