/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "bench/load/wire.h"
#include "common/address.h"

/*
 * One connection and its calls in flight. Calls are answered in the order in which they were sent,
 * so their slots form a ring: the oldest is the one whose reply comes next. Non-blocking once it
 * is open; never waits.
 */
typedef struct _Connection Connection;

/**
 * connection_new:
 * @wire: borrowed
 *
 * Connects, and waits for that.
 *
 * Returns: (transfer full): or %NULL with an error of GIO
 */
Connection *connection_new(const Address *server, const Wire *wire, GError **error);
void connection_free(Connection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Connection, connection_free)

int connection_fd(const Connection *self);
guint connection_in_flight(const Connection *self);

/**
 * connection_send:
 * @calls: at most as many as slots are free; 0: only what an earlier write left over
 * @now_ns: the time from which the latency of these calls counts
 *
 * One write. What the socket does not take stays for the next time.
 *
 * Returns: %FALSE with an error of GIO if the connection is lost
 */
gboolean connection_send(Connection *self, guint calls, gint64 now_ns, GError **error);

/* Whether bytes wait for the socket to take them. */
gboolean connection_wants_write(const Connection *self);

/* One read. Returns: %FALSE with an error of GIO if the connection is lost */
gboolean connection_receive(Connection *self, GError **error);

/**
 * connection_next_reply:
 * @out_reply: (out): IDS and ERROR only; valid until the next connection_receive()
 * @out_sent_ns: (out): IDS and ERROR only: the now_ns of the call's connection_send()
 *
 * Takes the next of the replies that were received. BROKEN also stands for a reply that no call
 * waits for.
 */
WireStatus connection_next_reply(Connection *self, WireReply *out_reply, gint64 *out_sent_ns);

/* Notes @id as the last one that came. Returns: whether it is above the one before */
gboolean connection_note_id(Connection *self, gint64 id);
