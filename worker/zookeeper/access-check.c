/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/access-check.h"

#include "common/zookeeper/znodes.h"

#define MAX_UNDER_WAY 256 /* requests */

static void add_path(ZookeeperAccessCheck *self, const char *parent, const char *name)
{
	g_queue_push_tail(&self->paths, g_strconcat(parent, "/", name, NULL));
}

static void end_check(ZookeeperAccessCheck *self, ZookeeperOutcome outcome, const char *reason,
		      const char *path)
{
	self->is_finished = TRUE;
	self->outcome = outcome;
	self->reason = reason;
	self->path = g_strdup(path);
}

static void request_acls(ZookeeperAccessCheck *self)
{
	while (!g_queue_is_empty(&self->paths) &&
	       g_hash_table_size(self->requests) < MAX_UNDER_WAY) {
		char *path = g_queue_pop_head(&self->paths);
		guint64 *request = g_new(guint64, 1);

		*request = zookeeper_session_get_acl(self->session, path);
		g_hash_table_insert(self->requests, request, path);
	}
	if (self->children == 0 && g_hash_table_size(self->requests) == 0)
		self->is_finished = TRUE;
}

static void take_children(ZookeeperAccessCheck *self, const ZookeeperMessage *message)
{
	guint worker_id;

	self->children = 0;
	if (message->outcome == ZOOKEEPER_OK) {
		/* no server reads what others have put there */
		for (char **name = message->children; *name != NULL; name++)
			if (znode_parse_number(*name, G_MAXUINT, &worker_id))
				add_path(self, self->reservations, *name);
	} else if (message->outcome != ZOOKEEPER_NO_NODE) {
		end_check(self, message->outcome, message->reason, self->reservations);
	}
}

static void take_acl(ZookeeperAccessCheck *self, const ZookeeperMessage *message, const char *path)
{
	switch (message->outcome) {
	case ZOOKEEPER_OK:
		self->is_open = message->open;
		if (message->open)
			end_check(self, ZOOKEEPER_OK, NULL, path);
		break;
	case ZOOKEEPER_NO_NODE:
		break;
	case ZOOKEEPER_NO_AUTH:
		if (g_str_has_prefix(path, self->reservations) &&
		    !g_str_equal(path, self->reservations))
			break;
		G_GNUC_FALLTHROUGH;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
	case ZOOKEEPER_REFUSED:
	case ZOOKEEPER_UNSURE:
		end_check(self, message->outcome, message->reason, path);
		break;
	}
}

gboolean zookeeper_access_check_take(ZookeeperAccessCheck *self, const ZookeeperMessage *message)
{
	const char *path = g_hash_table_lookup(self->requests, &message->request);

	if (message->request == self->sync) {
		if (message->outcome != ZOOKEEPER_OK)
			end_check(self, message->outcome, message->reason, NULL);
		return TRUE;
	}
	if (path == NULL && message->request != self->children)
		return FALSE;
	if (path == NULL)
		take_children(self, message);
	else
		take_acl(self, message, path);
	g_hash_table_remove(self->requests, &message->request);
	if (!self->is_finished)
		request_acls(self);
	return TRUE;
}

ZookeeperAccessCheck *zookeeper_access_check_new(ZookeeperSession *session, const char *root,
						 guint datacenter_id)
{
	ZookeeperAccessCheck *self = g_new0(ZookeeperAccessCheck, 1);
	g_autofree char *claims = znode_claims(root, datacenter_id);
	g_autofree char *datacenter = g_path_get_dirname(claims);

	self->session = session;
	self->reservations = znode_reservations(root, datacenter_id);
	self->requests = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
	g_queue_init(&self->paths);
	g_queue_push_tail(&self->paths, g_strdup(root));
	for (const char *const *name = ZNODES_OF_ROOT; *name != NULL; name++)
		add_path(self, root, *name);
	g_queue_push_tail(&self->paths, g_strdup(datacenter));
	for (const char *const *name = ZNODES_OF_DATACENTER; *name != NULL; name++)
		add_path(self, datacenter, *name);
	/* an operator may have closed the znodes a moment ago */
	self->sync = zookeeper_session_sync(session, root);
	self->children = zookeeper_session_children(session, self->reservations, FALSE);
	request_acls(self);
	return self;
}

void zookeeper_access_check_free(ZookeeperAccessCheck *self)
{
	if (self == NULL)
		return;
	g_queue_clear_full(&self->paths, g_free);
	g_hash_table_unref(self->requests);
	g_free(self->reservations);
	g_free(self->path);
	g_free(self);
}
