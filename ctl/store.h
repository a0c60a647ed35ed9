/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "worker/registration/listing.h"

/* Access to a shared registry for commands. Adds blocking calls to the servers' own store
 * (worker/store.h), and reads the whole tree as listings. Only one thread may use a
 * session. If the session itself is LOST or REFUSED, it is not opened again. */
typedef struct _CtlStore CtlStore;

#define CTL_STORE_ERROR (ctl_store_error_quark())
GQuark ctl_store_error_quark(void);

typedef enum {
	/* There is no connection, no reply arrived in time, or the session has ended. A new session
	 * can succeed. */
	CTL_STORE_ERROR_LOST,
	/* Permission was denied, or a path is invalid. A new session would also fail. */
	CTL_STORE_ERROR_REFUSED,
	/* It is unknown whether a write took place. A retry can succeed. */
	CTL_STORE_ERROR_UNSURE,
} CtlStoreError;

/* Returns whether the command can continue with earlier data and try again, that is, whether the
 * error is LOST or UNSURE. */
gboolean ctl_store_is_lost(const GError *error);

/* Returns: (transfer full) (nullable): a session, or %NULL with an error set
 * @registry: copied
 * @timeout_ms: time limit for connecting, and for each answer
 * @reconnects: if the connection is lost, a wait continues on a new connection if it is opened in
 * time; reads are sent again, writes are not. If %FALSE, the loss of the connection ends the wait
 * immediately */
CtlStore *ctl_store_connect(const CtlRegistry *registry, guint timeout_ms, gboolean reconnects,
			    GError **error);
void ctl_store_free(CtlStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlStore, ctl_store_free)

/* Returns (nullable): the history of the store on the last connection: see StoreMessage.history. */
const char *ctl_store_history(const CtlStore *self);

/* A request, and its answer after ctl_store_wait(). */
typedef struct {
	char *key;
	gboolean may_be_denied; /* DENIED is accepted as an answer instead of an error */
	guint64 number;
	/* Sends the request; used again on another connection. NULL for a write, which is not
	 * repeated. */
	guint64 (*send)(Store *store, const char *key);
	StoreMessage *answer; /* set for OK, ABSENT, CONFLICT or DENIED */
} CtlRequest;

/* Returns: (transfer full) (element-type CtlRequest) */
GPtrArray *ctl_store_requests_new(void);

/* Send a request, and add it to @requests. @key: (transfer full). See StoreOps. */
CtlRequest *ctl_store_read(CtlStore *self, GPtrArray *requests, char *key);
/* @version: version that the record must have; STORE_NONE if it must not exist */
CtlRequest *ctl_store_write(CtlStore *self, GPtrArray *requests, char *key, gint32 version,
			    const char *data);
/* Makes the records that are written after the answer accessible to the same users as @key. */
void ctl_store_copy_access(CtlStore *self, GPtrArray *requests, char *key);

/* Waits for all answers. Returns %FALSE with an error set if one of @requests has an outcome other
 * than those in CtlRequest; other requests may have succeeded. */
gboolean ctl_store_wait(CtlStore *self, const GPtrArray *requests, GError **error);

/* Returns: (transfer none) (nullable): the record that the request has read; %NULL if it is
 * missing. */
const StoreRecord *ctl_request_record(const CtlRequest *self);

typedef struct {
	char *root;
	char *registry_id;     /* (nullable): NULL if it is missing or damaged */
	char *registry_damage; /* (nullable): why the registry ID does not parse */
	Layout layout;
	GPtrArray *datacenters; /* (element-type DatacenterListing): sorted by datacenter ID */
	GPtrArray *strange; /* (element-type utf8): paths of znodes that servers do not create */
} CtlRegistryTree;

/* Reads the tree in a few steps of many requests each, so it is not a snapshot. The tree may
 * contain only some of the records of a server that starts or stops in the meantime. If a
 * datacenter has no reservations yet, a missing floor does not count as damage.
 * @with_all: read every reservation and the floors; otherwise only the reservations of worker IDs
 * that a claim contains.
 * Returns: (transfer full) (nullable): the tree, or %NULL with an error set: a CTL_STORE_ERROR,
 * or an error that says that there is no znode at @root or no valid layout */
CtlRegistryTree *ctl_registry_tree_read(CtlStore *store, const char *root, gboolean with_all,
					GError **error);
void ctl_registry_tree_free(CtlRegistryTree *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlRegistryTree, ctl_registry_tree_free)

/* Returns: (transfer full): the claims of a datacenter, in the order of their creation. */
GPtrArray *ctl_registry_tree_order_claims(const DatacenterListing *datacenter);

/* Returns when the last reserved tick begins, since the Unix epoch, as servers report it. Returns 0
 * for tick 0, which no ID contains. */
gint64 ctl_registry_tree_end_ms(const Layout *layout, gint64 tick);
