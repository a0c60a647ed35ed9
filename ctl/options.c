/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include <string.h>

#include "common/zookeeper/hosts.h"
#include "core/text.h"
#include "ctl/format.h"
#include "ctl/output.h"

GPtrArray *ctl_options_addresses(const CtlOptions *self)
{
	const char *environment = g_getenv(CTL_SERVERS_VARIABLE);
	g_auto(GStrv) named = g_strsplit(environment != NULL ? environment : "", ",", -1);
	char **texts = self->servers != NULL ? self->servers : named;
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);

	for (gsize i = 0; texts[i] != NULL; i++) {
		g_autoptr(GError) error = NULL;
		Address *address;

		/* ignore empty elements of the variable */
		if (self->servers == NULL && g_strstrip(texts[i])[0] == '\0')
			continue;
		address = address_parse_server(texts[i], &error);
		if (address == NULL) {
			ctl_output_complain("%s: %s",
					    self->servers != NULL ? "--server, one at a time"
								  : CTL_SERVERS_VARIABLE,
					    error->message);
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
		ctl_output_complain("--%s: %s",
				    error->code == TLS_ERROR_CERTIFICATE ? "tls-certificate"
				    : error->code == TLS_ERROR_KEY       ? "tls-key"
									 : "tls-ca",
				    error->message);
	return tls;
}

static gboolean has_tls(const CtlOptions *self)
{
	return self->tls.ca != NULL || self->tls.certificate != NULL || self->tls.key != NULL ||
	       self->tls.any_name;
}

gboolean ctl_options_check_tls(const CtlOptions *self)
{
	g_autoptr(TlsClient) tls = has_tls(self) ? ctl_options_tls_new(self) : NULL;

	return tls != NULL || !has_tls(self);
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

gboolean ctl_options_zookeeper(const CtlOptions *self, ZookeeperHosts **out_hosts, char **out_auth)
{
	const char *environment = g_getenv(CTL_ZOOKEEPER_VARIABLE);
	gboolean is_named = self->zookeeper != NULL || self->servers != NULL ||
			    environment == NULL || environment[0] == '\0';
	const char *text = is_named ? self->zookeeper : environment;
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;
	g_autoptr(GError) error = NULL;

	if (self->zookeeper != NULL && self->servers != NULL) {
		ctl_output_complain("--server and --zookeeper cannot be combined; remove one");
		return FALSE;
	}
	if (text != NULL && (hosts = zookeeper_hosts_parse(text, &error)) == NULL) {
		ctl_output_complain(
			"%s: %s", self->zookeeper != NULL ? "--zookeeper" : CTL_ZOOKEEPER_VARIABLE,
			error->message);
		return FALSE;
	}
	if (hosts != NULL && !zookeeper_hosts_set_tls(hosts, &self->tls, &error)) {
		ctl_output_complain("--zookeeper: %s", error->message);
		return FALSE;
	}
	if (hosts != NULL && self->zookeeper_auth != NULL &&
	    (auth = zookeeper_hosts_read_auth(self->zookeeper_auth, &error)) == NULL) {
		ctl_output_complain("--zookeeper-auth: %s", error->message);
		return FALSE;
	}
	if (hosts == NULL && self->zookeeper_auth != NULL) {
		ctl_output_complain("--zookeeper-auth requires --zookeeper");
		return FALSE;
	}
	*out_hosts = g_steal_pointer(&hosts);
	*out_auth = g_steal_pointer(&auth);
	return TRUE;
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
		"%s: \"%s\" is not a time; give milliseconds since 1970 (at most %" G_GINT64_FORMAT
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
