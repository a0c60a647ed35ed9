/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/tls/client.h"
#include "core/clock.h"

/* The sanity checks: a server queries its peers, and evaluates the answers.
 *
 * A PeerCheck requests the worker IDs and clocks of all peers at the same time. It does not block:
 * its own threads query the peers like any other client. A DNS lookup can delay a thread beyond the
 * end of the check. The thread then ends later, and accesses only its own memory.
 *
 * A PeerReport is the result of a pure function that judges the answers. A claim record can be
 * older than its server's current state, and a clock can be set during the check. So a
 * contradiction counts only if a second check confirms it. */

/* A server, as its claim record describes it. */
typedef struct {
	char *address; /* host:port */
	char *nonce;
	gint worker_id; /* -1 if none yet */
} Peer;

/* Returns: (transfer full) */
Peer *peer_new(const char *address, const char *nonce, gint worker_id);
void peer_free(Peer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Peer, peer_free)

/* The answers of one peer. */
typedef struct {
	gboolean reached;     /* if FALSE, only the error is set */
	char *nonce;          /* NULL if it has no nonce, like a legacy server */
	gint64 datacenter_id; /* -1 if none yet */
	gint64 worker_id;     /* -1 if none yet */
	gint64 offset_ms;     /* offset of its clock from the local monotonic clock */
	GError *error;        /* why it was not reached; NULL if it did not answer in time */
} PeerAnswer;

typedef enum {
	PEER_WORKER_ID,     /* its worker ID differs from the one in its claim record */
	PEER_DATACENTER_ID, /* its datacenter ID differs from this server's */
	/* this server's clock differs too much from the clocks of all peers that answered */
	PEER_CLOCK,
} PeerContradictionKind;

typedef struct {
	PeerContradictionKind kind;
	char *nonce;   /* nonce of the peer; NULL if the contradiction is not about a single peer */
	char *message; /* the contradiction with its values, and the remedy */
} PeerContradiction;

typedef struct {
	GPtrArray *contradictions; /* (element-type PeerContradiction) */
	guint agreed;
	guint unreachable;
	/* number of ignored peers: a different process than the claim record's has answered */
	guint stale;
	gboolean clocks_known; /* the clock of at least one peer is known */
	/* how far this server's clock is ahead of the peer clock that differs most from it */
	gint64 furthest_ms;
} PeerReport;

void peer_report_clear(PeerReport *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PeerReport, peer_report_clear)

/* @peers: (element-type Peer)
 * @answers: one for each peer, in the same order
 * @datacenter_id: this server's datacenter ID
 * @offset_ms: offset of this server's clock from monotonic time
 * @max_skew_ms: maximum difference between this server's clock and the median of the peers' clocks;
 * if there are two middle clocks, the nearer one is used
 * @out_report: (out): cleared by the caller
 */
void peer_report_judge(const GPtrArray *peers, const PeerAnswer *answers, guint datacenter_id,
		       gint64 offset_ms, gint64 max_skew_ms, PeerReport *out_report);

/* Returns: (nullable): the message of a contradiction in @self that is also in @earlier; owned by
 *   @self. */
const char *peer_report_confirmed(const PeerReport *self, const PeerReport *earlier);

typedef struct _PeerCheck PeerCheck;

typedef struct {
	const Clock *clock; /* borrowed: this server's clock; only take_report() reads it */
	guint datacenter_id;
	/* time limit of the whole check; peers that have not answered by then count as
	 * unreachable */
	gint64 timeout_ms;
	gint64 max_skew_ms;
	gboolean quiet; /* log nothing */
	/* for peers that use TLS; a reference is kept as long as it is needed. NULL if such peers
	 * must not be contacted */
	TlsClient *tls;
	/* Called once in a thread of the check, when there is a report that was not taken yet;
	 * never after free(). It must not call functions of the check. If no thread can be started,
	 * it is not called, and take_report() returns a report at the timeout. */
	void (*done)(gpointer user_data);
	gpointer user_data;
} PeerCheckConfig;

/* Starts the check.
 * @peers: (transfer full) (element-type Peer): does not contain this server; its free function is
 * peer_free()
 * @config: copied */
PeerCheck *peer_check_new(GPtrArray *peers, const PeerCheckConfig *config);

/* Frees the check. Can be called at any time. Does not wait. */
void peer_check_free(PeerCheck *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PeerCheck, peer_check_free)

/* Logs which peers were not reached, and the contradictions, unless the check is quiet.
 * @out_report: (out): cleared by the caller; untouched unless %TRUE
 * Returns: %TRUE once, when there is a report */
gboolean peer_check_take_report(PeerCheck *self, PeerReport *out_report);
