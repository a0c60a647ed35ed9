/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/ensemble.h"

#include <string.h>

#include "common/zookeeper/znodes.h"

/* The lag of a follower: usually short, sometimes long. */
#define LAG_MIN_US      100
#define LAG_MAX_US      MS(5)
#define LONG_LAG_MAX_US SECONDS(3)
#define LONG_LAG_ODDS   0.05
#define MAX_DENIALS     4

/* Immutable once it is in a tree, because trees share znodes. */
typedef struct {
	guint references;
	char *data;
	char *auth; /* the only session auth that may read and write; NULL if any session may */
	ZookeeperStat stat;
	guint64 changed; /* number of the last write of its data */
} Znode;

typedef struct {
	char *path;
	Znode *znode; /* NULL if the znode is deleted */
	guint64 number;
} Change;

typedef struct {
	GHashTable *tree;             /* path to Znode */
	GHashTable *children_changed; /* path to the number of a write */
	guint applied;                /* how many changes it has applied */
	guint64 number;               /* number of the last write that it has applied */
} Follower;

typedef struct {
	gint64 id;
	char *auth;
	gint64 timeout_us;
	gint64 last_contact_us;
	gboolean is_alive;
} Session;

typedef struct {
	char *prefix;
	ZookeeperOutcome outcome;
	gint64 until_us;
} Denial;

static struct {
	GHashTable *tree;      /* the leader's tree */
	GHashTable *sequences; /* path to the next sequence number below it */
	GHashTable *sessions;
	GPtrArray *changes;
	guint64 number; /* number of the last write */
	guint64 n_writes;
	Follower followers[ENSEMBLE_SERVERS];
	guint history; /* number of restores */
	gint64 ahead_ms;
	gboolean is_for_session; /* the current write is a session's request */
	gint64 last_session;
	Denial denials[MAX_DENIALS];
	struct {
		GHashTable *tree, *sequences, *children_changed, *sessions;
		guint64 number;
	} backup;
	gint64 (*last_contact_us)(gint64 session);
	void (*ended)(gint64 session);
	void (*applied)(guint server, const char *path, EnsembleChange change);
	void (*committed)(const char *path, const char *data);
} ensemble;

/* Znodes and trees */

static Znode *znode_ref(Znode *znode)
{
	znode->references++;
	return znode;
}

static void znode_unref(gpointer data)
{
	Znode *znode = data;

	if (--znode->references > 0)
		return;
	g_free(znode->data);
	g_free(znode->auth);
	g_free(znode);
}

static Znode *znode_copy(const Znode *from)
{
	Znode *znode = g_memdup2(from, sizeof(*from));

	znode->references = 1;
	znode->data = g_strdup(from->data);
	znode->auth = g_strdup(from->auth);
	return znode;
}

static GHashTable *tree_new(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, znode_unref);
}

static GHashTable *numbers_new(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

/* @from: path to Znode, or to a number */
static GHashTable *table_copy(GHashTable *from, gboolean has_znodes)
{
	GHashTable *copy = has_znodes ? tree_new() : numbers_new();
	GHashTableIter each;
	gpointer path, value;

	g_hash_table_iter_init(&each, from);
	while (g_hash_table_iter_next(&each, &path, &value))
		g_hash_table_insert(copy, g_strdup(path), has_znodes ? znode_ref(value) : value);
	return copy;
}

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == path ? g_strdup("/") : g_strndup(path, (gsize)(slash - path));
}

static gboolean is_below(const char *path, const char *prefix)
{
	gsize length = strlen(prefix);

	return strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static gint compare_texts(gconstpointer a, gconstpointer b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns: (transfer full): the paths of a tree at @prefix and below, in order. */
static GPtrArray *find_paths(GHashTable *tree, const char *prefix)
{
	GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);
	GHashTableIter each;
	gpointer path, znode;

	g_hash_table_iter_init(&each, tree);
	while (g_hash_table_iter_next(&each, &path, &znode))
		if (is_below(path, prefix))
			g_ptr_array_add(paths, g_strdup(path));
	g_ptr_array_sort(paths, compare_texts);
	return paths;
}

GPtrArray *ensemble_paths(const char *prefix)
{
	return find_paths(ensemble.tree, prefix);
}

/* Writes: the leader's tree changes at once, the trees of the followers later */

static void apply_next_change(guint server)
{
	Follower *follower = &ensemble.followers[server];
	const Change *change = ensemble.changes->pdata[follower->applied++];
	gboolean existed = g_hash_table_contains(follower->tree, change->path);

	follower->number = change->number;
	if (change->znode != NULL)
		g_hash_table_insert(follower->tree, g_strdup(change->path),
				    znode_ref(change->znode));
	else
		g_hash_table_remove(follower->tree, change->path);
	if (!existed || change->znode == NULL)
		g_hash_table_insert(follower->children_changed, parent_of(change->path),
				    GSIZE_TO_POINTER(change->number));
	if (!existed)
		g_hash_table_insert(follower->children_changed, g_strdup(change->path),
				    GSIZE_TO_POINTER(change->number));
	if (ensemble.applied != NULL)
		ensemble.applied(server, change->path,
				 change->znode == NULL ? ENSEMBLE_GONE
				 : existed             ? ENSEMBLE_CHANGED
						       : ENSEMBLE_MADE);
}

static void catch_up_follower(guint server)
{
	while (ensemble.followers[server].applied < ensemble.changes->len)
		apply_next_change(server);
}

static void on_lag_over(gpointer data, guint64 tag)
{
	guint server = GPOINTER_TO_UINT(data);
	guint history = (guint)(tag >> 32), until = (guint)tag;

	while (history == ensemble.history && ensemble.followers[server].applied < until)
		apply_next_change(server);
}

static void change_free(gpointer data)
{
	Change *change = data;

	g_free(change->path);
	g_clear_pointer(&change->znode, znode_unref);
	g_free(change);
}

/* @znode: (transfer full) (nullable) */
static void put_znode(const char *path, Znode *znode)
{
	Change *change = g_new(Change, 1);

	if (ensemble.is_for_session && ensemble.committed != NULL)
		ensemble.committed(path, znode != NULL ? znode->data : NULL);
	*change = (Change){g_strdup(path), znode, ensemble.number};
	g_ptr_array_add(ensemble.changes, change);
	if (znode != NULL)
		g_hash_table_insert(ensemble.tree, g_strdup(path), znode_ref(znode));
	else
		g_hash_table_remove(ensemble.tree, path);
}

/* Schedules the changes of a write for the followers. Call it after the last change. */
static void spread_write(void)
{
	ensemble.n_writes++;
	for (guint server = 0; server < ENSEMBLE_SERVERS; server++)
		world_after(world_odds(LONG_LAG_ODDS) ? world_between(LAG_MAX_US, LONG_LAG_MAX_US)
						      : world_between(LAG_MIN_US, LAG_MAX_US),
			    on_lag_over, GUINT_TO_POINTER(server),
			    (guint64)ensemble.history << 32 | ensemble.changes->len);
}

static guint next_sequence(const char *parent)
{
	return GPOINTER_TO_UINT(g_hash_table_lookup(ensemble.sequences, parent));
}

static void make_znode(const char *path, const char *data, const char *auth, gint64 owner_session)
{
	Znode *znode = g_new0(Znode, 1);
	char *parent = parent_of(path);
	guint sequence = next_sequence(parent);

	g_hash_table_insert(ensemble.sequences, parent, GUINT_TO_POINTER(sequence + 1));

	ensemble.number++;
	*znode = (Znode){
		.references = 1,
		.data = g_strdup(data),
		.auth = g_strdup(auth),
		.stat = {.created_order = (gint64)ensemble.number,
			 .created_ms = ensemble_now_ms(),
			 .modified_ms = ensemble_now_ms(),
			 .owner_session = owner_session},
		.changed = ensemble.number,
	};
	put_znode(path, znode);
}

static void set_znode(const char *path, const char *data)
{
	Znode *znode = znode_copy(g_hash_table_lookup(ensemble.tree, path));

	g_free(znode->data);
	znode->data = g_strdup(data);
	znode->stat.version = (gint32)((guint32)znode->stat.version + 1);
	znode->stat.modified_ms = ensemble_now_ms();
	znode->changed = ++ensemble.number;
	put_znode(path, znode);
}

static void delete_znode(const char *path)
{
	ensemble.number++;
	g_hash_table_remove(ensemble.sequences, path);
	put_znode(path, NULL);
}

/* Sessions */

static void session_free(gpointer data)
{
	Session *session = data;

	g_free(session->auth);
	g_free(session);
}

static Session *find_session(gint64 id)
{
	return g_hash_table_lookup(ensemble.sessions, &id);
}

static void end_session(Session *session)
{
	g_autoptr(GPtrArray) paths = find_paths(ensemble.tree, "");

	session->is_alive = FALSE;
	for (guint i = 0; i < paths->len; i++) {
		const Znode *znode = g_hash_table_lookup(ensemble.tree, paths->pdata[i]);

		if (znode->stat.owner_session == session->id)
			delete_znode(paths->pdata[i]);
	}
	spread_write();
	if (ensemble.ended != NULL)
		ensemble.ended(session->id);
}

static void on_expiry(gpointer data G_GNUC_UNUSED, guint64 tag)
{
	Session *session = find_session((gint64)tag);

	if (session == NULL || !session->is_alive)
		return;
	session->last_contact_us =
		MAX(session->last_contact_us, ensemble.last_contact_us(session->id));
	if (world_now_us() >= session->last_contact_us + session->timeout_us) {
		world_note(NULL, "session %" G_GINT64_FORMAT " expires", session->id);
		end_session(session);
	} else {
		world_at(session->last_contact_us + session->timeout_us, on_expiry, NULL, tag);
	}
}

gint64 ensemble_open_session(const char *auth, gint64 timeout_ms)
{
	Session *session = g_new(Session, 1);

	*session = (Session){
		.id = ++ensemble.last_session,
		.auth = g_strdup(auth),
		.timeout_us = MS(timeout_ms),
		.last_contact_us = world_now_us(),
		.is_alive = TRUE,
	};
	g_hash_table_insert(ensemble.sessions, &session->id, session);
	world_after(session->timeout_us, on_expiry, NULL, (guint64)session->id);
	return session->id;
}

gboolean ensemble_is_session_alive(gint64 id)
{
	const Session *session = find_session(id);

	return session != NULL && session->is_alive;
}

void ensemble_expire_session(gint64 id)
{
	if (ensemble_is_session_alive(id))
		end_session(find_session(id));
}

void ensemble_set_clients(gint64 (*last_contact_us)(gint64 session), void (*ended)(gint64 session))
{
	ensemble.last_contact_us = last_contact_us;
	ensemble.ended = ended;
}

/* Requests */

static ZookeeperOutcome find_denial(const char *path, gboolean is_write)
{
	for (guint i = 0; i < MAX_DENIALS; i++) {
		const Denial *denial = &ensemble.denials[i];

		if (denial->prefix != NULL && world_now_us() < denial->until_us &&
		    is_below(path, denial->prefix) &&
		    (is_write || denial->outcome == ZOOKEEPER_NO_AUTH))
			return denial->outcome;
	}
	return ZOOKEEPER_OK;
}

/* Returns whether a session may read and write @path, or there is no such znode. */
static gboolean may_access(const Session *session, const char *path)
{
	const Znode *znode = g_hash_table_lookup(ensemble.tree, path);

	if (znode == NULL || znode->auth == NULL)
		return TRUE;
	return g_strcmp0(znode->auth, session->auth) == 0;
}

/* Returns whether there is a znode after the first @n_before of @writes, and its version then. */
static gboolean find_version(const char *path, const ZookeeperWrite *writes, guint n_before,
			     gint32 *out_version)
{
	const Znode *znode = g_hash_table_lookup(ensemble.tree, path);
	gboolean exists = znode != NULL;

	*out_version = exists ? znode->stat.version : 0;
	for (guint i = 0; i < n_before; i++) {
		if (!g_str_equal(writes[i].path, path))
			continue;
		exists = exists || writes[i].type == ZOOKEEPER_CREATE;
		*out_version += writes[i].type == ZOOKEEPER_SET;
	}
	return exists;
}

static ZookeeperOutcome try_create(const Session *session, const ZookeeperWrite *writes, guint i)
{
	g_autofree char *parent = parent_of(writes[i].path);
	const Znode *above = g_hash_table_lookup(ensemble.tree, parent);
	gint32 version;

	if (!find_version(parent, writes, i, &version))
		return ZOOKEEPER_NO_NODE;
	if (!may_access(session, parent))
		return ZOOKEEPER_NO_AUTH;
	if (find_version(writes[i].path, writes, i, &version))
		return ZOOKEEPER_NODE_EXISTS;
	return above != NULL && above->stat.owner_session != 0 ? ZOOKEEPER_REFUSED : ZOOKEEPER_OK;
}

/* Checks write @i of a transaction, after the writes before it. */
static ZookeeperOutcome try_write(const Session *session, const ZookeeperWrite *writes, guint i)
{
	const ZookeeperWrite *write = &writes[i];
	ZookeeperOutcome denial = find_denial(write->path, write->type != ZOOKEEPER_CHECK);
	gint32 version;

	if (denial != ZOOKEEPER_OK)
		return denial;
	if (write->type == ZOOKEEPER_CREATE)
		return try_create(session, writes, i);
	if (!find_version(write->path, writes, i, &version))
		return ZOOKEEPER_NO_NODE;
	if (!may_access(session, write->path))
		return ZOOKEEPER_NO_AUTH;
	return write->version >= 0 && write->version != version ? ZOOKEEPER_BAD_VERSION
								: ZOOKEEPER_OK;
}

static void execute_commit(const Session *session, const EnsembleRequest *request,
			   ZookeeperMessage *reply)
{
	for (guint i = 0; i < request->n_writes; i++) {
		reply->failed = i;
		reply->outcome = try_write(session, request->writes, i);
		if (reply->outcome != ZOOKEEPER_OK)
			return;
	}
	reply->failed = 0;
	for (guint i = 0; i < request->n_writes; i++) {
		const ZookeeperWrite *write = &request->writes[i];

		if (write->type == ZOOKEEPER_CREATE)
			make_znode(write->path, write->data, session->auth, 0);
		else if (write->type == ZOOKEEPER_SET)
			set_znode(write->path, write->data);
		if (write->type == ZOOKEEPER_SET)
			reply->stat =
				((const Znode *)g_hash_table_lookup(ensemble.tree, write->path))
					->stat;
	}
}

static void execute_create(const Session *session, const EnsembleRequest *request,
			   ZookeeperMessage *reply)
{
	gboolean is_ephemeral = request->operation == ENSEMBLE_CREATE_EPHEMERAL;
	g_autofree char *parent = parent_of(request->path);
	g_autofree char *path =
		is_ephemeral ? g_strdup_printf("%s%010u", request->path, next_sequence(parent))
			     : g_strdup(request->path);
	const ZookeeperWrite write = {.type = ZOOKEEPER_CREATE, .path = path};

	reply->outcome = try_write(session, &write, 0);
	if (reply->outcome != ZOOKEEPER_OK)
		return;
	make_znode(path, request->data, session->auth, is_ephemeral ? session->id : 0);
	reply->path = g_strdup(path);
	reply->stat = ((const Znode *)g_hash_table_lookup(ensemble.tree, path))->stat;
}

static gboolean has_children(const char *path)
{
	g_autoptr(GPtrArray) paths = find_paths(ensemble.tree, path);

	return paths->len > 1;
}

/* The ACL of the parent decides who may delete a znode. */
static void execute_delete(const Session *session, const EnsembleRequest *request,
			   ZookeeperMessage *reply)
{
	g_autofree char *parent = parent_of(request->path);

	reply->outcome = find_denial(request->path, FALSE);
	if (reply->outcome != ZOOKEEPER_OK)
		return;
	if (!g_hash_table_contains(ensemble.tree, request->path))
		reply->outcome = ZOOKEEPER_NO_NODE;
	else if (!may_access(session, parent))
		reply->outcome = ZOOKEEPER_NO_AUTH;
	else if (has_children(request->path))
		reply->outcome = ZOOKEEPER_REFUSED;
	else
		delete_znode(request->path);
}

static void list_children(GHashTable *tree, const EnsembleRequest *request, ZookeeperMessage *reply)
{
	g_autoptr(GPtrArray) paths = find_paths(tree, request->path);
	GPtrArray *names = g_ptr_array_new();
	gsize skipped = strlen(request->path) + 1;

	for (guint i = 0; i < paths->len; i++) {
		const char *path = paths->pdata[i];

		if (strlen(path) > skipped && strchr(path + skipped, '/') == NULL)
			g_ptr_array_add(names, g_strdup(path + skipped));
	}
	g_ptr_array_add(names, NULL);
	reply->children = (GStrv)g_ptr_array_free(names, FALSE);
}

static void execute_read(const Session *session, guint server, const EnsembleRequest *request,
			 ZookeeperMessage *reply)
{
	GHashTable *tree = ensemble.followers[server].tree;
	const Znode *znode = g_hash_table_lookup(tree, request->path);

	reply->outcome = find_denial(request->path, FALSE);
	if (reply->outcome != ZOOKEEPER_OK)
		return;
	if (znode == NULL) {
		reply->outcome = ZOOKEEPER_NO_NODE;
		return;
	}
	if (znode->auth != NULL && g_strcmp0(znode->auth, session->auth) != 0 &&
	    request->operation != ENSEMBLE_EXISTS) {
		reply->outcome = ZOOKEEPER_NO_AUTH;
		return;
	}
	reply->stat = znode->stat;
	reply->open = znode->auth == NULL;
	if (request->operation == ENSEMBLE_GET) {
		reply->data = g_strdup(znode->data);
		reply->length = strlen(znode->data);
	} else if (request->operation == ENSEMBLE_CHILDREN) {
		list_children(tree, request, reply);
	}
}

ZookeeperMessage *ensemble_execute(guint server, gint64 id, const EnsembleRequest *request)
{
	Session *session = find_session(id);
	g_autoptr(ZookeeperMessage) reply = g_new0(ZookeeperMessage, 1);

	if (session == NULL || !session->is_alive)
		return NULL;
	reply->type = ZOOKEEPER_REPLY;
	reply->reason = "simulated";
	ensemble.is_for_session = TRUE;
	switch (request->operation) {
	case ENSEMBLE_GET:
	case ENSEMBLE_EXISTS:
	case ENSEMBLE_CHILDREN:
	case ENSEMBLE_GET_ACL:
		execute_read(session, server, request, reply);
		ensemble.is_for_session = FALSE;
		return g_steal_pointer(&reply);
	case ENSEMBLE_SYNC:
		break;
	case ENSEMBLE_CREATE:
	case ENSEMBLE_CREATE_EPHEMERAL:
		execute_create(session, request, reply);
		break;
	case ENSEMBLE_DELETE:
		execute_delete(session, request, reply);
		break;
	case ENSEMBLE_COMMIT:
		execute_commit(session, request, reply);
		break;
	case ENSEMBLE_CLOSE:
		end_session(session);
		break;
	}
	ensemble.is_for_session = FALSE;
	/* end_session() has already propagated the end of the session */
	if (request->operation != ENSEMBLE_SYNC && request->operation != ENSEMBLE_CLOSE)
		spread_write();
	catch_up_follower(server); /* a client sees its own writes */
	return g_steal_pointer(&reply);
}

void ensemble_request_clear(EnsembleRequest *request)
{
	g_clear_pointer(&request->path, g_free);
	g_clear_pointer(&request->data, g_free);
	for (guint i = 0; i < request->n_writes; i++) {
		g_free((char *)request->writes[i].path);
		g_free((char *)request->writes[i].data);
	}
	request->n_writes = 0;
}

guint64 ensemble_applied(guint server)
{
	return ensemble.followers[server].number;
}

void ensemble_set_applied(void (*applied)(guint server, const char *path, EnsembleChange change))
{
	ensemble.applied = applied;
}

gboolean ensemble_find(guint server, const char *path, guint64 *out_changed,
		       guint64 *out_children_changed)
{
	const Znode *znode = g_hash_table_lookup(ensemble.followers[server].tree, path);

	if (znode == NULL)
		return FALSE;
	*out_changed = znode->changed;
	*out_children_changed = GPOINTER_TO_SIZE(
		g_hash_table_lookup(ensemble.followers[server].children_changed, path));
	return TRUE;
}

/* Faults, and actions of operators */

gint64 ensemble_now_ms(void)
{
	return world_true_ms() + ensemble.ahead_ms;
}

void ensemble_set_clock(gint64 ahead_ms)
{
	world_note(NULL, "ZooKeeper's clock is %" G_GINT64_FORMAT " ms ahead", ahead_ms);
	ensemble.ahead_ms = ahead_ms;
}

const char *ensemble_read(const char *path)
{
	const Znode *znode = g_hash_table_lookup(ensemble.tree, path);

	return znode != NULL ? znode->data : NULL;
}

void ensemble_write(const char *path, const char *data)
{
	g_autoptr(GPtrArray) parents = znode_parents(path);

	for (guint i = 0; i < parents->len; i++)
		if (ensemble_read(parents->pdata[i]) == NULL)
			make_znode(parents->pdata[i], "", NULL, 0);
	if (ensemble_read(path) == NULL)
		make_znode(path, data, NULL, 0);
	else
		set_znode(path, data);
	spread_write();
}

void ensemble_delete(const char *path)
{
	g_autoptr(GPtrArray) paths = find_paths(ensemble.tree, path);

	for (guint i = paths->len; i > 0; i--)
		delete_znode(paths->pdata[i - 1]);
	spread_write();
}

void ensemble_delete_claims(gdouble probability)
{
	g_autoptr(GPtrArray) paths = find_paths(ensemble.tree, "");

	for (guint i = 0; i < paths->len; i++) {
		const Znode *znode = g_hash_table_lookup(ensemble.tree, paths->pdata[i]);

		if (znode->stat.owner_session != 0 && world_odds(probability))
			delete_znode(paths->pdata[i]);
	}
	spread_write();
}

void ensemble_deny(const char *prefix, ZookeeperOutcome outcome, gint64 until_us)
{
	Denial *denial = &ensemble.denials[world_between(0, MAX_DENIALS - 1)];

	g_free(denial->prefix);
	*denial = (Denial){g_strdup(prefix), outcome, until_us};
}

static GHashTable *sessions_new(void)
{
	return g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, session_free);
}

/* Copies sessions with their state: a session that was alive at a backup is alive again. */
static GHashTable *sessions_copy(GHashTable *from)
{
	GHashTable *sessions = sessions_new();
	GHashTableIter each;
	gpointer id, data;

	g_hash_table_iter_init(&each, from);
	while (g_hash_table_iter_next(&each, &id, &data)) {
		Session *session = g_memdup2(data, sizeof(Session));

		session->auth = g_strdup(session->auth);
		g_hash_table_insert(sessions, &session->id, session);
	}
	return sessions;
}

static void drop_backup(void)
{
	g_clear_pointer(&ensemble.backup.tree, g_hash_table_unref);
	g_clear_pointer(&ensemble.backup.sequences, g_hash_table_unref);
	g_clear_pointer(&ensemble.backup.children_changed, g_hash_table_unref);
	g_clear_pointer(&ensemble.backup.sessions, g_hash_table_unref);
}

void ensemble_back_up(void)
{
	drop_backup();
	catch_up_follower(0);
	ensemble.backup.tree = table_copy(ensemble.tree, TRUE);
	ensemble.backup.sequences = table_copy(ensemble.sequences, FALSE);
	ensemble.backup.children_changed =
		table_copy(ensemble.followers[0].children_changed, FALSE);
	ensemble.backup.sessions = sessions_copy(ensemble.sessions);
	ensemble.backup.number = ensemble.number;
}

gboolean ensemble_has_backup(void)
{
	return ensemble.backup.tree != NULL;
}

static void renew_followers(GHashTable *children_changed)
{
	for (guint server = 0; server < ENSEMBLE_SERVERS; server++) {
		Follower *follower = &ensemble.followers[server];

		g_clear_pointer(&follower->tree, g_hash_table_unref);
		g_clear_pointer(&follower->children_changed, g_hash_table_unref);
		*follower = (Follower){
			.tree = table_copy(ensemble.tree, TRUE),
			.children_changed = table_copy(children_changed, FALSE),
			.number = ensemble.number,
		};
	}
}

void ensemble_restore(void)
{
	GHashTableIter each;
	gpointer id, session;

	g_hash_table_unref(ensemble.tree);
	g_hash_table_unref(ensemble.sequences);
	g_hash_table_unref(ensemble.sessions);
	ensemble.tree = table_copy(ensemble.backup.tree, TRUE);
	ensemble.sequences = table_copy(ensemble.backup.sequences, FALSE);
	ensemble.sessions = sessions_copy(ensemble.backup.sessions);
	/* otherwise elections have raised the number, and clients that have seen higher numbers can
	 * connect */
	if (world_odds(0.7))
		ensemble.number = ensemble.backup.number;
	ensemble.history++;
	g_ptr_array_set_size(ensemble.changes, 0);
	renew_followers(ensemble.backup.children_changed);
	g_hash_table_iter_init(&each, ensemble.sessions);
	while (g_hash_table_iter_next(&each, &id, &session)) {
		((Session *)session)->last_contact_us = world_now_us();
		world_after(((Session *)session)->timeout_us, on_expiry, NULL,
			    (guint64)((Session *)session)->id);
	}
}

void ensemble_set_committed(void (*committed)(const char *path, const char *data))
{
	ensemble.committed = committed;
}

guint64 ensemble_n_writes(void)
{
	return ensemble.n_writes;
}

void ensemble_init(void)
{
	memset(&ensemble, 0, sizeof(ensemble));
	ensemble.tree = tree_new();
	ensemble.sequences = numbers_new();
	ensemble.sessions = sessions_new();
	ensemble.changes = g_ptr_array_new_with_free_func(change_free);
	make_znode("/", "", NULL, 0);
	g_ptr_array_set_size(ensemble.changes, 0);
	renew_followers(ensemble.sequences); /* sequence of the root: 1, the number of its write */
}

void ensemble_clear(void)
{
	for (guint server = 0; server < ENSEMBLE_SERVERS; server++) {
		g_hash_table_unref(ensemble.followers[server].tree);
		g_hash_table_unref(ensemble.followers[server].children_changed);
	}
	for (guint i = 0; i < MAX_DENIALS; i++)
		g_free(ensemble.denials[i].prefix);
	drop_backup();
	g_ptr_array_unref(ensemble.changes);
	g_hash_table_unref(ensemble.sessions);
	g_hash_table_unref(ensemble.sequences);
	g_hash_table_unref(ensemble.tree);
}
