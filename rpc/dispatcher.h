/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/counters.h"
#include "common/thrift/scanner.h"
#include "rpc/turn.h"
#include "sf_snowflake_extended.h"

/*
 * From a message that the scanner has passed to its reply, through Thrift's
 * generated processor. One for each loop: nothing in it is shared.
 */
typedef struct _Dispatcher Dispatcher;

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
 * @out_answered: (out): the calls that were answered; untouched if none
 *
 * A short cut for the calls that it knows: it answers the first ones, to the byte as the processor
 * would.
 *
 * Returns: how many bytes were answered. If it has set RpcVerdict.parked, the call behind them
 * waits; if not, and there were none, the first call is left to the processor
 */
typedef gsize (*RpcFastPath)(SfSnowflakeExtendedHandler *handler, const RpcInput *input,
			     GByteArray *out, guint *out_answered);

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

Dispatcher *dispatcher_new(const RpcService *service, Counters *counters);
void dispatcher_free(Dispatcher *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Dispatcher, dispatcher_free)

/* A pass begins: nothing came of it yet. */
void dispatcher_begin(Dispatcher *self, const RpcAllowance *allowance);

/* Borrowed: of the pass in hand, or the last one. */
const RpcVerdict *dispatcher_verdict(const Dispatcher *self);

/* The service's short cut, if it has one, for messages that were not scanned. See RpcFastPath. */
gsize dispatcher_answer_fast(Dispatcher *self, const RpcInput *input, GByteArray *out);

/* Appends the reply to the call at @message to @out. An unknown method is answered with a
 * TApplicationException of type 1. %FALSE: the call is parked, and what was appended is void.
 *
 * "Snowflake:get_id" is get_id too, as TMultiplexedProtocol calls it: behind "Snowflake:" there are
 * the calls of that service only, behind "SnowflakeExtended:" all. The reply has the bare name. */
gboolean dispatcher_call(Dispatcher *self, const guint8 *message, const MessageHeader *header,
			 GByteArray *out);

/* Appends a TApplicationException of type 7 (protocol error) to @out. */
void dispatcher_refuse(Dispatcher *self, const guint8 *message, const MessageHeader *header,
		       const char *reason, GByteArray *out);
