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

typedef enum {
	SERVICE_DRAWN,
	SERVICE_PARKED,  /* the turn says for what */
	SERVICE_REFUSED, /* the general path finds out again why, and says it */
} ServiceDraw;

/* Draws @count IDs, 1 to the generator's largest batch, and counts them. */
ServiceDraw service_draw(Service *self, guint count, IdRun *out_run);
