/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/config.h"

#include <string.h>

#include "client/client-tls.h"
#include "common/address.h"
#include "common/useragent.h"

#define MAX_PREFETCH_MS 10000
#define MAX_AGE_MS      3600000

static gboolean refuse_config(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static gboolean refuse_config(GError **error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	g_propagate_error(error, g_error_new_valist(SNOWFLAKE_CLIENT_ERROR,
						    SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, format,
						    arguments));
	va_end(arguments);
	return FALSE;
}

static gboolean check_agent(const char *agent, GError **error)
{
	if (agent == NULL)
		return refuse_config(error, "no useragent");
	if (strlen(agent) > USERAGENT_MAX_BYTES)
		return refuse_config(error, "a useragent of %zu bytes, the limit is %d",
				     strlen(agent), USERAGENT_MAX_BYTES);
	/* checked here, because a server would refuse each call, and takes would time out */
	if (!useragent_is_valid(agent, strlen(agent))) {
		g_autofree char *escaped = g_strescape(agent, NULL);

		return refuse_config(
			error,
			"\"%s\" is no useragent: it is a letter, and then letters, digits and "
			"hyphens",
			escaped);
	}
	return TRUE;
}

static gboolean check_times(const SnowflakePoolConfig *config, GError **error)
{
	if (config->prefetch_ms < 1 || config->prefetch_ms > MAX_PREFETCH_MS)
		return refuse_config(error, "prefetch_ms is %u, must be 1 to %u",
				     config->prefetch_ms, MAX_PREFETCH_MS);
	if (config->max_age_ms < 2 * config->prefetch_ms || config->max_age_ms > MAX_AGE_MS)
		return refuse_config(
			error,
			"max_age_ms is %u, must be %u, twice prefetch_ms, to %u: what is "
			"fetched is to be taken before it is too old",
			config->max_age_ms, 2 * config->prefetch_ms, MAX_AGE_MS);
	return TRUE;
}

static gboolean add_server(PoolConfig *self, const char *text, GError **error)
{
	g_autoptr(GError) fault = NULL;
	Address *address = address_parse_server(text, &fault);

	if (address == NULL)
		return refuse_config(error, "%s", fault->message);
	g_ptr_array_add(self->addresses, address);
	self->has_names |= address->path == NULL && !g_hostname_is_ip_address(address->host);
	return TRUE;
}

/* Reads the files if one of the servers has TLS; those that are discovered later have it then, too.
 */
static gboolean read_tls(PoolConfig *self, const SnowflakeClientTls *config, GError **error)
{
	const TlsNames names = client_tls_names(config);
	g_autoptr(GError) fault = NULL;

	if (!address_any_is_tls(self->addresses))
		return TRUE;
	self->tls = tls_client_new(&names, &fault);
	return self->tls != NULL || refuse_config(error, "%s", fault->message);
}

PoolConfig *pool_config_new(const SnowflakePoolConfig *config, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(PoolConfig) self = g_new0(PoolConfig, 1);
	const char *const *servers = config->servers;

	self->addresses = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	if (!check_agent(config->agent, error) || !check_times(config, error))
		return NULL;
	if (servers == NULL || servers[0] == NULL)
		servers = default_servers;
	for (gsize i = 0; servers[i] != NULL; i++) {
		if (!add_server(self, servers[i], error))
			return NULL;
	}
	if (!read_tls(self, &config->tls, error))
		return NULL;
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
