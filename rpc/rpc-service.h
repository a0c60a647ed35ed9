/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/counters.h"
#include "rpc/rpc-allowance.h"
#include "sf_snowflake_extended.h"

/* What the client sent and was not answered yet. */
typedef struct {
	const guint8 *bytes; /* a message begins here, or its frame */
	gsize length;
	gboolean framed;
	gsize max_message_bytes;
	gsize room; /* no further call is answered after as many bytes of replies; 1 or more */
} RpcInput;

/**
 * RpcFastPath:
 * @handler: of the loop
 * @out: replies are appended, with their frames
 * @out_method: (out): which one was called; means nothing if none was answered
 * @out_answered: (out): how many of those calls were answered; untouched if none
 *
 * A short cut for the calls that it knows: it answers the first ones, to the byte as the processor
 * would.
 *
 * Returns: how many bytes were answered. If it has set RpcVerdict.parked, the call after them
 * waits; if not, and there were none, the first call is left to the processor
 */
typedef gsize (*RpcFastPath)(SfSnowflakeExtendedHandler *handler, const RpcInput *input,
			     GByteArray *out, CounterMethod *out_method, guint *out_answered);

/* What is served. */
typedef struct {
	/* (transfer full): a handler for one loop. @allowance and @verdict are those of the pass
	 * in hand; like @counters they outlive it. */
	SfSnowflakeExtendedHandler *(*new_handler)(gpointer user_data,
						   const RpcAllowance *allowance,
						   RpcVerdict *verdict, Counters *counters);
	RpcFastPath fast_path; /* NULL: none */
	gpointer user_data;
} RpcService;
