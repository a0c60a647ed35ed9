/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/zookeeper.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/zookeeper/handle.h"
#include "common/zookeeper/znodes.h"

#define SESSION_MS 4000 /* what is asked for; ZooKeeper may grant another */

struct _CtlZookeeper {
	zhandle_t *handle; /* NULL: given up */
	char *servers;
	char *certificates; /* (nullable): of ZookeeperHosts */
	gboolean has_auth;  /* it was made with a user and password */
	guint timeout_ms;
	gboolean is_left; /* the client library's threads were left behind, and use it */

	/* written by the client library's threads, under the lock */
	pthread_mutex_t lock;
	pthread_cond_t woken;
	int state;
	guint unanswered;
	struct ACL_vector acl; /* for CREATE; empty: ZooKeeper refuses it */
};

G_DEFINE_QUARK(ctl_zookeeper_error_quark, ctl_zookeeper_error)

gboolean ctl_zookeeper_is_lost(const GError *error)
{
	return g_error_matches(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST);
}

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
	g_ptr_array_add(self, znode);
	return znode;
}

/* Threads of the client library. */

static void on_event(G_GNUC_UNUSED zhandle_t *handle, int type, int state,
		     G_GNUC_UNUSED const char *path, void *context)
{
	CtlZookeeper *self = context;

	pthread_mutex_lock(&self->lock);
	if (type == ZOO_SESSION_EVENT)
		self->state = state;
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

static void on_acl(int code, struct ACL_vector *acl, struct Stat *stat, const void *context)
{
	CtlZnode *znode = (CtlZnode *)context;
	CtlZookeeper *self = znode->in_session;

	if (code == ZOK) {
		pthread_mutex_lock(&self->lock);
		deallocate_ACL_vector(&self->acl);
		allocate_ACL_vector(&self->acl, acl->count);
		for (int i = 0; i < acl->count; i++) {
			self->acl.data[i].perms = acl->data[i].perms;
			/* the client library frees them */
			self->acl.data[i].id.scheme = strdup(acl->data[i].id.scheme);
			self->acl.data[i].id.id = strdup(acl->data[i].id.id);
		}
		pthread_mutex_unlock(&self->lock);
	}
	on_answer(znode, code, stat);
}

/* The thread of the owner. */

/* Returns a time on the clock of @woken. */
static struct timespec deadline_in(guint milliseconds)
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

/* Waits with the lock, which it releases meanwhile. %FALSE: the deadline is over. */
static gboolean wait_until(CtlZookeeper *self, const struct timespec *deadline)
{
	return pthread_cond_timedwait(&self->woken, &self->lock, deadline) == 0;
}

static void close_session(CtlZookeeper *self)
{
	gboolean may_be_stuck;

	pthread_mutex_lock(&self->lock);
	may_be_stuck = self->certificates != NULL && self->state != ZOO_CONNECTED_STATE;
	pthread_mutex_unlock(&self->lock);
	/* it would wait for ever in a handshake that the server does not answer; the process ends
	 * soon */
	if (self->handle != NULL && may_be_stuck)
		self->is_left = TRUE;
	else if (self->handle != NULL)
		zookeeper_close(self->handle);
	self->handle = NULL;
}

/* Gives the session up, with LOST. After it no request is under way. Returns %FALSE. */
static gboolean lose_session(CtlZookeeper *self, GError **error, const char *what)
{
	close_session(self);
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST, "ZooKeeper at %s: %s",
		    self->servers, what);
	return FALSE;
}

static gboolean wait_connected(CtlZookeeper *self, GError **error)
{
	struct timespec deadline = deadline_in(self->timeout_ms);
	gboolean in_time = TRUE;

	pthread_mutex_lock(&self->lock);
	while (self->state != ZOO_CONNECTED_STATE && in_time)
		in_time = wait_until(self, &deadline);

	gboolean connected = self->state == ZOO_CONNECTED_STATE;

	pthread_mutex_unlock(&self->lock);
	if (connected)
		return TRUE;

	/* a name that cannot be resolved can take as long again */
	g_autofree char *why = zookeeper_handle_describe_trouble(self->servers, self->certificates);
	g_autofree char *what = g_strdup_printf("no connection within %u ms%s%s", self->timeout_ms,
						why != NULL ? ": " : "", why != NULL ? why : "");

	return lose_session(self, error, what);
}

static gboolean authenticate(CtlZookeeper *self, const char *auth, GError **error)
{
	g_autofree char *failure = NULL;

	if (self->handle != NULL &&
	    zookeeper_handle_add_digest(self->handle, auth, "--zookeeper-auth", &failure))
		return TRUE;
	return lose_session(self, error,
			    failure != NULL ? failure
					    : "no connection to send the user and password over");
}

CtlZookeeper *ctl_zookeeper_connect(const ZookeeperHosts *hosts, const char *auth, guint timeout_ms,
				    GError **error)
{
	g_autoptr(CtlZookeeper) self = g_new0(CtlZookeeper, 1);
	pthread_condattr_t attributes;

	self->servers = g_strdup(hosts->servers);
	/* without certificates it would connect without TLS */
	g_assert(!hosts->is_tls || hosts->certificates != NULL);
	self->certificates = g_strdup(hosts->certificates);
	self->timeout_ms = timeout_ms;
	pthread_mutex_init(&self->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&self->woken, &attributes);
	pthread_condattr_destroy(&attributes);
	/* the client library would log to standard error */
	zoo_set_debug_level((ZooLogLevel)0);
	self->handle = zookeeper_handle_open(self->servers, self->certificates, on_event,
					     SESSION_MS, self);
	if (self->handle == NULL) {
		lose_session(self, error, "the name of none of them can be looked up");
		return NULL;
	}
	self->has_auth = auth != NULL;
	/* in this order: see zookeeper_handle_add_digest() */
	if (!wait_connected(self, error) || (auth != NULL && !authenticate(self, auth, error)))
		return NULL;
	return g_steal_pointer(&self);
}

void ctl_zookeeper_free(CtlZookeeper *self)
{
	if (self == NULL)
		return;
	close_session(self);
	if (self->is_left) /* to the threads of the client library */
		return;
	pthread_cond_destroy(&self->woken);
	pthread_mutex_destroy(&self->lock);
	deallocate_ACL_vector(&self->acl);
	g_free(self->certificates);
	g_free(self->servers);
	g_free(self);
}

const char *ctl_zookeeper_servers(const CtlZookeeper *self)
{
	return self->servers;
}

static int send_request(CtlZookeeper *self, CtlZnode *znode)
{
	switch (znode->operation) {
	case CTL_ZNODE_GET:
		return zoo_aget(self->handle, znode->path, 0, on_data, znode);
	case CTL_ZNODE_LIST:
		return zoo_aget_children(self->handle, znode->path, 0, on_names, znode);
	case CTL_ZNODE_SET:
		return zoo_aset(self->handle, znode->path, znode->data, znode->length,
				znode->version, on_stat, znode);
	case CTL_ZNODE_CREATE:
		return zoo_acreate2(self->handle, znode->path, znode->data, znode->length,
				    &self->acl, 0, on_created, znode);
	case CTL_ZNODE_LOOK:
		return zoo_aexists(self->handle, znode->path, 0, on_stat, znode);
	case CTL_ZNODE_TAKE_ACL:
		return zoo_aget_acl(self->handle, znode->path, on_acl, znode);
	}
	return ZBADARGUMENTS;
}

/* %FALSE: nothing was answered for too long. */
static gboolean wait_answers(CtlZookeeper *self)
{
	struct timespec deadline = deadline_in(self->timeout_ms);
	gboolean in_time = TRUE;

	pthread_mutex_lock(&self->lock);

	guint unanswered = self->unanswered;

	while (self->unanswered > 0 && in_time) {
		if (self->unanswered < unanswered)
			deadline = deadline_in(self->timeout_ms);
		unanswered = self->unanswered;
		in_time = wait_until(self, &deadline) || self->unanswered < unanswered;
	}
	pthread_mutex_unlock(&self->lock);
	return in_time;
}

static gboolean refuse_znode(const CtlZookeeper *self, const CtlZnode *znode, GError **error)
{
	if (znode->code == ZMARSHALLINGERROR)
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "ZooKeeper at %s: %s: its answer makes no sense", self->servers,
			    znode->path);
	else if (znode->code != ZNOAUTH)
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "ZooKeeper at %s: %s: %s", self->servers, znode->path,
			    zerror(znode->code));
	else if (self->has_auth)
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

static gboolean set_result(CtlZookeeper *self, CtlZnode *znode, GError **error)
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
		return lose_session(self, error, "the connection is lost");
	default:
		return refuse_znode(self, znode, error);
	}
}

gboolean ctl_zookeeper_do(CtlZookeeper *self, const GPtrArray *znodes, GError **error)
{
	if (self->handle == NULL)
		return lose_session(self, error, "the connection was lost");
	pthread_mutex_lock(&self->lock);
	self->unanswered = znodes->len;
	pthread_mutex_unlock(&self->lock);
	for (guint i = 0; i < znodes->len; i++) {
		CtlZnode *znode = znodes->pdata[i];

		znode->in_session = self;

		int code = send_request(self, znode);

		if (code != ZOK)
			on_answer(znode, code, NULL);
	}
	if (!wait_answers(self)) {
		g_autofree char *what = g_strdup_printf("no answer within %u ms", self->timeout_ms);

		return lose_session(self, error, what);
	}
	for (guint i = 0; i < znodes->len; i++) {
		if (!set_result(self, znodes->pdata[i], error))
			return FALSE;
	}
	return TRUE;
}
