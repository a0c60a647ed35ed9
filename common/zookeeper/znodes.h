/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/reservation-record.h"
#include "core/layout.h"

/* The paths and the contents of znodes, for the server that writes them and the tool that reads
 * them:
 *
 *   ROOT/registry                              the ID of the registry
 *   ROOT/layout                                the layout; without it, there is no registry
 *   ROOT/limits                                how far ahead servers may have reserved
 *   ROOT/datacenters/D/floor                   no lease begins at or before this tick
 *   ROOT/datacenters/D/claims/claim-NONCE-SEQ  ephemeral: a live server
 *   ROOT/datacenters/D/reservations/W          the record of worker ID W in datacenter D
 *
 * Each contains JSON. See common/reservation-record.h for the JSON of a reservation, and
 * common/strict-json.h for formats and unknown members. Nothing here communicates with ZooKeeper.
 */

/* The limits for the servers' options. */
#define ZNODES_MAX_CLOCK_SKEW_MS      3600000
#define ZNODES_MAX_RESERVATION_MS     86400000
#define ZNODES_MAX_SESSION_TIMEOUT_MS 60000

#define ZNODES_REGISTRY     "registry"
#define ZNODES_LAYOUT       "layout"
#define ZNODES_LIMITS       "limits"
#define ZNODES_DATACENTERS  "datacenters"
#define ZNODES_FLOOR        "floor"
#define ZNODES_CLAIMS       "claims"
#define ZNODES_RESERVATIONS "reservations"

/* The names of all znodes that servers create in the root and in a datacenter, NULL-terminated. */
extern const char *const ZNODES_OF_ROOT[];
extern const char *const ZNODES_OF_DATACENTER[];

/* Return: (transfer full): the path of a znode. @name: one of the names above */
char *znode_in_root(const char *root, const char *name);
char *znode_in_datacenter(const char *root, guint datacenter_id, const char *name);
char *znode_reservation(const char *root, guint datacenter_id, guint worker_id);

/* Returns: (transfer full) (element-type utf8): the paths of the parents of @path, the root's
 * first. */
GPtrArray *znode_parents(const char *path);

/* Returns: (transfer full): "claim-NONCE-", to which ZooKeeper appends a sequence number. */
char *znode_claim_prefix(const char *nonce);

/* Returns: (transfer full) (nullable): the nonce in @name, "claim-NONCE-SEQ" without a path; %NULL
 * if @name is not the name of a claim. */
char *znode_claim_nonce(const char *name);

/* Parses @name, a datacenter ID or worker ID from 0 to @max, in decimal, without a sign or
 * leading zeros, as servers write it. Returns %FALSE if it is not such a number. */
gboolean znode_parse_number(const char *name, guint max, guint *out_number);

/* Return whether an answer is plausible. ZooKeeper's client passes on answers that no ZooKeeper
 * server would send: the data is missing, or a count or length is negative or far above the limits
 * of znodes. */
gboolean znode_names_make_sense(gint count, char *const *names);
/* @length: -1 if there is no data */
gboolean znode_data_make_sense(gint length, const char *data);

/* A history of the store, as text: see StoreMessage.history. Empty if the store has none. */
#define ZNODES_HISTORY_SIZE 64
typedef struct {
	char text[ZNODES_HISTORY_SIZE];
} ZnodeHistory;

/* @text: (nullable) */
ZnodeHistory znode_history_of(const char *text);
gboolean znode_history_equal(const ZnodeHistory *a, const ZnodeHistory *b);

/* Write and read {"id"}, the ID of the registry: a UUID that is created once, before the layout.
 * Registries of earlier versions have no ID until a server adds one. "history" is the history in
 * which the registry was created; without it, there is none. */
char *znode_registry_to_json(const char *id, const ZnodeHistory *history);
ZnodeHistory znode_registry_history(const char *text, gsize length);
/* Returns: (transfer full) (nullable): the ID in lower case; %NULL with an error set */
char *znode_registry_from_json(const char *text, gsize length, GError **error);

/* Write and read
 * {"epoch_ms","tick_ms","time_bits","datacenter_bits","worker_bits","sequence_bits"}, with
 * "total_bits" if the sum of the bits is not 63. */
char *znode_layout_to_json(const Layout *layout);
gboolean znode_layout_from_json(const char *text, gsize length, Layout *out_layout, GError **error);

/* The largest values of these options that any server with this root has ever used. They limit how
 * far the end of a reservation can be ahead of ZooKeeper's time. */
typedef struct {
	gint64 max_clock_skew_ms;
	gint64 reservation_ms;
} ZnodeLimits;

char *znode_limits_to_json(const ZnodeLimits *limits);
gboolean znode_limits_from_json(const char *text, gsize length, ZnodeLimits *out_limits,
				GError **error);

/* A datacenter's floor, {"floor_tick","clock_tick"}. The server that creates the datacenter's
 * znodes writes 0 for both. Operators raise these values; servers raise them if the store's history
 * differs from "history", and record the new one in the same write. The floor is created before the
 * reservations, so a datacenter with reservations but without a floor is damaged. */
typedef struct {
	gint64 tick;       /* no lease begins at or before this tick */
	gint64 clock_tick; /* no server's clock was past this tick when the floor was raised */
	/* the history of the store in which the floor is valid */
	ZnodeHistory history;
} ZnodeFloor;

char *znode_floor_to_json(const ZnodeFloor *floor);
/* Text that does not parse is an error, never a floor of 0. */
gboolean znode_floor_from_json(const char *text, gsize length, const Layout *layout,
			       ZnodeFloor *out_floor, GError **error);

/* The ACL of a znode is a list of entries, each with a scheme, an ID and permissions. A client that
 * matches an entry has the entry's permissions. ACLs are not inherited. The ACL of the parent
 * determines who can create and delete a znode.
 *
 * A znode is open if an entry of the scheme "world", which matches every client, permits more than
 * reading. Entries that name a user (digest, sasl, x509, ip) are an administrator's decision, so
 * they are not changed. */

/* Returns whether an entry makes a znode open. @permissions: ZooKeeper's permission bits */
gboolean znode_acl_is_open(const char *scheme, gint permissions);

/* Returns: (transfer full): the ID that represents @auth, "user:password", in ACLs of the scheme
 * "digest". */
char *znode_acl_identity(const char *auth);

/* The data of the claim of a server or an embedded node. */
typedef struct {
	char *program; /* name of an embedded node's program; NULL for a server */
	/* server: the host at which clients reach it; embedded node: the machine's name */
	char *host;
	guint16 port;    /* server: its port; embedded node: 0, and omitted from the JSON */
	gboolean is_tls; /* server: clients must use TLS; then the JSON contains "transport" */
	gint64 pid;
	char *version;
	gint64 started_ms; /* since the Unix epoch; RFC 3339 in the JSON, as "started" */
	gint worker_id;    /* -1 if there is none yet; then it is omitted from the JSON */
	/* as granted by ZooKeeper; 0 if unknown; then it is omitted from the JSON */
	gint64 session_timeout_ms;
} ClaimRecord;

/* Returns: (transfer full): the claim as JSON. */
char *claim_record_to_json(const ClaimRecord *self);
/* Fills in @out_record, which the caller must clear. Returns %FALSE with an error set if the text
 * is not a claim. */
gboolean claim_record_from_json(const char *text, gsize length, ClaimRecord *out_record,
				GError **error);
/* Returns whether the claim's server holds the reservation of @worker_id: it is the owner, and its
 * claim contains this worker ID or does not contain a worker ID yet. If the claim contains a
 * different worker ID, the server no longer uses this one.
 * @nonce: from the claim's name */
gboolean claim_record_holds(const ClaimRecord *self, const char *nonce,
			    const ReservationRecord *reservation, guint worker_id);
/* Returns: (transfer full): HOST:PORT, with brackets if necessary, after tls: if is_tls;
 * PROGRAM@HOST for an embedded node, which accepts no calls. */
char *claim_record_address(const ClaimRecord *self);
void claim_record_clear(ClaimRecord *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ClaimRecord, claim_record_clear)
