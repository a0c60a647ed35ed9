/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/rpc/dispatcher.h"

/*
 * A short cut for the one call that nearly every client makes: get_id in strict
 * binary, its one argument in its one usual place. An RpcFastCall for handlers
 * that are a Service.
 *
 * The generated processor costs microseconds a call, most of it for objects
 * that live for one call; comparing and filling in bytes costs nanoseconds. All
 * that differs by a byte, and every refusal, is left to the processor, and a
 * test holds the two answers against each other.
 */
gsize fast_path_call(SfSnowflakeExtendedHandler *handler, const guint8 *message, gsize available,
		     gboolean whole, GByteArray *out);
