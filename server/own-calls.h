/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/service.h"

/*
 * What another thread of the server asks its service for, without Thrift. It is answered as a
 * client is, and counted as one. What would be parked is for that thread to ask for again; it is in
 * no line, so no client waits for it.
 */
typedef struct {
	const ServiceConfig *config;
	Service *service;
} OwnCalls;

/* Before the audit log is started. @config: borrowed */
void own_calls_init(OwnCalls *self, ServiceConfig *config);
void own_calls_clear(OwnCalls *self);

/* The rest is for one thread. Of the refusals each is to be cleared, and untouched unless it is
 * what comes of it. */

typedef enum {
	OWN_CALLS_DRAWN,   /* @out_run is set */
	OWN_CALLS_REFUSED, /* @out_refusal is */
	OWN_CALLS_LATER,   /* in a moment there may be some */
} OwnCallsDraw;

/* @method: what it is counted as. @waited_ms: since the first try; after --max-wait, or 5 s if that
 * is less, it is not LATER. */
OwnCallsDraw own_calls_draw(OwnCalls *self, CounterMethod method, const char *agent, guint count,
			    gint64 waited_ms, IdRun *out_run, Refusal *out_refusal);

/* (transfer full): what get_counters is answered with. */
GHashTable *own_calls_get_counters(OwnCalls *self);

/* (transfer full) (nullable): of SfWorker, what get_workers is answered with; or %NULL: refused. */
GPtrArray *own_calls_get_workers(OwnCalls *self, Refusal *out_refusal);

/* To be cleared. */
void own_calls_describe_self(OwnCalls *self, ServiceSelf *out_self);
