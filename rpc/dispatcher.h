/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/framing.h"
#include "rpc/rpc-service.h"

/*
 * From a call to its reply, by the service's short cut or through Thrift's
 * generated processor. One for each loop: nothing in it is shared.
 */
typedef struct _Dispatcher Dispatcher;

Dispatcher *dispatcher_new(const RpcService *service, Counters *counters);
void dispatcher_free(Dispatcher *self);

/* A pass begins: nothing came of it yet. */
void dispatcher_begin(Dispatcher *self, const RpcAllowance *allowance);

/* Borrowed: of the pass in hand, or the last one. */
const RpcVerdict *dispatcher_verdict(const Dispatcher *self);

/* By the service's short cut, if it has one: see RpcFastPath. */
gsize dispatcher_answer_fast(Dispatcher *self, const RpcInput *input, GByteArray *out);

/**
 * dispatcher_answer:
 * @out: the reply is appended, in a frame if the call came in one
 *
 * An unknown method is answered with a TApplicationException of type 1, bad arguments with one of
 * type 7 (protocol error).
 *
 * "Snowflake:get_id" is get_id too, as TMultiplexedProtocol calls it: after "Snowflake:" there are
 * the calls of that service only, after "SnowflakeExtended:" all. The reply has the bare name.
 *
 * Returns: %FALSE if the call is parked, and nothing was appended
 */
gboolean dispatcher_answer(Dispatcher *self, const Message *message, GByteArray *out);
