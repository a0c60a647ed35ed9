/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/counters.h"
#include "rpc/poller.h"

/* The thread that performs TLS handshakes, so that they do not delay the event loops: a handshake
 * takes as long as a thousand calls. If many clients connect at once, only some handshakes are in
 * progress at a time, and the other clients wait. */
typedef struct _Handshakes Handshakes;

/* The maximum number of handshakes in progress. Each needs about 60 KiB of memory. */
#define HANDSHAKES_MOST 1024

/* The time limit of a handshake while other clients wait, so that a silent client does not delay
 * them for longer. If more than HANDSHAKES_MOST clients wait, the limit is proportionally shorter,
 * but not shorter than the minimum, which a distant client needs. */
#define HANDSHAKES_CROWDED_MS       2000
#define HANDSHAKES_CROWDED_LEAST_MS 200

/* Called in the thread after a handshake, to take over the connection. Returns %FALSE if it refuses
 * the connection, and has logged the reason; the connection is then closed normally. */
typedef gboolean (*HandshakesDone)(gpointer user_data, const InboxConnection *connection);

/* @timeout_ms: time limit of each handshake, from its start
 * @counters: borrowed; used only by this thread
 * Returns: (transfer full): a running thread, or %NULL with a GIOError set */
Handshakes *handshakes_new(gint64 timeout_ms, HandshakesDone done, gpointer user_data,
			   Counters *counters, GError **error);

/* Thread-safe. Takes over a connection with a TLS stream. */
void handshakes_add(Handshakes *self, const InboxConnection *connection);

/* Ends the thread, and closes the connections whose handshakes are incomplete. */
void handshakes_free(Handshakes *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Handshakes, handshakes_free)
