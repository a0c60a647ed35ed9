/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/tls/client.h"
#include "core/clock.h"
#include "worker/registration/peer-report.h"

/*
 * Asks the other servers of a datacenter, all at the same time, who they are and what time it is.
 *
 * It blocks nobody: threads of its own do the asking, as clients like any other. A name server may
 * hold up one of them for longer than a check lasts; it then ends by itself, later, and touches
 * nothing that is not its own.
 */
typedef struct _PeerCheck PeerCheck;

typedef struct {
	const Clock *clock; /* borrowed: ours; read by take_report() only */
	guint datacenter_id;
	gint64 timeout_ms; /* in all; who has not answered by then is unreachable */
	gint64 max_skew_ms;
	gboolean quiet; /* nothing is logged */
	TlsClient *tls; /* for peers that speak it, kept as long as it is needed; NULL: those are
			 * not reached */
	/* Called in a thread of the check, once, when there is a report and it was not taken yet;
	 * never after free(). It must not call the check. Without a thread to be had nobody
	 * calls; take_report() has a report when the time is up. */
	void (*done)(gpointer user_data);
	gpointer user_data;
} PeerCheckConfig;

/**
 * peer_check_new:
 * @peers: (transfer full): of Peer, with peer_free() as its free function; the others only, not
 *   this server
 * @config: copied
 *
 * Begins to ask.
 */
PeerCheck *peer_check_new(GPtrArray *peers, const PeerCheckConfig *config);

/* Any time; nothing is waited for. */
void peer_check_free(PeerCheck *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PeerCheck, peer_check_free)

/**
 * peer_check_take_report:
 * @out_report: (out): to be cleared by its owner; untouched unless %TRUE
 *
 * Logs who could not be reached, and what contradicts, unless it is to be quiet.
 *
 * Returns: %TRUE once, when there is a report
 */
gboolean peer_check_take_report(PeerCheck *self, PeerReport *out_report);
