/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/rpc-service.h"

/*
 * A short cut for the calls that nearly every client makes: get_id, get_ids, get_id_runs, the three
 * that ask for a number and get_worker, in strict binary, framed or not, every argument in its
 * usual place. An RpcFastPath for handlers that are a Service.
 *
 * Refusals are answered too: a client that gets an agent or a count wrong does so in every call.
 * All that differs by a byte is left to the processor, and a test holds the two answers against
 * each other.
 */
gsize fast_path_answer(SfSnowflakeExtendedHandler *handler, const RpcInput *input, GByteArray *out,
		       CounterMethod *out_method, guint *out_answered);
