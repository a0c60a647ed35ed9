/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/counters.h"
#include "rpc/poller.h"

/*
 * The thread that does the handshakes of TLS, so that event loops do not: a handshake takes as long
 * as a thousand calls. If many clients connect at once, some handshakes are under way, and the
 * others wait for their turn.
 */
typedef struct _Handshakes Handshakes;

/* Handshakes under way at once. Each takes some 60 KiB of memory. */
#define HANDSHAKES_MOST 1024

/* Time limit of a handshake while others wait, so that a silent client delays no other for longer.
 * If more wait than HANDSHAKES_MOST, it is proportionally shorter, but not below the least, which a
 * distant client needs. */
#define HANDSHAKES_CROWDED_MS       2000
#define HANDSHAKES_CROWDED_LEAST_MS 200

typedef struct {
	gint64 timeout_ms; /* for each handshake, from the beginning of its turn */
	/* In the thread, after a handshake: takes the connection. %FALSE: it does not, and has
	 * logged why; then the connection is closed in order. */
	gboolean (*done)(gpointer user_data, const InboxConnection *connection);
	gpointer user_data;
} HandshakesConfig;

/* @counters: borrowed, of this thread alone
 * Returns: (transfer full): a thread that runs, or %NULL with a GIOError set */
Handshakes *handshakes_new(const HandshakesConfig *config, Counters *counters, GError **error);

/* Any thread: takes a connection with a stream of TLS. */
void handshakes_add(Handshakes *self, const InboxConnection *connection);

/* Ends the thread, and closes the connections whose handshakes are not done. */
void handshakes_free(Handshakes *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Handshakes, handshakes_free)
