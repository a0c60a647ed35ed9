/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/zookeeper.h"

#include <string.h>
#include <time.h>

#include "common/zookeeper/handle.h"
#include "common/zookeeper/znodes.h"
#include "ctl/zookeeper-private.h"

#define SESSION_MS 4000 /* what is asked for; ZooKeeper may grant another */

G_DEFINE_QUARK(ctl_zookeeper_error_quark, ctl_zookeeper_error)

static void znode_free(CtlZnode *self)
{
	g_free(self->path);
	g_free(self->data);
	g_strfreev(self->names);
	g_free(self);
}

GPtrArray *ctl_znode_list_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)znode_free);
}

CtlZnode *ctl_znode_list_add(GPtrArray *self, CtlZnodeOperation operation, char *path)
{
	CtlZnode *znode = g_new0(CtlZnode, 1);

	znode->operation = operation;
	znode->path = path;
	znode->length = -1;
	znode->may_be_denied = operation == CTL_ZNODE_LOOK_ACL || operation == CTL_ZNODE_CLOSE;
	g_ptr_array_add(self, znode);
	return znode;
}

/* Threads of the client library. */

static void on_session(CtlZookeeper *self, int state)
{
	/* what was changed while there was no connection */
	if (state == ZOO_CONNECTED_STATE)
		self->changes++;
	self->state = state;
}

void ctl_zookeeper_on_event(G_GNUC_UNUSED zhandle_t *handle, int type, int state,
			    G_GNUC_UNUSED const char *path, void *context)
{
	CtlZookeeper *self = context;

	pthread_mutex_lock(&self->lock);
	if (type == ZOO_SESSION_EVENT)
		on_session(self, state);
	else
		self->changes++;
	pthread_cond_signal(&self->woken);
	pthread_mutex_unlock(&self->lock);
}

static void on_answer(CtlZnode *znode, int code, const struct Stat *stat)
{
	CtlZookeeper *self = znode->in_session;

	pthread_mutex_lock(&self->lock);
	znode->code = code;
	if (code == ZOK && stat != NULL) {
		znode->version = stat->version;
		znode->acl_version = stat->aversion;
		znode->created_at_ms = stat->ctime;
		znode->modified_at_ms = stat->mtime;
	}
	self->unanswered--;
	pthread_cond_signal(&self->woken);
	pthread_mutex_unlock(&self->lock);
}

static void on_data(int code, const char *value, int length, const struct Stat *stat,
		    const void *context)
{
	CtlZnode *znode = (CtlZnode *)context;

	if (code == ZOK && !znode_data_make_sense(length, value)) {
		code = ZMARSHALLINGERROR;
	} else if (code == ZOK) {
		znode->data = length > 0 ? g_strndup(value, (gsize)length) : g_strdup("");
		/* g_strndup() stops at a NUL, which is there to be seen */
		if (length > 0)
			memcpy(znode->data, value, (gsize)length);
		znode->length = length;
	}
	on_answer(znode, code, stat);
}

static void on_names(int code, const struct String_vector *names, const void *context)
{
	CtlZnode *znode = (CtlZnode *)context;

	if (code == ZOK && !znode_names_make_sense(names->count, names->data)) {
		code = ZMARSHALLINGERROR;
	} else if (code == ZOK) {
		znode->names = g_new0(char *, (gsize)names->count + 1);
		for (int i = 0; i < names->count; i++)
			znode->names[i] = g_strdup(names->data[i]);
	}
	on_answer(znode, code, NULL);
}

static void on_stat(int code, const struct Stat *stat, const void *context)
{
	on_answer((CtlZnode *)context, code, stat);
}

static void on_created(int code, G_GNUC_UNUSED const char *path, const struct Stat *stat,
		       const void *context)
{
	on_answer((CtlZnode *)context, code, stat);
}

static void take_acl(CtlZookeeper *self, const struct ACL_vector *acl)
{
	deallocate_ACL_vector(&self->acl);
	allocate_ACL_vector(&self->acl, acl->count);
	for (int i = 0; i < acl->count; i++) {
		self->acl.data[i].perms = acl->data[i].perms;
		/* the client library frees them */
		self->acl.data[i].id.scheme = strdup(acl->data[i].id.scheme);
		self->acl.data[i].id.id = strdup(acl->data[i].id.id);
	}
}

static void on_acl(int code, struct ACL_vector *acl, struct Stat *stat, const void *context)
{
	CtlZnode *znode = (CtlZnode *)context;
	CtlZookeeper *self = znode->in_session;

	if (code == ZOK) {
		pthread_mutex_lock(&self->lock);
		take_acl(self, acl);
		pthread_mutex_unlock(&self->lock);
	}
	on_answer(znode, code, stat);
}

static void on_looked_acl(int code, struct ACL_vector *acl, struct Stat *stat, const void *context)
{
	CtlZnode *znode = (CtlZnode *)context;
	const CtlZookeeper *self = znode->in_session;

	znode->is_open = FALSE;
	znode->is_ours = FALSE;
	for (int i = 0; code == ZOK && i < acl->count; i++) {
		const struct ACL *entry = &acl->data[i];

		if (znode_acl_is_open(entry->id.scheme, entry->perms))
			znode->is_open = TRUE;
		if (self->identity != NULL &&
		    znode_acl_is_of(entry->id.scheme, entry->id.id, entry->perms, self->identity))
			znode->is_ours = TRUE;
	}
	on_answer(znode, code, stat);
}

static void on_done(int code, const void *context)
{
	on_answer((CtlZnode *)context, code, NULL);
}

static void on_synced(int code, G_GNUC_UNUSED const char *path, const void *context)
{
	on_answer((CtlZnode *)context, code, NULL);
}

/* The thread of the owner. */

struct timespec ctl_zookeeper_deadline(guint milliseconds)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += milliseconds / 1000;
	at.tv_nsec += (long)(milliseconds % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

gboolean ctl_zookeeper_wait_until(CtlZookeeper *self, const struct timespec *deadline)
{
	return pthread_cond_timedwait(&self->woken, &self->lock, deadline) == 0;
}

static void give_up(CtlZookeeper *self)
{
	gboolean may_be_stuck;

	pthread_mutex_lock(&self->lock);
	may_be_stuck = self->certificates != NULL && self->state != ZOO_CONNECTED_STATE;
	pthread_mutex_unlock(&self->lock);
	/* in a handshake that the server leaves unanswered it would wait for ever: the process ends
	 * soon */
	if (self->handle != NULL && may_be_stuck)
		self->is_left = TRUE;
	else if (self->handle != NULL)
		zookeeper_close(self->handle);
	self->handle = NULL;
}

gboolean ctl_zookeeper_lose(CtlZookeeper *self, GError **error, const char *what)
{
	give_up(self);
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST, "ZooKeeper at %s: %s",
		    self->servers, what);
	return FALSE;
}

static gboolean wait_connected(CtlZookeeper *self, GError **error)
{
	struct timespec deadline = ctl_zookeeper_deadline(self->timeout_ms);
	gboolean in_time = TRUE;

	pthread_mutex_lock(&self->lock);
	while (self->state != ZOO_CONNECTED_STATE && in_time)
		in_time = ctl_zookeeper_wait_until(self, &deadline);

	gboolean connected = self->state == ZOO_CONNECTED_STATE;

	pthread_mutex_unlock(&self->lock);
	if (connected)
		return TRUE;

	/* a name that cannot be looked up may take as long as that again */
	g_autofree char *why = zookeeper_handle_describe_trouble(self->servers, self->certificates);
	g_autofree char *what = g_strdup_printf("no connection within %u ms%s%s", self->timeout_ms,
						why != NULL ? ": " : "", why != NULL ? why : "");

	return ctl_zookeeper_lose(self, error, what);
}

static CtlZookeeper *new_without_handle(const ZookeeperHosts *hosts, guint timeout_ms)
{
	CtlZookeeper *self = g_new0(CtlZookeeper, 1);
	pthread_condattr_t attributes;

	self->servers = g_strdup(hosts->servers);
	g_assert(!hosts->is_tls || hosts->certificates != NULL); /* or it would speak without */
	self->certificates = g_strdup(hosts->certificates);
	self->timeout_ms = timeout_ms;
	pthread_mutex_init(&self->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&self->woken, &attributes);
	pthread_condattr_destroy(&attributes);
	return self;
}

gboolean ctl_zookeeper_add_auth(CtlZookeeper *self, const char *auth, const char *option,
				GError **error)
{
	g_autofree char *failure = NULL;

	if (self->handle != NULL &&
	    zookeeper_handle_add_digest(self->handle, auth, option, &failure))
		return TRUE;
	return ctl_zookeeper_lose(
		self, error,
		failure != NULL ? failure : "no connection to send the user and password over");
}

CtlZookeeper *ctl_zookeeper_connect(const ZookeeperHosts *hosts, const char *auth, guint timeout_ms,
				    GError **error)
{
	g_autoptr(CtlZookeeper) self = new_without_handle(hosts, timeout_ms);

	/* it would write to standard error */
	zoo_set_debug_level((ZooLogLevel)0);
	self->handle = zookeeper_handle_open(self->servers, self->certificates,
					     ctl_zookeeper_on_event, SESSION_MS, self);
	if (self->handle == NULL) {
		ctl_zookeeper_lose(self, error, "the name of none of them can be looked up");
		return NULL;
	}
	self->identity = auth != NULL ? znode_acl_identity(auth) : NULL;
	/* in this order: see zookeeper_handle_add_digest() */
	if (!wait_connected(self, error) ||
	    (auth != NULL && !ctl_zookeeper_add_auth(self, auth, "--zookeeper-auth", error)))
		return NULL;
	pthread_mutex_lock(&self->lock);
	self->changes = 0;
	pthread_mutex_unlock(&self->lock);
	return g_steal_pointer(&self);
}

void ctl_zookeeper_free(CtlZookeeper *self)
{
	if (self == NULL)
		return;
	give_up(self);
	if (self->is_left) /* to the threads of the client library */
		return;
	pthread_cond_destroy(&self->woken);
	pthread_mutex_destroy(&self->lock);
	deallocate_ACL_vector(&self->acl);
	g_free(self->identity);
	g_free(self->certificates);
	g_free(self->servers);
	g_free(self);
}

const char *ctl_zookeeper_servers(const CtlZookeeper *self)
{
	return self->servers;
}

static int send_close(CtlZookeeper *self, CtlZnode *znode)
{
	struct ACL ours = {ZOO_PERM_ALL, {(char *)"digest", self->identity}};
	struct ACL_vector acl = {1, &ours};

	if (self->identity == NULL)
		return ZINVALIDACL;
	return zoo_aset_acl(self->handle, znode->path, znode->acl_version, &acl, on_done, znode);
}

static int send_request(CtlZookeeper *self, CtlZnode *znode, watcher_fn watcher)
{
	switch (znode->operation) {
	case CTL_ZNODE_GET:
		return zoo_awget(self->handle, znode->path, watcher, self, on_data, znode);
	case CTL_ZNODE_LIST:
		return zoo_awget_children(self->handle, znode->path, watcher, self, on_names,
					  znode);
	case CTL_ZNODE_SET:
		return zoo_aset(self->handle, znode->path, znode->data, znode->length,
				znode->version, on_stat, znode);
	case CTL_ZNODE_CREATE:
		return zoo_acreate2(self->handle, znode->path, znode->data, znode->length,
				    &self->acl, 0, on_created, znode);
	case CTL_ZNODE_LOOK:
		return zoo_awexists(self->handle, znode->path, watcher, self, on_stat, znode);
	case CTL_ZNODE_TAKE_ACL:
		return zoo_aget_acl(self->handle, znode->path, on_acl, znode);
	case CTL_ZNODE_LOOK_ACL:
		return zoo_aget_acl(self->handle, znode->path, on_looked_acl, znode);
	case CTL_ZNODE_SYNC:
		return zoo_async(self->handle, znode->path, on_synced, znode);
	case CTL_ZNODE_CLOSE:
		return send_close(self, znode);
	}
	return ZBADARGUMENTS;
}

/* %FALSE: nothing was answered for too long. */
static gboolean wait_answers(CtlZookeeper *self)
{
	struct timespec deadline = ctl_zookeeper_deadline(self->timeout_ms);
	gboolean in_time = TRUE;

	pthread_mutex_lock(&self->lock);

	guint unanswered = self->unanswered;

	while (self->unanswered > 0 && in_time) {
		if (self->unanswered < unanswered)
			deadline = ctl_zookeeper_deadline(self->timeout_ms);
		unanswered = self->unanswered;
		in_time =
			ctl_zookeeper_wait_until(self, &deadline) || self->unanswered < unanswered;
	}
	pthread_mutex_unlock(&self->lock);
	return in_time;
}

static gboolean refuse(const CtlZookeeper *self, const CtlZnode *znode, GError **error)
{
	if (znode->code == ZMARSHALLINGERROR)
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "ZooKeeper at %s: %s: its answer makes no sense", self->servers,
			    znode->path);
	else if (znode->code != ZNOAUTH)
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "ZooKeeper at %s: %s: %s", self->servers, znode->path,
			    zerror(znode->code));
	else if (self->identity != NULL)
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "not allowed at %s: the user and password of --zookeeper-auth are not "
			    "those that the servers have",
			    znode->path);
	else
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "not allowed at %s without the servers' user and password; see "
			    "--zookeeper-auth",
			    znode->path);
	return FALSE;
}

static gboolean conclude(CtlZookeeper *self, CtlZnode *znode, GError **error)
{
	if (znode->code == ZNOAUTH && znode->may_be_denied) {
		znode->result = CTL_ZNODE_DENIED;
		return TRUE;
	}
	switch (znode->code) {
	case ZOK:
		znode->result = CTL_ZNODE_DONE;
		return TRUE;
	case ZNONODE:
		znode->result = CTL_ZNODE_MISSING;
		return TRUE;
	case ZBADVERSION:
	case ZNODEEXISTS:
		znode->result = CTL_ZNODE_CONFLICT;
		return TRUE;
	case ZCONNECTIONLOSS:
	case ZOPERATIONTIMEOUT:
	case ZSESSIONEXPIRED:
	case ZSESSIONMOVED:
	case ZINVALIDSTATE:
		return ctl_zookeeper_lose(self, error, "the connection is lost");
	default:
		return refuse(self, znode, error);
	}
}

gboolean ctl_zookeeper_request(CtlZookeeper *self, const GPtrArray *znodes, watcher_fn watcher,
			       GError **error)
{
	if (self->handle == NULL)
		return ctl_zookeeper_lose(self, error, "the connection was lost");
	pthread_mutex_lock(&self->lock);
	self->unanswered = znodes->len;
	pthread_mutex_unlock(&self->lock);
	for (guint i = 0; i < znodes->len; i++) {
		CtlZnode *znode = znodes->pdata[i];

		znode->in_session = self;

		int code = send_request(self, znode, watcher);

		if (code != ZOK)
			on_answer(znode, code, NULL);
	}
	if (!wait_answers(self)) {
		g_autofree char *what = g_strdup_printf("no answer within %u ms", self->timeout_ms);

		return ctl_zookeeper_lose(self, error, what);
	}
	for (guint i = 0; i < znodes->len; i++) {
		if (!conclude(self, znodes->pdata[i], error))
			return FALSE;
	}
	return TRUE;
}

gboolean ctl_zookeeper_do(CtlZookeeper *self, const GPtrArray *znodes, GError **error)
{
	return ctl_zookeeper_request(self, znodes, NULL, error);
}
