/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/rpc/dispatcher.h"

/*
 * A short cut for the calls that nearly every client makes: get_id, get_ids and the three that ask
 * for a number, in strict binary, framed or not, every argument in its usual place. An RpcFastPath
 * for handlers that are a Service.
 *
 * All that differs by a byte, and every refusal, is left to the processor, and a test holds the two
 * answers against each other.
 */
gsize fast_path_answer(SfSnowflakeExtendedHandler *handler, const RpcInput *input, GByteArray *out,
		       guint *out_answered);
