/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/tls/client.h"
#include "core/clock.h"

/*
 * The sanity checks: what a server asks its peers, and what their answers mean.
 *
 * A PeerCheck asks all peers at the same time who they are and what time it is. It blocks nobody:
 * threads of its own ask, as clients. A name server can delay such a thread beyond the end of the
 * check. The thread then ends later, and touches nothing but its own memory.
 *
 * A PeerReport judges the answers, as a pure function. A claim can be older than its server's
 * present state, and a clock can be set during the check. So a contradiction counts only if a
 * second check confirms it.
 */

/* A server, as its claim describes it. */
typedef struct {
	char *address; /* host:port */
	char *nonce;
	gint worker_id; /* -1: none yet */
} Peer;

/* (transfer full) */
Peer *peer_new(const char *address, const char *nonce, gint worker_id);
void peer_free(Peer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Peer, peer_free)

/* The answers of one peer. */
typedef struct {
	gboolean reached;     /* else only the error is known */
	char *nonce;          /* NULL: it has none, as a legacy server */
	gint64 datacenter_id; /* -1: none yet */
	gint64 worker_id;     /* -1: none yet */
	gint64 offset_ms;     /* of its clock to monotonic time */
	GError *error;        /* why it was not reached; NULL: it has not answered in time */
} PeerAnswer;

typedef enum {
	PEER_WORKER_ID,     /* its worker ID is not its claim's */
	PEER_DATACENTER_ID, /* its datacenter ID is not ours */
	PEER_CLOCK,         /* our clock is too far from the clocks of all who answered */
} PeerContradictionKind;

typedef struct {
	PeerContradictionKind kind;
	char *nonce;   /* of the peer; NULL: it is not about one peer */
	char *message; /* the contradiction, its values, and the remedy */
} PeerContradiction;

typedef struct {
	GPtrArray *contradictions; /* of PeerContradiction */
	guint agreed;
	guint unreachable;
	guint stale; /* another process than the claim's has answered: the claim is ignored */
	gboolean clocks_known; /* of at least one peer */
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
 * @max_skew_ms: how far our clock may be from the median of the peers' clocks; of two in the middle
 *   the nearer one counts
 * @out_report: (out): to be cleared by its owner
 */
void peer_report_judge(const GPtrArray *peers, const PeerAnswer *answers, guint datacenter_id,
		       gint64 offset_ms, gint64 max_skew_ms, PeerReport *out_report);

/* (nullable): the message of a contradiction in @self that is in @earlier too; owned by @self. */
const char *peer_report_confirmed(const PeerReport *self, const PeerReport *earlier);

typedef struct _PeerCheck PeerCheck;

typedef struct {
	const Clock *clock; /* borrowed: ours; only take_report() reads it */
	guint datacenter_id;
	gint64 timeout_ms; /* for the whole check; peers that have not answered are unreachable */
	gint64 max_skew_ms;
	gboolean quiet; /* nothing is logged */
	TlsClient *tls; /* for peers that speak TLS; a reference is kept as long as it is needed.
			 * NULL: these peers are not reached */
	/* Called in a thread of the check, once, when there is a report that was not taken yet;
	 * never after free(). It must not call the check. If no thread can be started it is not
	 * called, and take_report() has a report at the timeout. */
	void (*done)(gpointer user_data);
	gpointer user_data;
} PeerCheckConfig;

/**
 * peer_check_new:
 * @peers: (transfer full): of Peer, with peer_free() as its free function; without this server
 * @config: copied
 *
 * Begins to ask.
 */
PeerCheck *peer_check_new(GPtrArray *peers, const PeerCheckConfig *config);

/* At any time; it does not wait. */
void peer_check_free(PeerCheck *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PeerCheck, peer_check_free)

/**
 * peer_check_take_report:
 * @out_report: (out): to be cleared by its owner; untouched unless %TRUE
 *
 * Logs which peers were not reached, and the contradictions, unless the check is quiet.
 *
 * Returns: %TRUE once, when there is a report
 */
gboolean peer_check_take_report(PeerCheck *self, PeerReport *out_report);
