/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

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
