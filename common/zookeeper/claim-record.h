/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/reservation-record.h"

/* What the claim of a server that lives holds, or of a node that is embedded in another program.
 * Those of later versions may add to it. */
typedef struct {
	char *program;   /* that it is embedded in; NULL: a server */
	char *host;      /* of a server, where clients reach it; else the name of its machine */
	guint16 port;    /* of a server; else 0, and not in the JSON */
	gboolean is_tls; /* likewise: clients speak TLS there; "transport" in the JSON, if so */
	gint64 pid;
	char *version;
	gint64 started_ms;         /* since the Unix epoch; RFC 3339 in the JSON, as "started" */
	gint worker_id;            /* -1: none yet; then it is not in the JSON */
	gint64 session_timeout_ms; /* that ZooKeeper granted; 0: not known, and not in the JSON */
} ClaimRecord;

/* (transfer full): JSON. */
char *claim_record_to_json(const ClaimRecord *self);
/* Fills @out_record, to be cleared by its owner. %FALSE, with an error set, if it is not such. */
gboolean claim_record_from_json(const char *text, gsize length, ClaimRecord *out_record,
				GError **error);
/* Whether who has this claim holds the reservation of that worker ID: it is its owner, and names
 * this worker ID, or none yet. One that names another has left it.
 * @nonce: of the claim's name */
gboolean claim_record_holds(const ClaimRecord *self, const char *nonce,
			    const ReservationRecord *reservation, guint worker_id);
/* (transfer full): host and port as HOST:PORT, with brackets where they are needed, after tls: if
 * it is that; of one that is embedded PROGRAM@HOST, where nobody can call. */
char *claim_record_address(const ClaimRecord *self);
void claim_record_clear(ClaimRecord *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ClaimRecord, claim_record_clear)
