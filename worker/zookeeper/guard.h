/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/session.h"

/*
 * Closes to strangers what a server shares with others: the root, what stands right below it, and
 * the server's own datacenter, to the last reservation. For a server with --zookeeper-auth on
 * znodes that were made without: whoever may write a parent may delete a reservation below it, and
 * its worker ID is free then.
 *
 * What is open, as common/zookeeper/znode-acl.h has it, gets the ACL that the session gives to what
 * it creates. Parents come before what is in them: once a parent is closed nothing is put there
 * that was not seen here. A znode that is closed, to whomever, is left as it is. So are claims,
 * which are their servers' and go with them; under a closed parent nobody else can delete one.
 *
 * It stops at what it may not close, and at a parent that it may not look at. A reservation that it
 * may not look at is passed over: no server that shares this one's password takes that worker ID.
 */
typedef struct _ZookeeperGuard ZookeeperGuard;

struct _ZookeeperGuard {
	guint closed;      /* znodes that were open */
	guint open_claims; /* if there were any: of servers that come without a password */
	gboolean finished;
	ZookeeperOutcome outcome; /* once it is finished: OK, or why not all of it is closed */
	const char *reason;       /* in words; static */
	char *path;               /* (nullable): where, unless OK */
	gboolean open;            /* and that anyone may write there */
	/* its own */
	ZookeeperSession *session;
	char *root;
	guint datacenter_id;
	guint stage;
	guint rounds;         /* of the stage */
	GQueue now, next;     /* of paths to look at, in this round and in the one after it */
	GHashTable *requests; /* those under way, by number */
};

/* @session: borrowed; what it has to say goes to take() */
ZookeeperGuard *zookeeper_guard_new(ZookeeperSession *session, const char *root,
				    guint datacenter_id);
void zookeeper_guard_free(ZookeeperGuard *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperGuard, zookeeper_guard_free)

/* Goes on with a reply of the session. %FALSE: it is not about this. */
gboolean zookeeper_guard_take(ZookeeperGuard *self, const ZookeeperMessage *message);
