/* SPDX-License-Identifier: Apache-2.0 */
#include "server/own-calls.h"

#include <string.h>

#include "common/useragent.h"

/* Whoever asks gives up sooner than a client. */
#define MAX_WAIT_MS 5000

void own_calls_init(OwnCalls *self, ServiceConfig *config)
{
	*self = (OwnCalls){
		.config = config,
		.counters = counter_set_add(config->counters),
	};
	self->handler = service_new(config, &self->allowance, &self->verdict, self->counters);
}

void own_calls_clear(OwnCalls *self)
{
	g_clear_object(&self->handler);
}

/* A pass of its own. */
static SfSnowflakeExtendedIf *begin(OwnCalls *self, gboolean may_wait)
{
	self->allowance.closing = !may_wait;
	self->verdict = (RpcVerdict){0};
	return SF_SNOWFLAKE_EXTENDED_IF(self->handler);
}

static void count_call(OwnCalls *self, CounterMethod method, gboolean answered)
{
	counters_add(self->counters, COUNTER_CALLS, 1);
	counters_add(self->counters, (answered ? COUNTER_ANSWERED : COUNTER_REFUSED) + method, 1);
}

OwnCallsDraw own_calls_draw(OwnCalls *self, CounterMethod method, const char *agent, guint count,
			    gint64 waited_ms, IdRun *out_run, Refusal *out_refusal)
{
	gint64 max_wait_ms = MIN(self->config->max_wait_ms, MAX_WAIT_MS);
	Service *service = SF_SERVICE(begin(self, waited_ms < max_wait_ms));
	gsize length = strlen(agent);
	gboolean drawn = useragent_is_valid(agent, length) &&
			 service_draw(service, agent, length, count, out_run);

	if (!drawn && !service_refuse_ids(service, agent, length, (gint)count, out_refusal))
		return OWN_CALLS_LATER;
	count_call(self, method, drawn);
	return drawn ? OWN_CALLS_DRAWN : OWN_CALLS_REFUSED;
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
	gboolean known = sf_snowflake_extended_if_get_workers(begin(self, FALSE), &workers,
							      &registry, &error);

	count_call(self, COUNTER_GET_WORKERS, known);
	if (known)
		return g_steal_pointer(&workers);
	*out_refusal = (Refusal){
		.kind = REFUSAL_REGISTRY,
		.message = g_strdup(registry != NULL ? registry->message : error->message),
		.retry_after_ms = registry != NULL ? registry->retry_after_ms : 0,
	};
	g_clear_object(&registry);
	return NULL;
}

void own_calls_describe_self(OwnCalls *self, ServiceSelf *out_self)
{
	service_describe_self(SF_SERVICE(self->handler), out_self);
}
