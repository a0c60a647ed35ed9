/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/counters.h"
#include "rpc/inbox.h"

/*
 * The thread in which newcomers shake hands, so that event loops have none but those who have: a
 * handshake takes as long as a thousand calls. Of the many that come at once some are under way,
 * and the others wait for their turn.
 */
typedef struct _Handshakes Handshakes;

/* Under way at once: so much memory, some 60 KiB for each, is theirs. */
#define HANDSHAKES_MOST 1024

/* How long each may take while others wait for a turn: so that whoever begins one and falls silent
 * holds up nobody for longer. Where those who wait are more than have a turn, it is as much less,
 * but the least for which a far client has the time. */
#define HANDSHAKES_CROWDED_MS       2000
#define HANDSHAKES_CROWDED_LEAST_MS 200

typedef struct {
	gint64 timeout_ms; /* for each one, from the beginning of its turn */
	/* In the thread, of one that is done: it is theirs who are told. %FALSE: they will not have
	 * it, and have said why; it is ended in order, and closed. */
	gboolean (*done)(gpointer user_data, const InboxConnection *newcomer);
	gpointer user_data;
} HandshakesConfig;

/**
 * handshakes_new:
 * @counters: borrowed, of this thread alone
 *
 * Returns: (transfer full): a thread that runs, or %NULL with a GIOError set
 */
Handshakes *handshakes_new(const HandshakesConfig *config, Counters *counters, GError **error);

/* Any thread: takes one that has a stream. */
void handshakes_add(Handshakes *self, const InboxConnection *newcomer);

/* Ends the thread, and closes those that are not done. */
void handshakes_free(Handshakes *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Handshakes, handshakes_free)
