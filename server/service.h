/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "audit/audit-log.h"
#include "common/useragent.h"
#include "core/ulid.h"
#include "rpc/counters.h"
#include "rpc/rpc-service.h"
#include "server/agent-counters.h"
#include "server/source.h"
#include "server/wait-or-refuse.h"

/*
 * Decides what a call is answered with, whether it waits, or why it is refused: service_answer().
 * How a call is read and its answer is written is for the codecs (codecs.h).
 *
 * Each thread that answers calls has a Service of its own.
 */
typedef struct _Service Service;

/* The largest batch of get_ulids and get_uuids, whatever --max-batch is: generated code makes an
 * object for each value, and a loop answers nothing else meanwhile. */
#define SERVICE_MAX_128_BIT_IDS 10000

/* The state of a server that is about to stop, in whatever state its keeper is. */
#define SERVICE_DRAINING "draining"

/* What all services of a process share; all borrowed. */
typedef struct {
	Source *source;
	UlidGenerator *ulids;
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit;
	const char *address; /* host:port, where clients reach this server */
	const char *nonce;   /* a UUID, new for each start of the process */
	gint64 max_wait_ms;  /* how long a call may be parked */
	/* The server is about to stop. Any thread may set it. */
	_Atomic gboolean draining;
} ServiceConfig;

/* @config: borrowed, outlives the service. @counters: of the thread */
Service *service_new(ServiceConfig *config, Counters *counters);
void service_free(Service *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Service, service_free)

/* A decoded call. */
typedef struct {
	CounterMethod method;
	const char *agent; /* of calls for IDs, ULIDs and UUIDs: the useragent; no NUL at its end */
	gsize agent_length;
	gboolean agent_is_valid; /* as useragent_is_valid() judges it */
	gint count;              /* of get_ids, get_id_runs, get_uuids and get_ulids */
	guint n_calls;           /* get_id: number of equal calls in a row; else 1 */
	gboolean is_cheap;       /* its codec writes any number of IDs fast: it is never deferred */
} ServiceCall;

/* Describes this server, as get_worker does. @out_self: (out): its texts are borrowed and live as
 * long as the service, except @out_self->server, (transfer full) (nullable) */
void service_describe_self(const Service *self, SnowflakeClientWorker *out_self);

typedef enum {
	SERVICE_ANSWERED,
	SERVICE_WAITS,   /* RpcPass.wait tells for what, and when to try again */
	SERVICE_REFUSED, /* ServiceAnswer.refusal tells why */
} ServiceOutcome;

/* The member that the outcome and the method choose; others are undefined. */
typedef union {
	IdRun run;     /* get_id: 1 to n_calls IDs; get_ids, get_id_runs and get_uuids: count IDs */
	gint64 number; /* get_worker_id, get_datacenter_id and get_timestamp */
	SnowflakeClientWorker self; /* get_worker: of service_describe_self() */
	GPtrArray *workers;         /* get_workers: of SnowflakeClientWorker */
	GHashTable *counters;       /* get_counters: from char * to gint64 * */
	Ulid *ulids;                /* get_ulids: count ULIDs */
	Refusal refusal;            /* SERVICE_REFUSED */
} ServiceAnswer;

/* Answers a call. If IDs were issued, the audit log has them.
 * @pass: (inout): the pass of the caller, with the loop's rules. If the call does not wait, it is
 *   counted there, and in the thread's counters.
 * @out_answer: (out): service_answer_clear() frees it; undefined after WAITS */
ServiceOutcome service_answer(Service *self, const ServiceCall *call, RpcPass *pass,
			      ServiceAnswer *out_answer);

/* Frees what an answer owns. Inline, since most answers own nothing. */
void service_answer_free_owned(ServiceAnswer *self, ServiceOutcome outcome, CounterMethod method);
static inline void service_answer_clear(ServiceAnswer *self, ServiceOutcome outcome,
					CounterMethod method)
{
	const guint owners = 1u << COUNTER_GET_WORKER | 1u << COUNTER_GET_WORKERS |
			     1u << COUNTER_GET_COUNTERS | 1u << COUNTER_GET_ULIDS;

	if (G_UNLIKELY(outcome == SERVICE_REFUSED || (owners >> method & 1) != 0))
		service_answer_free_owned(self, outcome, method);
}

/* (transfer full): the answer to get_counters, without counting a call. */
GHashTable *service_list_counters(Service *self);
