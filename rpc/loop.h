/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/counters.h"
#include "rpc/poller.h"
#include "rpc/rpc-service.h"

/* A thread that serves its own connections with epoll. Loops share nothing but the service's source
 * of IDs. */
typedef struct _Loop Loop;

/* Called in the loop's thread after it has failed and closed its connections: see LoopStatus. */
typedef void (*LoopFailed)(gpointer user_data);

/* @service: copied
 * @counters: borrowed; used only by this loop
 * @failed: called if the loop cannot continue
 * Returns: (transfer full): a loop whose thread has not started, or %NULL with a GIOError set */
Loop *loop_new(const RpcService *service, const RpcLimits *limits, Counters *counters,
	       LoopFailed failed, gpointer user_data, GError **error);

/* Frees the loop. Its thread must have ended, or must never have been started. */
void loop_free(Loop *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Loop, loop_free)

/* Starts the thread. Returns %FALSE with a GIOError set on failure. */
gboolean loop_start(Loop *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Waits until the thread has ended after loop_drain(). */
void loop_join(Loop *self);

/* Thread-safe. Takes over a connected non-blocking socket with its state. With TLS, the handshake
 * must be complete. */
void loop_add(Loop *self, const InboxConnection *connection);

typedef struct {
	guint n_connections; /* number of connections, including those in the inbox */
	guint n_parked;      /* number of connections with a parked call */
	guint64 rounds; /* number of rounds so far; the loop makes a round whenever it is woken */
	int failure;    /* errno of the failure that ended the thread; 0 if it has not failed */
} LoopStatus;

/* Thread-safe. Returns the current status. */
LoopStatus loop_status(const Loop *self);

/* Thread-safe. Makes the loop retry parked calls. */
void loop_wake(Loop *self);

/* Thread-safe. Begins a drain. The loop answers the calls that have arrived. It shuts down the
 * sending side of each connection when its replies have been sent. After @timeout_ms, it does so
 * for all connections. The loop ends at most QUEUES_LINGER_MS later. */
void loop_drain(Loop *self, gint64 timeout_ms);
