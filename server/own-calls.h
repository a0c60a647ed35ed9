/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/service.h"

/*
 * Calls of another thread of the server, without Thrift. They are answered and counted like those
 * of a client. A call that waits is not parked: the thread tries it again, so no client waits after
 * it.
 */
typedef struct {
	const ServiceConfig *config;
	Service *service;
} OwnCalls;

/* Before the audit log is started. @config: borrowed */
void own_calls_init(OwnCalls *self, ServiceConfig *config);
void own_calls_clear(OwnCalls *self);

/* The following functions are for one thread. The caller clears a refusal; it is untouched if the
 * call was not refused. */

typedef enum {
	OWN_CALLS_DRAWN,   /* @out_run is set */
	OWN_CALLS_REFUSED, /* @out_refusal is */
	OWN_CALLS_LATER,   /* there can be IDs in a moment */
} OwnCallsDraw;

/* @method: for the counters. @waited_ms: since the first try; after --max-wait, or 5 s if that is
 * less, the call is not LATER any more. */
OwnCallsDraw own_calls_draw(OwnCalls *self, CounterMethod method, const char *agent, guint count,
			    gint64 waited_ms, IdRun *out_run, Refusal *out_refusal);

/* (transfer full): the answer to get_counters. */
GHashTable *own_calls_get_counters(OwnCalls *self);

/* (transfer full) (nullable): the answer to get_workers, of SnowflakeClientWorker; %NULL: refused.
 */
GPtrArray *own_calls_get_workers(OwnCalls *self, Refusal *out_refusal);

/* As service_describe_self(). */
void own_calls_describe_self(OwnCalls *self, SnowflakeClientWorker *out_self);
