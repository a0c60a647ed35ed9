/* SPDX-License-Identifier: Apache-2.0 */
#include "server/own-calls.h"

#include <string.h>

/* Operators give up sooner than clients. */
#define MAX_WAIT_MS 5000

void own_calls_init(OwnCalls *self, ServiceConfig *config)
{
	*self = (OwnCalls){
		.config = config,
		.service = service_new(config, counter_set_add(config->counters)),
	};
}

void own_calls_clear(OwnCalls *self)
{
	g_clear_pointer(&self->service, service_free);
}

OwnCallsDraw own_calls_draw(OwnCalls *self, CounterMethod method, const char *agent, guint count,
			    gint64 waited_ms, IdRun *out_run, Refusal *out_refusal)
{
	gint64 max_wait_ms = MIN(self->config->max_wait_ms, MAX_WAIT_MS);
	RpcPass pass = {.allowance.closing = waited_ms >= max_wait_ms};
	const ServiceCall call = {
		.method = method,
		.agent = agent,
		.agent_length = strlen(agent),
		.agent_is_valid = useragent_is_valid(agent, strlen(agent)),
		.count = (gint)count,
		.n_calls = 1,
		.is_cheap = TRUE,
	};
	ServiceAnswer answer;

	switch (service_answer(self->service, &call, &pass, &answer)) {
	case SERVICE_ANSWERED:
		*out_run = answer.run;
		return OWN_CALLS_DRAWN;
	case SERVICE_REFUSED:
		*out_refusal = answer.refusal;
		return OWN_CALLS_REFUSED;
	case SERVICE_WAITS:
	default:
		return OWN_CALLS_LATER;
	}
}

GHashTable *own_calls_get_counters(OwnCalls *self)
{
	/* not counted: most counted calls would be these */
	return service_list_counters(self->service);
}

GPtrArray *own_calls_get_workers(OwnCalls *self, Refusal *out_refusal)
{
	RpcPass pass = {.allowance.closing = TRUE};
	const ServiceCall call = {.method = COUNTER_GET_WORKERS, .n_calls = 1};
	ServiceAnswer answer;

	if (service_answer(self->service, &call, &pass, &answer) == SERVICE_ANSWERED)
		return answer.workers;
	*out_refusal = answer.refusal;
	return NULL;
}

void own_calls_describe_self(OwnCalls *self, SnowflakeClientWorker *out_self)
{
	service_describe_self(self->service, out_self);
}
