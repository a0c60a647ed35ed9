/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/session.h"

/*
 * Finds out whether anyone may write what the servers of a datacenter share: the root, the znodes
 * right below it, and the datacenter down to the last reservation. For a server with
 * --zookeeper-auth, on znodes that were made without it: a client that may write a parent may
 * delete a reservation below it, and another server then takes a worker ID that is in use.
 *
 * A znode is open as common/zookeeper/znodes.h defines it. Parents are read before their
 * children, so the znode that is named is the highest one that is open. Nothing is changed. Claims
 * are not read: they belong to their servers, and end with them. A reservation whose ACL this
 * server may not read is skipped, because no server with its password takes that worker ID.
 */
typedef struct {
	gboolean is_finished;
	ZookeeperOutcome outcome; /* once it is finished: OK, or why the answer is not known */
	const char *reason;       /* in words; static */
	char *path;               /* (nullable): the znode that is open, or that cannot be read */
	gboolean is_open;         /* anyone may write @path */
	/* its own */
	ZookeeperSession *session;
	char *reservations;
	guint64 sync, children; /* the requests; 0: not under way */
	GHashTable *requests;   /* number of a request to its path */
	GQueue paths;           /* that are still to be read */
} ZookeeperAccessCheck;

/* @session: borrowed; pass its replies to zookeeper_access_check_take() */
ZookeeperAccessCheck *zookeeper_access_check_new(ZookeeperSession *session, const char *root,
						 guint datacenter_id);
void zookeeper_access_check_free(ZookeeperAccessCheck *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperAccessCheck, zookeeper_access_check_free)

/* Continues with a reply of the session. Returns: %FALSE if the reply is to another request */
gboolean zookeeper_access_check_take(ZookeeperAccessCheck *self, const ZookeeperMessage *message);
