/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/config.h"

#include <string.h>

#include "client/client-tls.h"
#include "common/address.h"
#include "common/useragent.h"

#define MAX_PREFETCH_MS 10000
#define MAX_AGE_MS      3600000

static void set_invalid(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void set_invalid(GError **error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	g_propagate_error(error, g_error_new_valist(SNOWFLAKE_CLIENT_ERROR,
						    SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, format,
						    arguments));
	va_end(arguments);
}

static gboolean check_config(const SnowflakePoolConfig *config, GError **error)
{
	gsize agent_bytes = config->agent != NULL ? strlen(config->agent) : 0;

	for (guint i = 0; i < G_N_ELEMENTS(config->reserved); i++) {
		if (config->reserved[i] != NULL) {
			set_invalid(error, "reserved is not NULL; use SNOWFLAKE_POOL_CONFIG_INIT");
			return FALSE;
		}
	}
	if (config->agent == NULL) {
		set_invalid(error, "no useragent");
	} else if (agent_bytes > USERAGENT_MAX_BYTES) {
		set_invalid(error, "the useragent has %zu bytes; the limit is %d", agent_bytes,
			    USERAGENT_MAX_BYTES);
	} else if (!useragent_is_valid(config->agent, agent_bytes)) {
		/* checked here, because otherwise a server would refuse each call, and takes would
		 * time out */
		g_autofree char *escaped = g_strescape(config->agent, NULL);

		set_invalid(error,
			    "\"%s\" is not a useragent: use a letter followed by letters, digits "
			    "and hyphens",
			    escaped);
	} else if (config->prefetch_ms < 1 || config->prefetch_ms > MAX_PREFETCH_MS) {
		set_invalid(error, "prefetch_ms is %u; it must be 1 to %u", config->prefetch_ms,
			    MAX_PREFETCH_MS);
	} else if (config->max_age_ms < 2 * config->prefetch_ms ||
		   config->max_age_ms > MAX_AGE_MS) {
		set_invalid(error,
			    "max_age_ms is %u; it must be %u (twice prefetch_ms) to %u, so that "
			    "prefetched IDs are taken before they are too old",
			    config->max_age_ms, 2 * config->prefetch_ms, MAX_AGE_MS);
	} else {
		return TRUE;
	}
	return FALSE;
}

PoolConfig *pool_config_new(const SnowflakePoolConfig *config, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(PoolConfig) self = g_new0(PoolConfig, 1);
	const char *const *servers = config->servers;
	g_autoptr(GError) fault = NULL;

	if (!check_config(config, error))
		return NULL;
	if (servers == NULL || servers[0] == NULL)
		servers = default_servers;
	self->addresses = address_parse_servers(servers, &fault);
	for (guint i = 0; fault == NULL && i < self->addresses->len; i++) {
		const Address *address = self->addresses->pdata[i];

		self->has_names |=
			address->path == NULL && !g_hostname_is_ip_address(address->host);
	}
	/* if one server uses TLS, servers that are discovered later use it too */
	if (fault == NULL && address_any_is_tls(self->addresses))
		self->tls = client_tls_new(&config->tls, &fault);
	if (fault != NULL) {
		set_invalid(error, "%s", fault->message);
		return NULL;
	}
	self->discover = config->discover;
	self->agent = g_strdup(config->agent);
	self->prefetch_ms = config->prefetch_ms;
	self->max_age_ms = config->max_age_ms;
	self->timeout_ms = config->timeout_ms;
	return g_steal_pointer(&self);
}

void pool_config_free(PoolConfig *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->addresses, g_ptr_array_unref);
	g_free(self->agent);
	g_free(self->own_nonce);
	tls_client_unref(self->tls);
	g_free(self);
}
