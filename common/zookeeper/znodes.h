/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/reservation-record.h"
#include "core/layout.h"

/*
 * What stands where in ZooKeeper, for the server that writes it and the tool that reads it:
 *
 *   ROOT/layout                                    how IDs divide, JSON; by the first server
 *   ROOT/limits                                    how far ahead servers may have reserved, JSON
 *   ROOT/datacenters/D/floor                       no claim begins at or before this tick, JSON
 *   ROOT/datacenters/D/claims/claim-NONCE-SEQ      ephemeral: a server that lives, JSON
 *   ROOT/datacenters/D/reservations/W              worker ID W of D: up to when, and whose, JSON
 *
 * The JSON of a claim is in claim-record.h, that of a reservation, which is in state directories
 * too, in common/reservation-record.h. Nothing here speaks to ZooKeeper.
 */

/* The most that options of servers allow. */
#define ZNODES_MAX_CLOCK_SKEW_MS      3600000
#define ZNODES_MAX_RESERVATION_MS     86400000
#define ZNODES_MAX_SESSION_TIMEOUT_MS 60000

#define ZNODES_CLAIMS       "claims"
#define ZNODES_DATACENTERS  "datacenters"
#define ZNODES_RESERVATIONS "reservations"

/* The names of all that servers make in the root, and in a datacenter; %NULL after them. */
extern const char *const ZNODES_OF_ROOT[];
extern const char *const ZNODES_OF_DATACENTER[];

/* (transfer full): paths. */
char *znode_layout(const char *root);
char *znode_limits(const char *root);
char *znode_datacenters(const char *root);
char *znode_floor(const char *root, guint datacenter_id);
char *znode_claims(const char *root, guint datacenter_id);
char *znode_reservations(const char *root, guint datacenter_id);
char *znode_reservation(const char *root, guint datacenter_id, guint worker_id);

/* (transfer full): the name that ZooKeeper completes with a sequence number: "claim-NONCE-". */
char *znode_claim_prefix(const char *nonce);

/**
 * znode_claim_parse_name:
 * @name: "claim-NONCE-SEQ", without a path
 * @out_nonce: (out) (transfer full)
 * @out_sequence: (out): what ZooKeeper counted
 *
 * Returns: %FALSE, with nothing set, if @name is not the name of a claim
 */
gboolean znode_claim_parse_name(const char *name, char **out_nonce, gint64 *out_sequence);

/* Whether @name is the name of a claim. */
gboolean znode_is_claim(const char *name);

/* The number that @name is in decimal, as servers write it (no sign, no leading zero): a datacenter
 * or a worker ID of 0 to @max. %FALSE if it is none. */
gboolean znode_parse_number(const char *name, guint max, guint *out_number);

/* What ZooKeeper's client makes of an answer that no ZooKeeper gives: a count or a length below 0
 * or far beyond what znodes hold, or with nothing after it. Whether it is none of these. */
gboolean znode_names_make_sense(gint count, char *const *names);
/* @length -1: it holds nothing. */
gboolean znode_data_make_sense(gint length, const char *data);

/* The layout's, {"epoch_ms","tick_ms","time_bits","datacenter_bits","worker_bits",
 * "sequence_bits"}, and "total_bits" if they are not 63. */
char *znode_layout_to_json(const Layout *layout);
gboolean znode_layout_from_json(const char *text, gsize length, Layout *out_layout, GError **error);

/* How far ahead of ZooKeeper's time an end can be that a server of this root has written: the
 * largest of the options that bear on it, of all servers that ever were. */
typedef struct {
	gint64 max_clock_skew_ms;
	gint64 reservation_ms;
} ZnodeLimits;

char *znode_limits_to_json(const ZnodeLimits *limits);
/* Strict, as a reservation's. */
gboolean znode_limits_from_json(const char *text, gsize length, ZnodeLimits *out_limits,
				GError **error);

/* A datacenter's floor, {"floor_tick","clock_tick"}: both 0 by the server that makes the
 * datacenter, and raised by operators only. It is made before the reservations: a datacenter that
 * has those and no floor is damaged. */
typedef struct {
	gint64 tick;       /* no claim begins at or before it */
	gint64 clock_tick; /* when it was raised, no server's clock was further: up to the tick */
} ZnodeFloor;

char *znode_floor_to_json(const ZnodeFloor *floor);
/* Strict likewise: what does not parse is never a floor of 0. */
gboolean znode_floor_from_json(const char *text, gsize length, const Layout *layout,
			       ZnodeFloor *out_floor, GError **error);

/*
 * Who may write what servers share in ZooKeeper. The ACL of a znode is a list of entries, each with
 * a scheme, an ID and permissions; whoever one of them fits may do what it says. ACLs are not
 * inherited, and the right to delete a znode or to make one belongs to its parent's.
 *
 * A znode is open if an entry of the scheme "world", which is anyone, permits more than to read.
 * Entries that name somebody (digest, sasl, x509, ip) are somebody's decision, and stay: an
 * administrator beside the servers is none of a server's business, and only those whom an entry
 * names can have written it once the znode is not open.
 */

/* Whether one entry makes the znode open. @permissions: ZooKeeper's bits */
gboolean znode_acl_is_open(const char *scheme, gint permissions);

/* (transfer full): who comes with @auth, "user:password", as ACLs of the scheme "digest" name it.
 */
char *znode_acl_identity(const char *auth);

/* Whether one entry permits everything to @identity. Who may read a znode and not administer it is
 * shown "x" for what comes after the user. */
gboolean znode_acl_is_of(const char *scheme, const char *id, gint permissions,
			 const char *identity);

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
