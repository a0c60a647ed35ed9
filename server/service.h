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

/* Decides whether a call is answered, waits or is refused: see service_answer(). The codecs read
 * the call and write its answer (codecs.h).
 *
 * Each thread that answers calls has its own Service. */
typedef struct _Service Service;

/* The largest batch of get_ulids and get_uuids, regardless of --max-batch: generated code creates
 * an object for each value, and meanwhile the loop answers no other call. */
#define SERVICE_MAX_128_BIT_IDS 10000

/* The state that a draining server reports, regardless of its keeper's state. */
#define SERVICE_DRAINING "draining"

/* Data that all services of a process share. All pointers are borrowed. */
typedef struct {
	Source *source;
	UuidGenerator *ulids;
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit;
	const char *address; /* host:port at which clients reach this server */
	const char *nonce;   /* a new UUID for each start of the process */
	/* address of this server, for messages of servers that are refused */
	gint64 max_wait_ms; /* how long a call can be parked, at most */
	/* The server is draining. Set by any thread. */
	_Atomic gboolean draining;
} ServiceConfig;

/* @config: borrowed; must outlive the service. @counters: the thread's counters */
Service *service_new(ServiceConfig *config, Counters *counters);
void service_free(Service *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Service, service_free)

/* A decoded call. */
typedef struct {
	CounterMethod method;
	/* for calls for IDs, ULIDs and UUIDs: the useragent, not NUL-terminated */
	const char *agent;
	gsize agent_length;
	gboolean agent_is_valid; /* the result of useragent_is_valid() */
	/* for get_ids, get_id_runs, get_uuids and get_ulids: requested number */
	gint count;
	guint n_calls; /* for get_id: number of equal calls in a row; otherwise 1 */
	/* its codec writes any number of IDs quickly, so the call is never deferred */
	gboolean is_cheap;
} ServiceCall;

/* Describes this server, for get_worker. @out_self: (out): its strings are borrowed, and live as
 * long as the service. Exception: @out_self->server is (transfer full) (nullable) */
void service_describe_self(const Service *self, SnowflakeClientWorker *out_self);

typedef enum {
	SERVICE_ANSWERED,
	SERVICE_WAITS,   /* the call waits for RpcPass.wait, which determines when to retry */
	SERVICE_REFUSED, /* the reason is ServiceAnswer.refusal */
} ServiceOutcome;

/* Contains the results. The outcome and the method determine which member is set. */
typedef union {
	IdRun run;     /* get_id: 1 to n_calls IDs; get_ids, get_id_runs and get_uuids: count IDs */
	gint64 number; /* get_worker_id, get_datacenter_id and get_timestamp */
	SnowflakeClientWorker self; /* get_worker: see service_describe_self() */
	GPtrArray *workers;         /* get_workers: (element-type SnowflakeClientWorker) */
	GHashTable *counters;       /* get_counters: (element-type utf8 gint64) */
	Ulid *ulids;                /* get_ulids: count ULIDs */
	Refusal refusal;            /* SERVICE_REFUSED */
} ServiceAnswer;

/* Answers a call. If IDs are issued, also records them in the audit log.
 * @pass: (inout): the caller's pass, with the loop's rules. If the call does not wait, it is
 * counted in the pass and in the thread's counters. @out_answer: (out): must be cleared with
 * service_answer_clear(); undefined after WAITS */
ServiceOutcome service_answer(Service *self, const ServiceCall *call, RpcPass *pass,
			      ServiceAnswer *out_answer);

/* Frees the memory that an answer owns. service_answer_clear() is inline, because most answers own
 * no memory. */
void service_answer_free_owned(ServiceAnswer *self, ServiceOutcome outcome, CounterMethod method);
static inline void service_answer_clear(ServiceAnswer *self, ServiceOutcome outcome,
					CounterMethod method)
{
	const guint owners = 1u << COUNTER_GET_WORKER | 1u << COUNTER_GET_WORKERS |
			     1u << COUNTER_GET_COUNTERS | 1u << COUNTER_GET_ULIDS;

	if (G_UNLIKELY(outcome == SERVICE_REFUSED || (owners >> method & 1) != 0))
		service_answer_free_owned(self, outcome, method);
}

/* Returns: (transfer full): the answer to get_counters. Does not count a call. */
GHashTable *service_list_counters(Service *self);
