/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/guard.h"

#include "common/zookeeper/znodes.h"

#define MAX_UNDER_WAY 256 /* requests */
#define MAX_ROUNDS    100 /* where somebody else sets an ACL all the time */

/* One after the other, so that whatever a stage finds had a closed parent before. */
enum { ROOT, BELOW_ROOT, DATACENTER, BELOW_DATACENTER, RESERVATIONS, CLAIMS, N_STAGES };

/* What a request asks for; and what is to be asked for, of ACL. */
typedef struct {
	enum { CHILDREN, ACL, CLOSING, SYNC } what;
	char *path;
	gboolean closed; /* it was, in an earlier round */
} Asked;

static void asked_free(Asked *asked)
{
	g_free(asked->path);
	g_free(asked);
}

static Asked *asked_new(int what, const char *path, gboolean closed)
{
	Asked *asked = g_new(Asked, 1);

	*asked = (Asked){.what = what, .path = g_strdup(path), .closed = closed};
	return asked;
}

/* @asked: (transfer full) */
static void expect(ZookeeperGuard *self, guint64 request, Asked *asked)
{
	guint64 *key = g_new(guint64, 1);

	*key = request;
	g_hash_table_insert(self->requests, key, asked);
}

static void ask_children(ZookeeperGuard *self, const char *path)
{
	expect(self, zookeeper_session_children(self->session, path, FALSE),
	       asked_new(CHILDREN, path, FALSE));
}

static void look_at(GQueue *queue, const char *path, gboolean closed)
{
	g_queue_push_tail(queue, asked_new(ACL, path, closed));
}

static void fail(ZookeeperGuard *self, const Asked *asked, const ZookeeperMessage *message)
{
	if (self->outcome != ZOOKEEPER_OK)
		return;
	self->outcome = message->outcome;
	self->reason = message->reason;
	self->path = g_strdup(asked->path);
	self->open = asked->what == CLOSING;
}

/* Stages */

static void add(ZookeeperGuard *self, const char *parent, const char *name)
{
	g_autofree char *path = g_strconcat(parent, "/", name, NULL);

	look_at(&self->now, path, FALSE);
}

static void add_all(ZookeeperGuard *self, const char *parent, const char *const *names)
{
	for (; *names != NULL; names++)
		add(self, parent, *names);
}

static void begin_stage(ZookeeperGuard *self)
{
	g_autofree char *claims = znode_claims(self->root, self->datacenter_id);
	g_autofree char *reservations = znode_reservations(self->root, self->datacenter_id);
	g_autofree char *datacenter = g_path_get_dirname(claims);

	switch (self->stage) {
	case ROOT:
		look_at(&self->now, self->root, FALSE);
		break;
	case BELOW_ROOT:
		add_all(self, self->root, ZNODES_OF_ROOT);
		break;
	case DATACENTER:
		look_at(&self->now, datacenter, FALSE);
		break;
	case BELOW_DATACENTER:
		add_all(self, datacenter, ZNODES_OF_DATACENTER);
		break;
	case RESERVATIONS:
		ask_children(self, reservations);
		break;
	case CLAIMS:
		if (self->closed > 0)
			ask_children(self, claims);
		break;
	}
}

/* While an ACL is being set, ZooKeeper judges what comes in by the one before: so what was closed
 * is looked at once more, when all that came in meanwhile is done. */
static void begin_round(ZookeeperGuard *self)
{
	if (++self->rounds > MAX_ROUNDS) {
		const Asked *asked = g_queue_peek_head(&self->next);
		const ZookeeperMessage message = {
			.outcome = ZOOKEEPER_REFUSED,
			.reason = "somebody else sets its ACL all the time",
		};

		fail(self, asked, &message);
		return;
	}
	expect(self, zookeeper_session_sync(self->session, self->root),
	       asked_new(SYNC, self->root, FALSE));
	self->now = self->next;
	g_queue_init(&self->next);
}

static void go_on(ZookeeperGuard *self)
{
	while (self->outcome == ZOOKEEPER_OK && g_hash_table_size(self->requests) < MAX_UNDER_WAY) {
		Asked *asked = g_queue_pop_head(&self->now);

		if (asked != NULL) {
			expect(self, zookeeper_session_get_acl(self->session, asked->path), asked);
		} else if (g_hash_table_size(self->requests) > 0) {
			break;
		} else if (!g_queue_is_empty(&self->next)) {
			begin_round(self);
		} else {
			self->rounds = 0;
			if (++self->stage == N_STAGES)
				break;
			begin_stage(self);
		}
	}
	self->finished = g_hash_table_size(self->requests) == 0;
}

/* Replies */

static void on_acl(ZookeeperGuard *self, const Asked *asked, const ZookeeperMessage *message)
{
	switch (message->outcome) {
	case ZOOKEEPER_OK:
		if (message->open && self->stage == CLAIMS)
			self->open_claims++;
		else if (message->open)
			expect(self,
			       zookeeper_session_set_acl(self->session, asked->path,
							 message->stat.acl_version),
			       asked_new(CLOSING, asked->path, asked->closed));
		else if (asked->closed)
			self->closed++;
		break;
	case ZOOKEEPER_NO_NODE:
		break;
	case ZOOKEEPER_NO_AUTH:
		if (self->stage < RESERVATIONS)
			fail(self, asked, message);
		break;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
	case ZOOKEEPER_REFUSED:
	case ZOOKEEPER_UNSURE:
		fail(self, asked, message);
		break;
	}
}

static void on_closing(ZookeeperGuard *self, const Asked *asked, const ZookeeperMessage *message)
{
	switch (message->outcome) {
	case ZOOKEEPER_OK:
		look_at(&self->next, asked->path, TRUE);
		break;
	case ZOOKEEPER_NO_NODE:
		break;
	case ZOOKEEPER_BAD_VERSION: /* another server was faster, or anyone */
		look_at(&self->next, asked->path, asked->closed);
		break;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
	case ZOOKEEPER_UNSURE:
		fail(self, asked, message);
		break;
	}
}

/* What else somebody has put there no server reads. */
static gboolean is_of_servers(const ZookeeperGuard *self, const char *name)
{
	guint worker_id;

	return self->stage == CLAIMS ? znode_is_claim(name)
				     : znode_parse_number(name, G_MAXUINT, &worker_id);
}

static void on_children(ZookeeperGuard *self, const Asked *asked, const ZookeeperMessage *message)
{
	if (message->outcome == ZOOKEEPER_OK) {
		for (char **name = message->children; *name != NULL; name++)
			if (is_of_servers(self, *name))
				add(self, asked->path, *name);
	} else if (message->outcome != ZOOKEEPER_NO_NODE) {
		fail(self, asked, message);
	}
}

gboolean zookeeper_guard_take(ZookeeperGuard *self, const ZookeeperMessage *message)
{
	const Asked *asked = g_hash_table_lookup(self->requests, &message->request);

	if (asked == NULL)
		return FALSE;
	switch (asked->what) {
	case CHILDREN:
		on_children(self, asked, message);
		break;
	case ACL:
		on_acl(self, asked, message);
		break;
	case CLOSING:
		on_closing(self, asked, message);
		break;
	case SYNC:
		if (message->outcome != ZOOKEEPER_OK)
			fail(self, asked, message);
		break;
	}
	g_hash_table_remove(self->requests, &message->request);
	go_on(self);
	return TRUE;
}

ZookeeperGuard *zookeeper_guard_new(ZookeeperSession *session, const char *root,
				    guint datacenter_id)
{
	ZookeeperGuard *self = g_new0(ZookeeperGuard, 1);

	self->session = session;
	self->root = g_strdup(root);
	self->datacenter_id = datacenter_id;
	self->requests = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
					       (GDestroyNotify)asked_free);
	g_queue_init(&self->now);
	g_queue_init(&self->next);
	begin_stage(self);
	go_on(self);
	return self;
}

void zookeeper_guard_free(ZookeeperGuard *self)
{
	if (self == NULL)
		return;
	g_queue_clear_full(&self->now, (GDestroyNotify)asked_free);
	g_queue_clear_full(&self->next, (GDestroyNotify)asked_free);
	g_hash_table_unref(self->requests);
	g_free(self->path);
	g_free(self->root);
	g_free(self);
}
