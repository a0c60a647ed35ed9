/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "audit/audit-log.h"
#include "common/counters.h"
#include "core/ulid.h"
#include "rpc/rpc-allowance.h"
#include "server/agent-counters.h"
#include "server/issuer-source.h"
#include "server/refusal.h"
#include "server/relay-source.h"
#include "sf_snowflake_extended.h"

/*
 * The handler of the Thrift calls: what they are answered with, or refused.
 * Each loop has one of its own.
 *
 * A call that must wait for IDs is parked: the handler says so in the RpcVerdict,
 * and its loop asks again.
 */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SfSnowflakeExtendedHandler, g_object_unref)

#define SERVICE_TYPE (service_get_type())
G_DECLARE_FINAL_TYPE(Service, service, SF, SERVICE, SfSnowflakeExtendedHandler)

/* Its state when it is about to stop, whatever that of the keeper. */
#define SERVICE_DRAINING "draining"

/* What all handlers share; all borrowed. */
typedef struct {
	Source *source;
	const IssuerSource *issuer; /* it, if it issues; else NULL */
	RelaySource *relay;         /* it, if it is a relay; else NULL */
	UlidGenerator *ulids;
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit;
	const char *address; /* host:port, where clients reach this server */
	const char *nonce;   /* a uuid, fresh for each start of the process */
	gint64 max_wait_ms;  /* how long a call may be parked */
	/* about to stop: the server says so of itself, whatever state the keeper is in; set by any
	 * thread */
	_Atomic gboolean draining;
} ServiceConfig;

/* An RpcService.new_handler; its user_data is a ServiceConfig that outlives the handlers. */
SfSnowflakeExtendedHandler *service_new(gpointer config, const RpcAllowance *allowance,
					RpcVerdict *verdict, Counters *counters);

/**
 * service_draw:
 * @agent: @length bytes, which useragent_is_valid() has accepted
 * @count: any number
 *
 * Draws @count IDs, counts them, and tells the audit log.
 *
 * Returns: %FALSE if there are none: service_refuse_ids() says why
 */
gboolean service_draw(Service *self, const char *agent, gsize length, guint count, IdRun *out_run);

/* Likewise, but as many as can be had, up to @most, which is 1 or more. */
gboolean service_draw_some(Service *self, const char *agent, gsize length, guint most,
			   IdRun *out_run);

/* What the calls without arguments are answered with. */
typedef enum { SERVICE_WORKER_ID, SERVICE_DATACENTER_ID, SERVICE_TIMESTAMP } ServiceNumber;

/* %FALSE: there is no worker ID yet. */
gboolean service_get_number(const Service *self, ServiceNumber number, gint64 *out_value);

/* What get_worker is answered with; what is borrowed of it lives as long as the service. */
typedef struct {
	gint datacenter_id;
	gint worker_id; /* -1: none yet */
	const char *address;
	const char *nonce;
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved */
	const char *state;
	gint64 as_of_ms; /* since the Unix epoch */
	const char *kind;
	char *server; /* owned, nullable: of a relay, the server that the IDs are from */
} ServiceSelf;

/* To be cleared. */
void service_describe_self(const Service *self, ServiceSelf *out_self);
void service_self_clear(ServiceSelf *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ServiceSelf, service_self_clear)

/**
 * service_refuse_ids:
 * @agent: as the client sent it, @length bytes
 * @out_refusal: (out): to be cleared; untouched on %FALSE
 *
 * Says why a call for IDs is not answered with any, after useragent_is_valid(), service_draw()
 * or service_draw_some() has failed, and counts the exception.
 *
 * Returns: %FALSE if the call is parked, as the RpcVerdict says
 */
gboolean service_refuse_ids(Service *self, const char *agent, gsize length, gint count,
			    Refusal *out_refusal);

/* Likewise, after service_get_number() has failed. */
void service_refuse_number(Service *self, Refusal *out_refusal);
