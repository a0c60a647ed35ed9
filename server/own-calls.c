/* SPDX-License-Identifier: Apache-2.0 */
#include "server/own-calls.h"

#include <string.h>

#include "server/useragent.h"

void own_calls_init(OwnCalls *self, ServiceConfig *config)
{
	*self = (OwnCalls){
		.config = config,
		.allowance = {.closing = TRUE},
		.counters = counter_set_add(config->counters),
	};
	self->handler = service_new(config, &self->allowance, &self->verdict, self->counters);
}

void own_calls_clear(OwnCalls *self)
{
	g_clear_object(&self->handler);
}

/* A pass of its own. */
static SfSnowflakeExtendedIf *begin(OwnCalls *self)
{
	self->verdict = (RpcVerdict){0};
	counters_add(self->counters, COUNTER_CALLS, 1);
	return SF_SNOWFLAKE_EXTENDED_IF(self->handler);
}

gboolean own_calls_draw(OwnCalls *self, const char *agent, guint count, IdRun *out_run,
			Refusal *out_refusal)
{
	Service *service = SF_SERVICE(begin(self));
	gsize length = strlen(agent);

	if (useragent_is_valid(agent, length) &&
	    service_draw(service, agent, length, count, out_run))
		return TRUE;
	/* nothing is ever parked */
	service_refuse_ids(service, agent, length, (gint)count, out_refusal);
	return FALSE;
}

GHashTable *own_calls_get_counters(OwnCalls *self)
{
	GHashTable *counters = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);

	/* not counted: it would be most of what there is to see */
	sf_snowflake_extended_if_get_counters(SF_SNOWFLAKE_EXTENDED_IF(self->handler), &counters,
					      NULL);
	return counters;
}

GPtrArray *own_calls_get_workers(OwnCalls *self, Refusal *out_refusal)
{
	g_autoptr(GPtrArray) workers = g_ptr_array_new_with_free_func(g_object_unref);
	g_autoptr(GError) error = NULL;
	SfRegistryUnavailable *registry = NULL;

	if (sf_snowflake_extended_if_get_workers(begin(self), &workers, &registry, &error))
		return g_steal_pointer(&workers);
	*out_refusal = (Refusal){
		.kind = REFUSAL_REGISTRY,
		.message = g_strdup(registry != NULL ? registry->message : error->message),
		.retry_after_ms = registry != NULL ? registry->retry_after_ms : 0,
	};
	g_clear_object(&registry);
	return NULL;
}

ServiceSelf own_calls_describe_self(OwnCalls *self)
{
	ServiceSelf own;

	service_describe_self(SF_SERVICE(self->handler), &own);
	return own;
}
