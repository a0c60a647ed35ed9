/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znode-acl.h"

#include <string.h>

#define PERMISSION_READ 1
#define PERMISSIONS_ALL 31

gboolean znode_acl_is_open(const char *scheme, gint permissions)
{
	return g_str_equal(scheme, "world") && (permissions & ~PERMISSION_READ) != 0;
}

char *znode_acl_identity(const char *auth)
{
	g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA1);
	g_autofree char *user = g_strndup(auth, strcspn(auth, ":"));
	g_autofree char *text = NULL;
	guint8 digest[20];
	gsize length = sizeof(digest);

	g_checksum_update(checksum, (const guchar *)auth, (gssize)strlen(auth));
	g_checksum_get_digest(checksum, digest, &length);
	text = g_base64_encode(digest, length);
	return g_strjoin(":", user, text, NULL);
}

gboolean znode_acl_is_of(const char *scheme, const char *id, gint permissions, const char *identity)
{
	g_autofree char *user = g_strndup(identity, strcspn(identity, ":"));
	g_autofree char *masked = g_strconcat(user, ":x", NULL);

	return g_str_equal(scheme, "digest") && permissions == PERMISSIONS_ALL &&
	       (g_str_equal(id, identity) || g_str_equal(id, masked));
}
