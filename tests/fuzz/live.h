/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The real server, with sockets, event loops and a state directory, in this process, where a fuzzer
 * sees what its input reaches. It starts with the first exchange, in the thread of that, and ends
 * with the process.
 */

typedef enum { LIVE_THRIFT, LIVE_TLS, LIVE_LOCAL, LIVE_HTTP, LIVE_N_PORTS } LivePort;

/**
 * live_exchange:
 * @cut: of the @length bytes so many are sent first
 *
 * Connects, sends, and says that no more comes. What the server does not answer and hang up in time
 * is a failure, and so is a connection that it keeps after that. (HTTP may wait for the rest of a
 * request; there nobody waits for it.)
 *
 * Returns: (transfer full): all that it said
 */
GByteArray *live_exchange(LivePort port, const guint8 *bytes, gsize length, gsize cut);
