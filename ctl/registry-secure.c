/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/registry-secure.h"

#include <string.h>

#include "common/zookeeper/znodes.h"

#define AT_ONCE      1000
#define MAX_ATTEMPTS 100 /* at a znode whose ACL somebody else sets all the time */

typedef struct {
	CtlZookeeper *zookeeper;
	const char *root;
	gboolean close;
	CtlRegistrySecure *tree;
} Walk;

static void secure_znode_free(CtlRegistrySecureZnode *self)
{
	g_free(self->path);
	g_free(self);
}

void ctl_registry_secure_free(CtlRegistrySecure *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->notable);
	g_ptr_array_unref(self->strange);
	g_ptr_array_unref(self->servers);
	g_free(self);
}

/* Does @znodes, a bounded number at once. */
static gboolean do_all(const Walk *self, const GPtrArray *znodes, GError **error)
{
	for (guint i = 0; i < znodes->len; i += AT_ONCE) {
		g_autoptr(GPtrArray) some = g_ptr_array_new();

		for (guint j = i; j < MIN(i + AT_ONCE, znodes->len); j++)
			g_ptr_array_add(some, znodes->pdata[j]);
		if (!ctl_zookeeper_do(self->zookeeper, some, error))
			return FALSE;
	}
	return TRUE;
}

/* One level of the tree */

static void note(const Walk *self, const CtlZnode *znode, CtlRegistrySecureState state)
{
	CtlRegistrySecure *tree = self->tree;
	CtlRegistrySecureZnode *notable;

	tree->znodes++;
	tree->open += state == CTL_REGISTRY_SECURE_OPEN || state == CTL_REGISTRY_SECURE_DONE ||
		      state == CTL_REGISTRY_SECURE_DENIED;
	tree->done += state == CTL_REGISTRY_SECURE_DONE;
	tree->others += state == CTL_REGISTRY_SECURE_FOREIGN || state == CTL_REGISTRY_SECURE_DENIED;
	if (state == CTL_REGISTRY_SECURE_CLOSED)
		return;
	notable = g_new(CtlRegistrySecureZnode, 1);
	*notable = (CtlRegistrySecureZnode){g_strdup(znode->path), state};
	g_ptr_array_add(tree->notable, notable);
}

/* What becomes of a znode that was looked at. %FALSE: it is to be closed. */
static gboolean judge(const Walk *self, const CtlZnode *znode, gboolean was_closed)
{
	switch (znode->result) {
	case CTL_ZNODE_DENIED:
		note(self, znode, CTL_REGISTRY_SECURE_FOREIGN);
		return TRUE;
	case CTL_ZNODE_DONE:
		break;
	case CTL_ZNODE_MISSING:
	case CTL_ZNODE_CONFLICT: /* of a look: never */
		return TRUE;
	}
	if (znode->is_open && self->close)
		return FALSE;
	if (znode->is_open)
		note(self, znode, CTL_REGISTRY_SECURE_OPEN);
	else if (was_closed)
		note(self, znode, CTL_REGISTRY_SECURE_DONE);
	else
		note(self, znode,
		     znode->is_ours ? CTL_REGISTRY_SECURE_CLOSED : CTL_REGISTRY_SECURE_FOREIGN);
	return TRUE;
}

/* Leaves in @znodes those that are to be closed. @closed: those that were */
static gboolean look_at_all(const Walk *self, GPtrArray *znodes, const GHashTable *closed,
			    GError **error)
{
	guint n_open = 0;

	for (guint i = 0; i < znodes->len; i++)
		((CtlZnode *)znodes->pdata[i])->operation = CTL_ZNODE_LOOK_ACL;
	if (!do_all(self, znodes, error))
		return FALSE;
	for (guint i = 0; i < znodes->len; i++) {
		CtlZnode *znode = znodes->pdata[i];

		if (!judge(self, znode, g_hash_table_contains((GHashTable *)closed, znode)))
			znodes->pdata[n_open++] = znode;
	}
	g_ptr_array_set_size(znodes, (gint)n_open);
	return TRUE;
}

/* Leaves in @znodes those that it may close; adds to @closed those that it has. */
static gboolean close_all(const Walk *self, GPtrArray *znodes, GHashTable *closed, GError **error)
{
	guint n_left = 0;

	for (guint i = 0; i < znodes->len; i++)
		((CtlZnode *)znodes->pdata[i])->operation = CTL_ZNODE_CLOSE;
	if (!do_all(self, znodes, error))
		return FALSE;
	for (guint i = 0; i < znodes->len; i++) {
		CtlZnode *znode = znodes->pdata[i];

		if (znode->result == CTL_ZNODE_DENIED)
			note(self, znode, CTL_REGISTRY_SECURE_DENIED);
		else
			znodes->pdata[n_left++] = znode;
		if (znode->result == CTL_ZNODE_DONE)
			g_hash_table_add(closed, znode);
	}
	g_ptr_array_set_size(znodes, (gint)n_left);
	return TRUE;
}

/* Until all that came in is done. */
static gboolean sync_all(const Walk *self, GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();

	ctl_znode_list_add(znodes, CTL_ZNODE_SYNC, g_strdup(self->root));
	return do_all(self, znodes, error);
}

/* While an ACL is being set, ZooKeeper judges what comes in by the one before: so what was closed
 * is looked at once more, when all that came in meanwhile is done.
 * @level: of CtlZnode */
static gboolean settle(const Walk *self, const GPtrArray *level, GError **error)
{
	g_autoptr(GPtrArray) left = g_ptr_array_new();
	g_autoptr(GHashTable) closed = g_hash_table_new(NULL, NULL);

	g_ptr_array_extend(left, (GPtrArray *)level, NULL, NULL);
	for (int i = 0; i < MAX_ATTEMPTS; i++) {
		if (!look_at_all(self, left, closed, error))
			return FALSE;
		if (left->len == 0)
			return TRUE;
		if (!close_all(self, left, closed, error) || !sync_all(self, error))
			return FALSE;
	}
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "%s: somebody else set its ACL each of %d times",
		    left->len > 0 ? ((const CtlZnode *)left->pdata[0])->path : self->root,
		    MAX_ATTEMPTS);
	return FALSE;
}

/* From level to level */

static gboolean is_of_root(const char *name)
{
	return g_strv_contains(ZNODES_OF_ROOT, name);
}

static gboolean is_of_datacenter(const char *name)
{
	return g_strv_contains(ZNODES_OF_DATACENTER, name);
}

static gboolean is_number(const char *name)
{
	guint number;

	return znode_parse_number(name, G_MAXUINT, &number);
}

/* It is there, and this session may read it: what is open and cannot be closed, too. */
static gboolean may_list(const CtlZnode *znode)
{
	return znode->result == CTL_ZNODE_DONE ||
	       (znode->result == CTL_ZNODE_DENIED && znode->operation == CTL_ZNODE_CLOSE);
}

/* (transfer full) (nullable): what is to be looked at in those of @level that are called @name, or
 * in all of them (NULL). */
static GPtrArray *list_children(const Walk *self, const GPtrArray *level, const char *name,
				gboolean (*is_ours)(const char *name), GError **error)
{
	g_autoptr(GPtrArray) lists = ctl_znode_list_new();
	g_autoptr(GPtrArray) children = ctl_znode_list_new();

	for (guint i = 0; i < level->len; i++) {
		const CtlZnode *parent = level->pdata[i];

		if (may_list(parent) &&
		    (name == NULL || g_str_equal(strrchr(parent->path, '/') + 1, name)))
			ctl_znode_list_add(lists, CTL_ZNODE_LIST, g_strdup(parent->path));
	}
	if (!do_all(self, lists, error))
		return NULL;
	for (guint i = 0; i < lists->len; i++) {
		const CtlZnode *list = lists->pdata[i];

		for (char **child = list->names; child != NULL && *child != NULL; child++) {
			char *path = g_strconcat(list->path, "/", *child, NULL);

			if (is_ours(*child))
				ctl_znode_list_add(children, CTL_ZNODE_LOOK_ACL, path);
			else
				g_ptr_array_add(self->tree->strange, path);
		}
	}
	return g_steal_pointer(&children);
}

static char *address_of(const CtlZnode *claim)
{
	g_auto(ClaimRecord) record = {0};

	if (!claim_record_from_json(claim->data, (gsize)MAX(claim->length, 0), &record, NULL))
		return g_strdup(claim->path);
	return claim_record_address(&record);
}

/* Names the servers whose claims are open. */
static gboolean read_claims(const Walk *self, const GPtrArray *claims, GError **error)
{
	g_autoptr(GPtrArray) open = ctl_znode_list_new();

	if (!do_all(self, claims, error))
		return FALSE;
	for (guint i = 0; i < claims->len; i++) {
		const CtlZnode *claim = claims->pdata[i];

		if (claim->result == CTL_ZNODE_DONE && claim->is_open)
			ctl_znode_list_add(open, CTL_ZNODE_GET, g_strdup(claim->path));
	}
	if (!do_all(self, open, error))
		return FALSE;
	for (guint i = 0; i < open->len; i++) {
		const CtlZnode *claim = open->pdata[i];

		if (claim->result == CTL_ZNODE_DONE)
			g_ptr_array_add(self->tree->servers, address_of(claim));
	}
	return TRUE;
}

static gboolean walk_datacenters(const Walk *self, const GPtrArray *datacenters, GError **error)
{
	g_autoptr(GPtrArray) below = NULL;
	g_autoptr(GPtrArray) reservations = NULL;
	g_autoptr(GPtrArray) claims = NULL;

	if (!settle(self, datacenters, error))
		return FALSE;
	below = list_children(self, datacenters, NULL, is_of_datacenter, error);
	if (below == NULL || !settle(self, below, error))
		return FALSE;
	reservations = list_children(self, below, ZNODES_RESERVATIONS, is_number, error);
	if (reservations == NULL || !settle(self, reservations, error))
		return FALSE;
	claims = list_children(self, below, ZNODES_CLAIMS, znode_is_claim, error);
	return claims != NULL && read_claims(self, claims, error);
}

/* What has no layout is not the servers': nothing of it is to be closed. */
static gboolean is_registry(const Walk *self, GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();
	const CtlZnode *layout =
		ctl_znode_list_add(znodes, CTL_ZNODE_LOOK, znode_layout(self->root));

	if (!do_all(self, znodes, error))
		return FALSE;
	if (layout->result == CTL_ZNODE_DONE)
		return TRUE;
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "no layout at %s of ZooKeeper at %s: no server has registered there; is the "
		    "path in --zookeeper the servers'?",
		    self->root, ctl_zookeeper_servers(self->zookeeper));
	return FALSE;
}

static gboolean walk(const Walk *self, GError **error)
{
	g_autoptr(GPtrArray) top = ctl_znode_list_new();
	g_autoptr(GPtrArray) below = NULL;
	g_autoptr(GPtrArray) datacenters = NULL;

	ctl_znode_list_add(top, CTL_ZNODE_LOOK_ACL, g_strdup(self->root));
	if (!is_registry(self, error) || !settle(self, top, error))
		return FALSE;
	below = list_children(self, top, NULL, is_of_root, error);
	if (below == NULL || !settle(self, below, error))
		return FALSE;
	datacenters = list_children(self, below, ZNODES_DATACENTERS, is_number, error);
	return datacenters != NULL && walk_datacenters(self, datacenters, error);
}

CtlRegistrySecure *ctl_registry_secure_walk(CtlZookeeper *zookeeper, const char *root,
					    gboolean close, GError **error)
{
	g_autoptr(CtlRegistrySecure) tree = g_new0(CtlRegistrySecure, 1);
	const Walk self = {zookeeper, root, close, tree};

	tree->notable = g_ptr_array_new_with_free_func((GDestroyNotify)secure_znode_free);
	tree->strange = g_ptr_array_new_with_free_func(g_free);
	tree->servers = g_ptr_array_new_with_free_func(g_free);
	if (!walk(&self, error))
		return NULL;
	return g_steal_pointer(&tree);
}
