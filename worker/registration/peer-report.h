/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What the answers of the other servers of a datacenter say against a server that starts beside
 * them: the sanity checks of 2010. Pure: asking them is for peer-check.h.
 *
 * A claim may be older than what its server does now, and a clock may be set at this moment. So
 * nothing here is fatal by itself, only what a second check finds again.
 */

/* A server, as its claim has it. */
typedef struct {
	char *address; /* host:port */
	char *nonce;
	gint worker_id; /* -1: none yet */
} Peer;

/* (transfer full) */
Peer *peer_new(const char *address, const char *nonce, gint worker_id);
void peer_free(Peer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Peer, peer_free)

/* What it said. */
typedef struct {
	gboolean reached;     /* else nothing below is known */
	char *nonce;          /* NULL: it has none, as a server of 2010 */
	gint64 datacenter_id; /* -1: none yet */
	gint64 worker_id;     /* -1: none yet */
	gint64 offset_ms;     /* of its clock to monotonic time */
	GError *error;        /* why it was not reached; NULL: it has not answered in time */
} PeerAnswer;

typedef enum {
	PEER_WORKER_ID,     /* its worker ID is not its claim's */
	PEER_DATACENTER_ID, /* its datacenter ID is not ours */
	PEER_CLOCK,         /* our clock is too far from those of all who answered */
} PeerContradictionKind;

typedef struct {
	PeerContradictionKind kind;
	char *nonce;   /* of the peer; NULL: it is not one peer's */
	char *message; /* what, the values, what to do */
} PeerContradiction;

typedef struct {
	GPtrArray *contradictions; /* of PeerContradiction */
	guint agreed;
	guint unreachable;
	guint stale; /* another server, or another life of it, answered: the claim is ignored */
	gboolean clocks_known; /* of one at least */
	gint64 furthest_ms;    /* how far our clock is ahead of the one that is furthest from it */
} PeerReport;

void peer_report_clear(PeerReport *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PeerReport, peer_report_clear)

/**
 * peer_report_judge:
 * @peers: of Peer
 * @answers: one for each, in the same order
 * @datacenter_id: ours
 * @offset_ms: of our clock to monotonic time
 * @max_skew_ms: how far our clock may be from the middle of the peers' clocks; where two are in the
 *   middle, from the nearer
 * @out_report: (out): to be cleared by its owner
 */
void peer_report_judge(const GPtrArray *peers, const PeerAnswer *answers, guint datacenter_id,
		       gint64 offset_ms, gint64 max_skew_ms, PeerReport *out_report);

/* (nullable): the message of a contradiction of @self that @earlier has too. It is @self's. */
const char *peer_report_confirmed(const PeerReport *self, const PeerReport *earlier);
