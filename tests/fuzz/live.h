/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The real server, with sockets, event loops and a state directory, in this process, so that a
 * fuzzer sees the coverage of its input. It starts with the first exchange, in the thread of that
 * exchange, and ends with the process.
 */

typedef enum { LIVE_THRIFT, LIVE_TLS, LIVE_LOCAL, LIVE_HTTP, LIVE_N_PORTS } LivePort;

/**
 * live_exchange:
 * @cut: number of the @length bytes that are sent first
 *
 * Connects, sends the bytes, and shuts down the sending side. It is a failure if the server does
 * not answer and close the connection in time, or if it keeps the connection afterwards. (An HTTP
 * server may wait for the rest of a request; the exchange does not wait for that.)
 *
 * Returns: (transfer full): everything that the server sent
 */
GByteArray *live_exchange(LivePort port, const guint8 *bytes, gsize length, gsize cut);
