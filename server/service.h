/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/generator.h"
#include "server/counters.h"
#include "server/rpc/dispatcher.h"
#include "server/worker/keeper.h"

/*
 * The handler of the Thrift calls: the one place where a refusal becomes a
 * Thrift exception. Each loop has one of its own.
 *
 * A call that must wait for IDs is parked: the handler says so in the RpcTurn,
 * and its loop asks again.
 */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SfSnowflakeExtendedHandler, g_object_unref)

#define SERVICE_TYPE (service_get_type())
G_DECLARE_FINAL_TYPE(Service, service, SF, SERVICE, SfSnowflakeExtendedHandler)

/* What all handlers share; all borrowed. */
typedef struct {
	Generator *generator;
	Keeper *keeper;
	CounterSet *counters;
	const char *address; /* host:port, where clients reach this server */
	const char *nonce;   /* a uuid, fresh for each start of the process */
	gint64 max_wait_ms;  /* how long a call may be parked */
} ServiceConfig;

/* An RpcService.new_handler; its user_data is a ServiceConfig that outlives the handlers. */
SfSnowflakeExtendedHandler *service_new(gpointer config, RpcTurn *turn, Counters *counters);

/* Whether the whole of it matches [a-zA-Z][a-zA-Z\-0-9]*, at most 256 bytes. */
gboolean service_agent_is_valid(const char *agent, gsize length);

/**
 * service_draw:
 * @count: any number
 *
 * Draws @count IDs, and counts them.
 *
 * Returns: %FALSE if there are none: the call is parked, as the turn says, or it is refused and the
 * general path finds out again why
 */
gboolean service_draw(Service *self, guint count, IdRun *out_run);

/* Likewise, but as many as can be had, up to @most, which is 1 or more. */
gboolean service_draw_some(Service *self, guint most, IdRun *out_run);

/* What the calls without arguments are answered with. */
typedef enum { SERVICE_WORKER_ID, SERVICE_DATACENTER_ID, SERVICE_TIMESTAMP } ServiceNumber;

/* %FALSE: there is no worker ID yet. */
gboolean service_get_number(const Service *self, ServiceNumber number, gint64 *out_value);
