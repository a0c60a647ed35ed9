/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/finder.h"

#define RENEW_US        10000000 /* between two questions who there is */
#define RENEW_SPREAD_US 2000000
#define RETRY_US        500000  /* likewise, where it did not go well */
#define LOST_US         1000000 /* likewise, of the names while no server is well */

void pool_finder_init(PoolFinder *self, const PoolConfig *config, PoolServers *servers, int fd,
		      gint64 now_us)
{
	*self = (PoolFinder){
		.config = config,
		.servers = servers,
		.fd = fd,
		.names = pool_names_new(config->addresses, fd),
		.asked_us = now_us,
		.renews_us = now_us + RETRY_US,
	};
}

void pool_finder_clear(PoolFinder *self)
{
	pool_names_free(self->names);
	g_clear_pointer(&self->found, g_ptr_array_unref);
}

gboolean pool_finder_has_found(const PoolFinder *self)
{
	return pool_servers_count(self->servers) > 0 &&
	       (!self->config->discover || self->found != NULL);
}

gint64 pool_finder_next_us(const PoolFinder *self, gboolean is_well)
{
	if (is_well || !self->config->has_names)
		return self->renews_us;
	return MIN(self->renews_us, self->asked_us + LOST_US);
}

void pool_finder_put_off(PoolFinder *self, gint64 now_us)
{
	self->asked_us = now_us;
	self->renews_us = now_us + RETRY_US;
}

void pool_finder_hurry(PoolFinder *self, gint64 now_us)
{
	if (self->config->discover && self->found == NULL && !self->is_listing)
		self->renews_us = MIN(self->renews_us, now_us);
}

void pool_finder_await_workers(PoolFinder *self, gint64 now_us)
{
	pool_finder_put_off(self, now_us);
	self->is_listing = TRUE;
}

static void look_up(PoolFinder *self)
{
	g_autoptr(GPtrArray) all = g_ptr_array_new();

	if (self->names != NULL)
		return;
	g_ptr_array_extend(all, self->config->addresses, NULL, NULL);
	if (self->found != NULL)
		g_ptr_array_extend(all, self->found, NULL, NULL);
	self->names = pool_names_new(all, self->fd);
}

void pool_finder_look_up(PoolFinder *self, gint64 now_us)
{
	pool_finder_put_off(self, now_us);
	if (self->config->has_names || pool_servers_count(self->servers) == 0)
		look_up(self);
}

/* What others write is to be an address of a server. */
void pool_finder_take_workers(PoolFinder *self, const GPtrArray *workers)
{
	if (!self->is_listing)
		return;
	self->is_listing = FALSE;
	if (workers != NULL) {
		g_clear_pointer(&self->found, g_ptr_array_unref);
		self->found = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	}
	for (guint i = 0; workers != NULL && i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];
		Address *address = address_parse_peer(worker->address, NULL);

		/* a relay is not of the fleet, but one of its clients; and whoever was told to
		 * speak TLS is not talked out of it */
		if (address != NULL && address->is_tls == (self->config->tls != NULL) &&
		    g_str_equal(worker->state, "serving") && !g_str_equal(worker->kind, "relay"))
			g_ptr_array_add(self->found, g_steal_pointer(&address));
		address_free(address);
	}
	look_up(self);
}

void pool_finder_take_names(PoolFinder *self, gint64 now_us, GError **out_failure)
{
	g_autofree char *failures = NULL;
	g_autoptr(GPtrArray) names =
		self->names != NULL ? pool_names_get(self->names, &failures) : NULL;

	if (names == NULL)
		return;
	pool_servers_set(self->servers, names, failures != NULL && *failures == '\0', now_us);
	if (failures == NULL)
		return;
	g_clear_pointer(&self->names, pool_names_free);
	if (*failures != '\0')
		*out_failure = g_error_new(SNOWFLAKE_CLIENT_ERROR,
					   SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, "%s", failures);
	else if (!self->config->discover || self->found != NULL)
		self->renews_us =
			now_us + RENEW_US + pool_servers_random(self->servers, RENEW_SPREAD_US);
}
