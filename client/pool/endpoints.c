/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/endpoints.h"

#include <string.h>

#include "common/worker-kind.h"

#define FIRST_BACKOFF_US   20000
#define LONGEST_BACKOFF_US 2000000
#define MAX_DOUBLINGS      8
#define RENEW_US           10000000 /* time between two requests for endpoints */
#define RENEW_SPREAD_US    2000000
#define RETRY_US           500000  /* pause after a failed request */
#define UNSERVED_US        1000000 /* time between two DNS lookups if no server serves */

/* A draw accesses only the chosen endpoint, regardless of the number of endpoints. */
struct _PoolEndpoints {
	GHashTable *all; /* maps an address to a PoolEndpoint */
	/* (element-type PoolEndpoint): known and not linked; sorted by backoff_until_us */
	GSequence *unlinked;
	GRand *random; /* not g_random_...(), because forked processes share its state */
};

static void endpoint_free(PoolEndpoint *endpoint)
{
	g_clear_pointer(&endpoint->iterator, g_sequence_remove);
	g_free(endpoint->text);
	g_free(endpoint->nonce);
	g_free(endpoint);
}

static gboolean is_same_address(gconstpointer one, gconstpointer other)
{
	const SocketAddress *a = &((const PoolEndpoint *)one)->address;
	const SocketAddress *b = &((const PoolEndpoint *)other)->address;

	return a->length == b->length && memcmp(&a->bytes, &b->bytes, a->length) == 0 &&
	       strcmp(a->tls_host, b->tls_host) == 0;
}

static guint hash_address(gconstpointer endpoint)
{
	const SocketAddress *address = &((const PoolEndpoint *)endpoint)->address;
	const guint8 *bytes = (const guint8 *)&address->bytes;
	guint hash = g_str_hash(address->tls_host);

	for (socklen_t i = 0; i < address->length; i++)
		hash = hash * 33 + bytes[i];
	return hash;
}

PoolEndpoints *pool_endpoints_new(void)
{
	PoolEndpoints *self = g_new0(PoolEndpoints, 1);

	self->all = g_hash_table_new_full(hash_address, is_same_address,
					  (GDestroyNotify)endpoint_free, NULL);
	self->unlinked = g_sequence_new(NULL);
	self->random = g_rand_new();
	return self;
}

void pool_endpoints_free(PoolEndpoints *self)
{
	if (self == NULL)
		return;
	g_hash_table_unref(self->all);
	g_sequence_free(self->unlinked);
	g_rand_free(self->random);
	g_free(self);
}

static gint compare_backoffs(gconstpointer one, gconstpointer other, gpointer data G_GNUC_UNUSED)
{
	gint64 a = ((const PoolEndpoint *)one)->backoff_until_us;
	gint64 b = ((const PoolEndpoint *)other)->backoff_until_us;

	return (a > b) - (a < b);
}

static void update_position(PoolEndpoints *self, PoolEndpoint *endpoint)
{
	g_clear_pointer(&endpoint->iterator, g_sequence_remove);
	if (endpoint->is_known && !endpoint->is_linked)
		endpoint->iterator =
			g_sequence_insert_sorted(self->unlinked, endpoint, compare_backoffs, NULL);
}

void pool_endpoints_set(PoolEndpoints *self, const GPtrArray *names, gboolean are_all,
			gint64 now_us)
{
	GHashTableIter iter;
	gpointer key;

	g_hash_table_iter_init(&iter, self->all);
	while (are_all && g_hash_table_iter_next(&iter, &key, NULL)) {
		((PoolEndpoint *)key)->is_known = FALSE;
		g_clear_pointer(&((PoolEndpoint *)key)->iterator, g_sequence_remove);
	}
	for (guint i = 0; i < names->len; i++) {
		const ResolvedName *name = names->pdata[i];
		const PoolEndpoint wanted = {.address = name->address};
		PoolEndpoint *endpoint = g_hash_table_lookup(self->all, &wanted);

		if (endpoint == NULL) {
			endpoint = g_new0(PoolEndpoint, 1);
			endpoint->text = g_strdup(name->text);
			endpoint->address = name->address;
			g_hash_table_add(self->all, endpoint);
		}
		endpoint->is_known = TRUE;
		if (endpoint->iterator == NULL)
			update_position(self, endpoint);
	}
	g_hash_table_iter_init(&iter, self->all);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		const PoolEndpoint *endpoint = key;

		if (!endpoint->is_known && !endpoint->is_linked &&
		    endpoint->excluded_until_us <= now_us)
			g_hash_table_iter_remove(&iter);
	}
}

/* Returns: the number of unlinked endpoints whose backoff ends at @until_us or before */
static guint count_until(const PoolEndpoints *self, gint64 until_us)
{
	PoolEndpoint last = {.backoff_until_us = until_us};

	return (guint)g_sequence_iter_get_position(
		g_sequence_search(self->unlinked, &last, compare_backoffs, NULL));
}

/* Returns: (nullable): a random unlinked endpoint, from position @from to before @end */
static PoolEndpoint *draw_between(PoolEndpoints *self, guint from, guint end)
{
	if (from >= end)
		return NULL;

	guint drawn = from + pool_endpoints_random(self, end - from);

	return g_sequence_get(g_sequence_get_iter_at_pos(self->unlinked, (gint)drawn));
}

PoolEndpoint *pool_endpoints_draw(PoolEndpoints *self, gint64 time_us)
{
	return draw_between(self, 0, count_until(self, time_us));
}

gboolean pool_endpoints_end_a_backoff(PoolEndpoints *self, gint64 now_us)
{
	PoolEndpoint *endpoint = draw_between(self, count_until(self, now_us),
					      (guint)g_sequence_get_length(self->unlinked));

	if (endpoint == NULL)
		return FALSE;
	if (endpoint->excluded_until_us <= now_us) {
		endpoint->backoff_until_us = now_us;
		update_position(self, endpoint);
	}
	return TRUE;
}

gint64 pool_endpoints_next_us(const PoolEndpoints *self)
{
	GSequenceIter *first = g_sequence_get_begin_iter(self->unlinked);

	if (g_sequence_iter_is_end(first))
		return POOL_NEVER_US;
	return ((const PoolEndpoint *)g_sequence_get(first))->backoff_until_us;
}

void pool_endpoints_set_linked(PoolEndpoints *self, PoolEndpoint *endpoint, gboolean is_linked)
{
	endpoint->is_linked = is_linked;
	update_position(self, endpoint);
}

void pool_endpoints_back_off(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 now_us,
			     gint64 least_us)
{
	guint doublings = MIN(endpoint->failures, MAX_DOUBLINGS);
	gint64 backoff_us = MIN((gint64)FIRST_BACKOFF_US << doublings, LONGEST_BACKOFF_US);

	backoff_us = MAX(backoff_us, least_us);
	endpoint->failures++;
	backoff_us += pool_endpoints_random(self, (guint)backoff_us + 1);
	endpoint->backoff_until_us = MAX(now_us + backoff_us, endpoint->excluded_until_us);
	update_position(self, endpoint);
}

void pool_endpoints_exclude(PoolEndpoints *self, PoolEndpoint *endpoint, gint64 until_us)
{
	endpoint->excluded_until_us = until_us;
	endpoint->backoff_until_us = MAX(endpoint->backoff_until_us, until_us);
	update_position(self, endpoint);
}

/* An excluded endpoint is remembered but not used, so it keeps its nonce. */
gint64 pool_endpoints_excluded_until_us(const PoolEndpoints *self, const char *nonce)
{
	GHashTableIter iter;
	gpointer key;
	gint64 until_us = 0;

	g_hash_table_iter_init(&iter, self->all);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		const PoolEndpoint *endpoint = key;

		if (g_strcmp0(endpoint->nonce, nonce) == 0)
			until_us = MAX(until_us, endpoint->excluded_until_us);
	}
	return until_us;
}

void pool_endpoint_identify(PoolEndpoint *self, const SnowflakeClientWorker *worker,
			    gboolean is_first)
{
	gboolean has_nonce = worker != NULL && *worker->nonce != '\0';

	g_free(self->nonce);
	self->nonce = has_nonce ? g_strdup(worker->nonce) : NULL;
	/* a server without a worker ID issues no IDs, and may get the same worker ID again */
	if (worker != NULL && worker->worker_id < 0)
		return;
	self->datacenter_id = worker != NULL ? worker->datacenter_id : -1;
	self->worker_id = worker != NULL ? worker->worker_id : -1;
	if (is_first && (self->worker_id < 0 || self->worker_id != self->last_worker_id ||
			 self->datacenter_id != self->last_datacenter_id)) {
		self->last_id = 0;
		self->has_gone_back = FALSE;
	}
}

void pool_endpoints_end_failures(PoolEndpoints *self, PoolEndpoint *endpoint)
{
	endpoint->failures = 0;
	endpoint->backoff_until_us = 0;
	update_position(self, endpoint);
}

guint pool_endpoints_random(PoolEndpoints *self, guint below)
{
	return (guint)g_rand_int_range(self->random, 0, (gint32)below);
}

guint pool_endpoints_count(const PoolEndpoints *self)
{
	return g_hash_table_size(self->all);
}

/* Discovery of endpoints */

static Resolution *resolve_all(PoolDiscovery *self)
{
	g_autoptr(GPtrArray) all = g_ptr_array_new();

	g_ptr_array_extend(all, self->config->addresses, NULL, NULL);
	if (self->listed != NULL)
		g_ptr_array_extend(all, self->listed, NULL, NULL);
	return resolution_new(all, self->fd);
}

void pool_discovery_init(PoolDiscovery *self, const PoolConfig *config, PoolEndpoints *endpoints,
			 int fd, gint64 now_us)
{
	*self = (PoolDiscovery){
		.config = config,
		.endpoints = endpoints,
		.fd = fd,
		.asked_at_us = now_us,
		.renew_at_us = now_us + RETRY_US,
	};
	self->resolution = resolve_all(self);
}

void pool_discovery_clear(PoolDiscovery *self)
{
	resolution_free(self->resolution);
	g_clear_pointer(&self->listed, g_ptr_array_unref);
}

gint64 pool_discovery_next_us(const PoolDiscovery *self, gboolean is_needed, gboolean is_served)
{
	gboolean has_found = pool_endpoints_count(self->endpoints) > 0 &&
			     (!self->config->discover || self->listed != NULL);

	if (!is_needed && has_found)
		return POOL_NEVER_US;
	if (is_served || !self->config->has_names)
		return self->renew_at_us;
	return MIN(self->renew_at_us, self->asked_at_us + UNSERVED_US);
}

void pool_discovery_put_off(PoolDiscovery *self, gboolean expects_list, gint64 now_us)
{
	self->asked_at_us = now_us;
	self->renew_at_us = now_us + RETRY_US;
	self->is_listing |= expects_list;
}

void pool_discovery_retry_now(PoolDiscovery *self, gint64 now_us)
{
	if (self->config->discover && self->listed == NULL && !self->is_listing)
		self->renew_at_us = MIN(self->renew_at_us, now_us);
}

void pool_discovery_resolve(PoolDiscovery *self, gint64 now_us)
{
	pool_discovery_put_off(self, FALSE, now_us);
	if ((self->config->has_names || pool_endpoints_count(self->endpoints) == 0) &&
	    self->resolution == NULL)
		self->resolution = resolve_all(self);
}

void pool_discovery_take_list(PoolDiscovery *self, const GPtrArray *workers)
{
	if (!self->is_listing)
		return;
	self->is_listing = FALSE;
	if (workers != NULL) {
		g_clear_pointer(&self->listed, g_ptr_array_unref);
		self->listed = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	}
	for (guint i = 0; workers != NULL && i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];
		g_autoptr(Address) address = address_parse_peer(worker->address, NULL);

		/* skip relays, because they are clients of the fleet, and addresses that would
		 * disable TLS */
		if (address != NULL && address->is_tls == (self->config->tls != NULL) &&
		    g_str_equal(worker->state, "serving") &&
		    !g_str_equal(worker->kind, WORKER_KIND_RELAY))
			g_ptr_array_add(self->listed, g_steal_pointer(&address));
	}
	if (self->resolution == NULL)
		self->resolution = resolve_all(self);
}

void pool_discovery_take_names(PoolDiscovery *self, gint64 now_us, GError **out_failure)
{
	g_autofree char *failures = NULL;
	g_autoptr(GPtrArray) names =
		self->resolution != NULL ? resolution_get(self->resolution, &failures) : NULL;

	if (names == NULL)
		return;
	pool_endpoints_set(self->endpoints, names, failures != NULL && *failures == '\0', now_us);
	if (failures == NULL)
		return;
	g_clear_pointer(&self->resolution, resolution_free);
	if (*failures != '\0')
		*out_failure = g_error_new(SNOWFLAKE_CLIENT_ERROR,
					   SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, "%s", failures);
	else if (!self->config->discover || self->listed != NULL)
		self->renew_at_us =
			now_us + RENEW_US + pool_endpoints_random(self->endpoints, RENEW_SPREAD_US);
}
