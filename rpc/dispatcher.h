/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/counters.h"
#include "common/thrift/scanner.h"
#include "sf_snowflake_extended.h"

/*
 * From a message that the scanner has passed to its reply, through Thrift's
 * generated processor. One for each loop: nothing in it is shared.
 */
typedef struct _Dispatcher Dispatcher;

/* What the loop and the service tell each other about the calls of a pass. */
typedef struct {
	/* by the loop, before a pass, which begins with all others 0 */
	gboolean others_wait; /* for IDs: a call for IDs goes behind them ... */
	guint quota;          /* ... unless its turn has come: as many IDs may be drawn first */
	gboolean last_chance; /* the first call has waited for as long as it may: answer it now */
	gboolean closing;     /* no call may wait any more */
	gboolean answered;    /* by the stream: a call was */
	/* by the service */
	gboolean parked; /* no answer yet, whatever was written is void */
	gint64 wait_ns;  /* if parked, until another try makes sense; 0: until something changes */
	gboolean aside;  /* if parked, for something else than IDs: nobody waits behind it */
	guint ids;       /* if parked for IDs, how many at once */
} RpcTurn;

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
 * Returns: how many bytes were answered. If it has set RpcTurn.parked, the call behind them waits;
 * if not, and there were none, the first call is left to the processor
 */
typedef gsize (*RpcFastPath)(SfSnowflakeExtendedHandler *handler, const RpcInput *input,
			     GByteArray *out, guint *out_answered);

/* What is served. */
typedef struct {
	/* (transfer full): a handler for one loop. @turn and @counters outlive it. */
	SfSnowflakeExtendedHandler *(*new_handler)(gpointer user_data, RpcTurn *turn,
						   Counters *counters);
	RpcFastPath fast_path; /* NULL: none */
	gpointer user_data;
} RpcService;

Dispatcher *dispatcher_new(const RpcService *service, Counters *counters);
void dispatcher_free(Dispatcher *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Dispatcher, dispatcher_free)

/* Borrowed; for the loop to set before a call, and to read after it. */
RpcTurn *dispatcher_turn(Dispatcher *self);

/* The service's short cut, if it has one, for messages that were not scanned. See RpcFastPath. */
gsize dispatcher_answer_fast(Dispatcher *self, const RpcInput *input, GByteArray *out,
			     guint *out_answered);

/* Appends the reply to the call at @message to @out, unless it sets RpcTurn.parked. An unknown
 * method is answered with a TApplicationException of type 1.
 *
 * "Snowflake:get_id" is get_id too, as TMultiplexedProtocol calls it: behind "Snowflake:" there are
 * the calls of that service only, behind "SnowflakeExtended:" all. The reply has the bare name. */
void dispatcher_call(Dispatcher *self, const guint8 *message, const MessageHeader *header,
		     GByteArray *out);

/* Appends a TApplicationException of type 7 (protocol error) to @out. */
void dispatcher_refuse(Dispatcher *self, const guint8 *message, const MessageHeader *header,
		       const char *reason, GByteArray *out);
