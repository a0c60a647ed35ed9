/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "ctl/zookeeper.h"

/*
 * Who may write what servers have made in ZooKeeper: the root and everything below it, of all
 * datacenters, and closing what is open to anyone (common/zookeeper/znode-acl.h) to all but the
 * user and password of the session.
 *
 * A znode is closed before what is in it is looked at, so that nothing is put there unseen. To do
 * it twice, or half of it, is harmless.
 *
 * Claims are left as they are: they go with their servers, and once their parent is closed nobody
 * else can make or delete one. Left too, and named, is what no server makes: whose it is, and who
 * is to write it, only its owner knows.
 */

/* What became of a znode. */
typedef enum {
	CTL_REGISTRY_SECURE_CLOSED,  /* it was not open */
	CTL_REGISTRY_SECURE_OPEN,    /* it is open */
	CTL_REGISTRY_SECURE_DONE,    /* it was open */
	CTL_REGISTRY_SECURE_FOREIGN, /* not open, but not to the user and password of the session */
	CTL_REGISTRY_SECURE_DENIED,  /* open, and may not be closed by this session */
} CtlRegistrySecureState;

typedef struct {
	char *path;
	CtlRegistrySecureState state;
} CtlRegistrySecureZnode;

typedef struct {
	guint znodes;       /* all of them, claims and strange ones left out */
	guint open;         /* that were found open */
	guint done;         /* that were closed */
	guint others;       /* FOREIGN and DENIED */
	GPtrArray *notable; /* of CtlRegistrySecureZnode: all but CLOSED, parents first */
	GPtrArray *strange; /* of char *: paths of znodes that are none of a server's */
	GPtrArray *servers; /* of char *: where servers are that live and came without a password */
} CtlRegistrySecure;

/**
 * ctl_registry_secure_walk:
 * @zookeeper: made with a user and password
 * @close: what is open; else it only looks
 *
 * Returns: (transfer full) (nullable): or %NULL with an error set, and what was closed until then
 * is closed
 */
CtlRegistrySecure *ctl_registry_secure_walk(CtlZookeeper *zookeeper, const char *root,
					    gboolean close, GError **error);
void ctl_registry_secure_free(CtlRegistrySecure *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlRegistrySecure, ctl_registry_secure_free)
