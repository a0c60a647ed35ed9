/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/config.h"

#include <string.h>

#include "client/call.h"
#include "client/client-tls.h"
#include "common/address.h"
#include "common/useragent.h"

#define MAX_PREFETCH_MS 10000
#define MAX_AGE_MS      3600000

/* Returns: (transfer full) (nullable): what is wrong with @config; %NULL: nothing. */
static char *find_fault(const SnowflakePoolConfig *config)
{
	gsize agent_bytes = config->agent != NULL ? strlen(config->agent) : 0;

	for (guint i = 0; i < G_N_ELEMENTS(config->reserved); i++)
		if (config->reserved[i] != NULL)
			return g_strdup("reserved is not NULL; use SNOWFLAKE_POOL_CONFIG_INIT");
	if (config->agent == NULL)
		return g_strdup("no useragent");
	if (agent_bytes > USERAGENT_MAX_BYTES)
		return g_strdup_printf("the useragent has %zu bytes; the limit is %d", agent_bytes,
				       USERAGENT_MAX_BYTES);
	/* checked here, because a server would refuse each call, and takes would time out */
	if (!useragent_is_valid(config->agent, agent_bytes)) {
		g_autofree char *escaped = g_strescape(config->agent, NULL);

		return g_strdup_printf("\"%s\" is not a useragent: use a letter followed by "
				       "letters, digits and hyphens",
				       escaped);
	}
	if (config->prefetch_ms < 1 || config->prefetch_ms > MAX_PREFETCH_MS)
		return g_strdup_printf("prefetch_ms is %u; it must be 1 to %u", config->prefetch_ms,
				       MAX_PREFETCH_MS);
	if (config->max_age_ms < 2 * config->prefetch_ms || config->max_age_ms > MAX_AGE_MS)
		return g_strdup_printf("max_age_ms is %u; it must be %u (twice prefetch_ms) to %u, "
				       "so that prefetched IDs are taken before they are too old",
				       config->max_age_ms, 2 * config->prefetch_ms, MAX_AGE_MS);
	return NULL;
}

PoolConfig *pool_config_new(const SnowflakePoolConfig *config, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(PoolConfig) self = g_new0(PoolConfig, 1);
	const char *const *servers = config->servers;
	g_autofree char *fault_text = find_fault(config);
	g_autoptr(GError) fault = NULL;

	if (fault_text != NULL) {
		client_call_refuse_argument(error, fault_text);
		return NULL;
	}
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
		client_call_refuse_argument(error, fault->message);
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
