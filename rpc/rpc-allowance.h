/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * A pass of a connection, as its loop and the service see it: what the loop
 * allows, and what came of it.
 */

/* How many costly calls a pass can answer. The next one is deferred. */
typedef enum { RPC_COSTLY_ALL, RPC_COSTLY_ONE, RPC_COSTLY_NONE } RpcCostly;

/* By the loop, and nobody else: what holds for the calls of a pass. */
typedef struct {
	gboolean others_wait;     /* for IDs: a call for IDs goes behind them ... */
	guint quota;              /* ... unless its turn has come: as many IDs may be drawn first */
	gboolean single_may_pass; /* ... or a call for one ID does not wait for what they do */
	gboolean batch_may_pass;  /* likewise a call for a batch */
	gboolean last_chance; /* the first call has waited for as long as it may: answer it now */
	gboolean closing;     /* no call may wait any more */
	RpcCostly costly;
} RpcAllowance;

/* A pass begins with all of it 0. */
typedef struct {
	guint answered; /* by the dispatcher: so many calls */
	/* by the service */
	guint64 drawn;   /* so many IDs */
	gboolean parked; /* no answer yet, whatever was written is void */
	gint64 wait_ns;  /* if parked, until another try makes sense; 0: until something changes */
	gboolean aside;  /* if parked, for something else than IDs: nobody waits behind it */
	guint ids;       /* if parked for IDs, how many at once */
	gboolean deferred; /* if parked: the call is costly, and waits only for a turn */
	gboolean costly;   /* a costly call was answered */
} RpcVerdict;

/* Whether the next call may be parked. What comes after the first has not waited for long. */
static inline gboolean rpc_allowance_may_wait(const RpcAllowance *allowance,
					      const RpcVerdict *verdict)
{
	return !allowance->closing && (!allowance->last_chance || verdict->answered);
}

/* Whether the next call is deferred if it is costly. */
static inline gboolean rpc_allowance_defers(const RpcAllowance *allowance,
					    const RpcVerdict *verdict)
{
	return allowance->costly == RPC_COSTLY_NONE ||
	       (allowance->costly == RPC_COSTLY_ONE && verdict->costly);
}

/* How many IDs may be drawn yet, while others wait for them. */
static inline guint rpc_allowance_ids_left(const RpcAllowance *allowance, const RpcVerdict *verdict)
{
	return allowance->quota - (guint)MIN(allowance->quota, verdict->drawn);
}
