/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/counters.h"
#include "rpc/inbox.h"
#include "rpc/rpc-service.h"

/*
 * A thread that serves its own connections over epoll. Nothing is shared
 * between loops but what the service draws IDs from.
 */
typedef struct _Loop Loop;

/* In the loop's thread, once it has closed its connections: see loop_failure(). */
typedef void (*LoopFailed)(gpointer user_data);

/**
 * loop_new:
 * @service: copied
 * @counters: borrowed, of this loop alone
 * @failed: called if the loop cannot go on
 *
 * Returns: (transfer full): a loop whose thread has not started, or %NULL with a GIOError set
 */
Loop *loop_new(const RpcService *service, const RpcLimits *limits, Counters *counters,
	       LoopFailed failed, gpointer user_data, GError **error);

/* After the thread has ended, or never started. */
void loop_free(Loop *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Loop, loop_free)

/* %TRUE, or %FALSE with a GIOError set. */
gboolean loop_start(Loop *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Waits for the end of the thread, which loop_drain() brings about. */
void loop_join(Loop *self);

/* Any thread: hands over a connected non-blocking socket, and what belongs to it; with TLS, hands
 * were shaken. */
void loop_add(Loop *self, const InboxConnection *connection);

/* Any thread: the connections it has, or will have when it wakes. */
guint loop_n_connections(Loop *self);

/* Any thread: of these, those whose call waits: for IDs, or for something else. */
guint loop_n_parked(Loop *self);

/* Any thread: how many times it has gone round. It does so when it is woken. */
guint64 loop_rounds(Loop *self);

/* Any thread: the errno because of which the thread has ended; 0: none. */
int loop_failure(Loop *self);

/* Any thread: what calls were parked for may be there. */
void loop_wake(Loop *self);

/* Any thread: answer what has arrived, hang up when the replies are sent, and on everybody after
 * @timeout_ms; then end, QUEUES_LINGER_MS after the last hang-up at the latest. */
void loop_drain(Loop *self, gint64 timeout_ms);
