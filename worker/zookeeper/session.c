/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/session.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/log.h"
#include "common/thread.h"
#include "common/zookeeper/handle.h"
#include "common/zookeeper/znodes.h"
#include "core/clock.h"
#include "worker/zookeeper/name-resolution.h"

#define MAX_PATH_BYTES 512

/* An error of servers since version 3.7, for which the client of 3.8 has no name. */
#define QUOTA_EXCEEDED (-125)

/* Errors that are not about the connection, but leave the outcome of a request unknown. Older
 * clients have no names for them. */
static const struct {
	gint code;
	const char *reason;
	const char *remedy;
} OPEN_ERRORS[] = {
	{-120, "a local session cannot create an ephemeral znode",
	 "set localSessionsUpgradingEnabled=true in ZooKeeper's zoo.cfg, or remove "
	 "localSessionsEnabled"},
	{-124, "ZooKeeper closed the session because it is not authenticated",
	 "if ZooKeeper's enforce.auth.schemes contains digest, use --zookeeper-auth; otherwise, "
	 "or with sessionRequireClientSASLAuth, this server cannot use this ZooKeeper"},
	{-127, "the operation was throttled", "ZooKeeper is overloaded"},
};

static pthread_once_t log_once = PTHREAD_ONCE_INIT;

struct _ZookeeperSession {
	ZookeeperSessionConfig config; /* a copy that owns its strings */
	guint64 last_request;
	const struct ACL_vector *acl; /* ACL of new znodes */
	/* used with auth: the entry of that ACL, which gives all permissions to this user only */
	struct ACL own_entry;
	struct ACL_vector own_acl;
	struct ACL_vector copied_acl; /* set by the client's threads before they post a reply */

	pthread_mutex_t mutex; /* protects the members below */
	pthread_cond_t changed;
	zhandle_t *handle; /* (nullable): set when OPENED is posted */
	GQueue messages;   /* (element-type ZookeeperMessage) */
	gint64 timeout_ms;
	gboolean opened; /* the first message, which reports success or failure, has been posted */
	gboolean ending; /* the owner, store.c, has closed the session */
	gboolean ended;  /* the thread has closed the handle, or there is no handle */
	gboolean left;   /* the owner does not wait for the end, so the thread frees the session */
};

/* The data that the client's threads need for a reply. The threads own it after the client has
 * accepted the request. */
typedef struct {
	ZookeeperSession *session;
	guint64 number;
	gint64 sent_ns;
	const char *operation; /* static */
	char *path;            /* path; for a transaction, all paths */
	gboolean copies_acl;
	/* for a transaction */
	guint n_writes;
	const struct Stat *stat; /* result of the last set; NULL if there is none */
	zoo_op_result_t results[ZOOKEEPER_MAX_WRITES];
	struct Stat stats[ZOOKEEPER_MAX_WRITES];
	char created[ZOOKEEPER_MAX_WRITES][MAX_PATH_BYTES];
} Request;

void zookeeper_message_free(ZookeeperMessage *message)
{
	if (message == NULL)
		return;
	g_strfreev(message->children);
	g_strfreev(message->addresses);
	g_free(message->unknown);
	g_free(message->failure);
	g_free(message->data);
	g_free(message->path);
	g_free(message);
}

/* Posts @message (transfer full) to the owner. Can be called from any thread. */
static void post(ZookeeperSession *self, ZookeeperMessage *message)
{
	pthread_mutex_lock(&self->mutex);
	if (self->ending) {
		zookeeper_message_free(message);
	} else {
		g_queue_push_tail(&self->messages, message);
		/* under the lock, so that wake() is not called after the end */
		self->config.wake(self->config.user_data);
	}
	pthread_mutex_unlock(&self->mutex);
}

/* The client's threads */

static void on_client_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	ZookeeperSession *self = context;
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	if (type != ZOO_SESSION_EVENT) {
		message->type = ZOOKEEPER_CHANGED;
		message->path = g_strdup(path);
		message->gone = type == ZOO_DELETED_EVENT;
	} else if (state == ZOO_CONNECTED_STATE) {
		message->type = ZOOKEEPER_CONNECTED;
		message->session = zoo_client_id(handle)->client_id;
		pthread_mutex_lock(&self->mutex);
		self->timeout_ms = zoo_recv_timeout(handle);
		pthread_mutex_unlock(&self->mutex);
	} else if (state == ZOO_EXPIRED_SESSION_STATE) {
		message->type = ZOOKEEPER_EXPIRED;
	} else if (state == ZOO_AUTH_FAILED_STATE) {
		message->type = ZOOKEEPER_DENIED;
	} else { /* undocumented states between attempts */
		message->type = ZOOKEEPER_DISCONNECTED;
	}
	post(self, message);
}

static ZookeeperOutcome outcome_of(int code)
{
	switch (code) {
	case ZOK:
		return ZOOKEEPER_OK;
	case ZNONODE:
		return ZOOKEEPER_NO_NODE;
	case ZNODEEXISTS:
		return ZOOKEEPER_NODE_EXISTS;
	case ZBADVERSION:
		return ZOOKEEPER_BAD_VERSION;
	case ZNOAUTH:
		return ZOOKEEPER_NO_AUTH;
	case ZBADARGUMENTS:
	case ZINVALIDACL:
	case ZNOCHILDRENFOREPHEMERALS:
	case ZNOTEMPTY:
	case ZNOTREADONLY:
	case ZUNIMPLEMENTED:
	case QUOTA_EXCEEDED:
		return ZOOKEEPER_REFUSED;
	default: /* connection lost, timed out, session expired or moved, closing, ... */
		return ZOOKEEPER_UNSURE;
	}
}

/* Returns whether @code leaves the outcome unknown, and the error can recur on another connection
 * or in another session. */
static gboolean is_open_error(int code)
{
	switch (code) {
	case ZCONNECTIONLOSS:
	case ZOPERATIONTIMEOUT:
	case ZINVALIDSTATE:
	case ZSESSIONEXPIRED:
	case ZAUTHFAILED: /* reported by an event */
	case ZCLOSING:
	case ZSESSIONMOVED:
		return FALSE;
	default:
		return outcome_of(code) == ZOOKEEPER_UNSURE;
	}
}

static ZookeeperMessage *reply_new(const Request *request, int code, const struct Stat *stat)
{
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	message->type = ZOOKEEPER_REPLY;
	message->request = request->number;
	message->sent_ns = request->sent_ns;
	message->received_ns = clock_boottime_ns();
	message->outcome = outcome_of(code);
	message->reason = code == QUOTA_EXCEEDED ? "its quota is exhausted" : zerror(code);
	message->error = is_open_error(code) ? code : 0;
	for (gsize i = 0; i < G_N_ELEMENTS(OPEN_ERRORS); i++)
		if (OPEN_ERRORS[i].code == code) {
			message->reason = OPEN_ERRORS[i].reason;
			message->remedy = OPEN_ERRORS[i].remedy;
		}
	if (code == ZOK && stat != NULL)
		message->stat = (ZookeeperStat){
			.version = stat->version,
			.created_order = stat->czxid,
			.created_ms = stat->ctime,
			.modified_ms = stat->mtime,
			.owner_session = stat->ephemeralOwner,
		};
	return message;
}

static void set_nonsense(ZookeeperMessage *message)
{
	message->outcome = ZOOKEEPER_REFUSED;
	message->reason = "invalid answer";
}

/* Posts the reply, and frees the request. */
static void post_reply(Request *request, ZookeeperMessage *message)
{
	static const char *const OUTCOMES[] = {
		[ZOOKEEPER_OK] = "ok",
		[ZOOKEEPER_NO_NODE] = "no-node",
		[ZOOKEEPER_NODE_EXISTS] = "node-exists",
		[ZOOKEEPER_BAD_VERSION] = "bad-version",
		[ZOOKEEPER_NO_AUTH] = "no-auth",
		[ZOOKEEPER_REFUSED] = "refused",
		[ZOOKEEPER_UNSURE] = "unsure",
	};

	log_event(LOG_ZOOKEEPER_OPERATION, log_text("operation", request->operation),
		  log_text("path", request->path), log_text("outcome", OUTCOMES[message->outcome]),
		  log_number("took_us", (message->received_ns - message->sent_ns) / 1000));
	post(request->session, message);
	g_free(request->path);
	g_free(request);
}

static void on_stat(int code, const struct Stat *stat, const void *data)
{
	Request *request = (Request *)data;

	post_reply(request, reply_new(request, code, stat));
}

static void on_done(int code, const void *data)
{
	on_stat(code, NULL, data);
}

static void on_data(int code, const char *value, int length, const struct Stat *stat,
		    const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, stat);

	if (code == ZOK && !znode_data_make_sense(length, value)) {
		set_nonsense(message);
	} else if (code == ZOK) {
		message->length = (gsize)MAX(length, 0); /* -1 if the znode has no data */
		message->data = g_strndup(value != NULL ? value : "", message->length);
		if (message->length > 0) /* copy NULs, too */
			memcpy(message->data, value, message->length);
	}
	post_reply(request, message);
}

static void on_children(int code, const struct String_vector *names, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, NULL);

	if (code == ZOK && !znode_names_make_sense(names->count, names->data)) {
		set_nonsense(message);
	} else if (code == ZOK) {
		message->children = g_new0(char *, (gsize)names->count + 1);
		for (int i = 0; i < names->count; i++)
			message->children[i] = g_strdup(names->data[i]);
	}
	post_reply(request, message);
}

static void on_acl(int code, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, stat);

	for (int i = 0; code == ZOK && i < acl->count; i++)
		if (znode_acl_is_open(acl->data[i].id.scheme, acl->data[i].perms))
			message->open = TRUE;
	if (code == ZOK && request->copies_acl) {
		struct ACL_vector *copy = &request->session->copied_acl;

		deallocate_ACL_vector(copy);
		allocate_ACL_vector(copy, acl->count);
		for (int i = 0; i < acl->count; i++)
			/* the client will call free() */
			copy->data[i] = (struct ACL){
				acl->data[i].perms,
				{strdup(acl->data[i].id.scheme), strdup(acl->data[i].id.id)}};
	}
	post_reply(request, message);
}

static void on_created(int code, const char *path, const struct Stat *stat, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, stat);

	if (code == ZOK && (path == NULL || *path != '/'))
		set_nonsense(message);
	else if (code == ZOK)
		message->path = g_strdup(path);
	post_reply(request, message);
}

static void on_synced(int code, const char *path G_GNUC_UNUSED, const void *data)
{
	on_done(code, data);
}

static void on_committed(int code, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, request->stat);

	/* find the write that failed; the others are "rolled back" or "not tried" */
	for (guint i = 0; i < request->n_writes && message->outcome != ZOOKEEPER_OK &&
			  message->outcome != ZOOKEEPER_UNSURE;
	     i++)
		if (request->results[i].err != ZOK &&
		    request->results[i].err != ZRUNTIMEINCONSISTENCY) {
			message->failed = i;
			break;
		}
	post_reply(request, message);
}

static void session_destroy(ZookeeperSession *self)
{
	g_queue_clear_full(&self->messages, (GDestroyNotify)zookeeper_message_free);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_strfreev(self->config.known);
	g_free((char *)self->config.servers);
	g_free((char *)self->config.certificates);
	g_free((char *)self->config.auth);
	g_free(self->own_entry.id.id);
	deallocate_ACL_vector(&self->copied_acl);
	g_free(self);
}

/* The session's own thread */

/* Returns: (nullable): a handle, which connects in the background. @out_failure: (transfer full)
 * (nullable): why there is none; NULL if the first connection was refused before authentication. */
static zhandle_t *open_handle(ZookeeperSession *self, const GStrv addresses, char **out_failure)
{
	const ZookeeperSessionConfig *config = &self->config;
	g_autofree char *hosts = name_resolution_join(addresses);
	zhandle_t *handle = zookeeper_handle_open(hosts, config->certificates, on_client_event,
						  (int)config->timeout_ms, self);

	*out_failure = NULL;
	if (handle == NULL) {
		*out_failure = g_strdup_printf("cannot start ZooKeeper's client library: %s",
					       g_strerror(errno));
		return NULL;
	}
	/* do not resolve names again while connected */
	zoo_set_servers_resolution_delay(handle, -1);
	if (config->auth == NULL ||
	    zookeeper_handle_add_digest(handle, config->auth, "--zookeeper-auth", out_failure))
		return handle;
	zookeeper_close(handle); /* without authentication, new znodes would be open */
	return NULL;
}

/* Posts the first message (transfer full), before all messages that the client's threads have
 * already posted. */
static void post_first(ZookeeperSession *self, ZookeeperMessage *message, zhandle_t *handle)
{
	pthread_mutex_lock(&self->mutex);
	self->handle = handle;
	self->opened = TRUE;
	g_queue_push_head(&self->messages, message);
	if (!self->ending)
		self->config.wake(self->config.user_data);
	pthread_mutex_unlock(&self->mutex);
}

static void *session_thread(void *user_data)
{
	ZookeeperSession *self = user_data;
	const ZookeeperSessionConfig *config = &self->config;
	ZookeeperMessage *first = g_new0(ZookeeperMessage, 1);
	zhandle_t *handle = NULL;
	gboolean ending, left;

	first->type = ZOOKEEPER_NO_NAMES;
	first->addresses = config->look_up ? name_resolution_look_up(config->servers, config->known,
								     &first->unknown)
					   : g_strdupv(config->known);
	pthread_mutex_lock(&self->mutex);
	ending = self->ending;
	pthread_mutex_unlock(&self->mutex);
	if (first->addresses != NULL && !ending) {
		handle = open_handle(self, first->addresses, &first->failure);
		first->type = handle != NULL ? ZOOKEEPER_OPENED : ZOOKEEPER_NOT_OPENED;
	}
	post_first(self, first, handle);
	pthread_mutex_lock(&self->mutex);
	while (!self->ending)
		pthread_cond_wait(&self->changed, &self->mutex);
	pthread_mutex_unlock(&self->mutex);
	if (self->handle != NULL)
		zookeeper_close(self->handle); /* joins the client's threads */
	pthread_mutex_lock(&self->mutex);
	self->ended = TRUE;
	left = self->left;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->mutex);
	if (left)
		session_destroy(self);
	return NULL;
}

/* The owner's thread */

/* Disables the client's log, which would be written to standard error, from a buffer that all
 * handles of a process share without a lock. Log events report the important parts. */
static void quiet_log(void)
{
	zoo_set_debug_level((ZooLogLevel)0);
}

ZookeeperSession *zookeeper_session_new(const ZookeeperSessionConfig *config)
{
	ZookeeperSession *self = g_new0(ZookeeperSession, 1);
	int code;

	self->config = *config;
	self->config.servers = g_strdup(config->servers);
	self->config.known = g_strdupv(config->known);
	self->config.certificates = g_strdup(config->certificates);
	self->config.auth = g_strdup(config->auth);
	self->timeout_ms = config->timeout_ms;
	self->acl = &ZOO_OPEN_ACL_UNSAFE;
	if (config->auth != NULL) {
		/* not ZOO_CREATOR_ALL_ACL, because with TLS, it also admits every client that has
		 * the certificate, and a local stunnel presents the certificate for all users of
		 * the machine */
		self->own_entry = (struct ACL){
			ZOO_PERM_ALL, {(char *)"digest", znode_acl_identity(config->auth)}};
		self->own_acl = (struct ACL_vector){1, &self->own_entry};
		self->acl = &self->own_acl;
	}
	g_queue_init(&self->messages);
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
	pthread_once(&log_once, quiet_log);
	code = thread_start_detached("session", session_thread, self);
	if (code != 0) {
		ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

		message->type = ZOOKEEPER_NOT_OPENED;
		message->failure = g_strdup_printf("cannot start a thread: %s", g_strerror(code));
		post_first(self, message, NULL);
		self->ended = TRUE;
	}
	return self;
}

void zookeeper_session_close(ZookeeperSession *self, gint64 timeout_ms)
{
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	gboolean ended;

	pthread_mutex_lock(&self->mutex);
	self->ending = TRUE;
	pthread_cond_signal(&self->changed);
	/* check the clock, and not the result of the wait, which a test's fake clock ends early */
	while (!self->ended && g_get_monotonic_time() < until_us)
		clock_wait_until(&self->changed, &self->mutex, until_us);
	ended = self->ended;
	self->left = !ended;
	pthread_mutex_unlock(&self->mutex);
	if (ended)
		session_destroy(self);
}

void zookeeper_session_free(ZookeeperSession *self)
{
	if (self != NULL)
		zookeeper_session_close(self, 0);
}

ZookeeperMessage *zookeeper_session_take(ZookeeperSession *self)
{
	static const char *const WHATS[] = {
		[ZOOKEEPER_OPENED] = "opened",         [ZOOKEEPER_NO_NAMES] = "no-names",
		[ZOOKEEPER_CONNECTED] = "connected",   [ZOOKEEPER_DISCONNECTED] = "disconnected",
		[ZOOKEEPER_EXPIRED] = "expired",       [ZOOKEEPER_DENIED] = "denied",
		[ZOOKEEPER_NOT_OPENED] = "not-opened",
	};
	ZookeeperMessage *message = NULL;

	pthread_mutex_lock(&self->mutex);
	if (self->opened)
		message = g_queue_pop_head(&self->messages);
	pthread_mutex_unlock(&self->mutex);
	if (message != NULL && message->type < G_N_ELEMENTS(WHATS))
		log_event(LOG_ZOOKEEPER_SESSION, log_text("what", WHATS[message->type]));
	return message;
}

gint64 zookeeper_session_timeout_ms(ZookeeperSession *self)
{
	gint64 timeout_ms;

	pthread_mutex_lock(&self->mutex);
	timeout_ms = self->timeout_ms;
	pthread_mutex_unlock(&self->mutex);
	return timeout_ms;
}

static Request *request_new(ZookeeperSession *self, const char *operation, const char *path)
{
	Request *request = g_new0(Request, 1);

	request->session = self;
	request->number = ++self->last_request;
	request->operation = operation;
	request->path = g_strdup(path);
	request->sent_ns = clock_boottime_ns();
	return request;
}

/* Handles the client's return value @code for a request. If the client did not accept the request,
 * posts a reply with the error. */
static guint64 sent(ZookeeperSession *self, Request *request, int code)
{
	if (code != ZOK)
		post_reply(request, reply_new(request, code, NULL));
	return self->last_request;
}

guint64 zookeeper_session_get(ZookeeperSession *self, const char *path, gboolean watch)
{
	Request *request = request_new(self, "get", path);

	return sent(self, request, zoo_aget(self->handle, path, watch, on_data, request));
}

guint64 zookeeper_session_exists(ZookeeperSession *self, const char *path, gboolean watch)
{
	Request *request = request_new(self, "exists", path);

	return sent(self, request, zoo_aexists(self->handle, path, watch, on_stat, request));
}

guint64 zookeeper_session_children(ZookeeperSession *self, const char *path, gboolean watch)
{
	Request *request = request_new(self, "children", path);

	return sent(self, request,
		    zoo_aget_children(self->handle, path, watch, on_children, request));
}

guint64 zookeeper_session_create(ZookeeperSession *self, const char *path, const char *data,
				 gboolean is_ephemeral)
{
	int mode = is_ephemeral ? ZOO_EPHEMERAL | ZOO_SEQUENCE : ZOO_PERSISTENT;
	Request *request = request_new(self, "create", path);

	return sent(self, request,
		    zoo_acreate2(self->handle, path, data, (int)strlen(data), self->acl, mode,
				 on_created, request));
}

guint64 zookeeper_session_delete(ZookeeperSession *self, const char *path)
{
	Request *request = request_new(self, "delete", path);

	return sent(self, request, zoo_adelete(self->handle, path, -1, on_done, request));
}

guint64 zookeeper_session_get_acl(ZookeeperSession *self, const char *path)
{
	Request *request = request_new(self, "get-acl", path);

	return sent(self, request, zoo_aget_acl(self->handle, path, on_acl, request));
}

guint64 zookeeper_session_copy_acl(ZookeeperSession *self, const char *path)
{
	Request *request = request_new(self, "get-acl", path);

	request->copies_acl = TRUE;
	/* until the answer arrives, the ACL is empty, which ZooKeeper refuses */
	self->acl = &self->copied_acl;
	return sent(self, request, zoo_aget_acl(self->handle, path, on_acl, request));
}

guint64 zookeeper_session_sync(ZookeeperSession *self, const char *path)
{
	Request *request = request_new(self, "sync", path);

	return sent(self, request, zoo_async(self->handle, path, on_synced, request));
}

guint64 zookeeper_session_commit(ZookeeperSession *self, const ZookeeperWrite *writes,
				 guint n_writes)
{
	Request *request = request_new(self, "commit", NULL);
	GString *paths = g_string_new(NULL);
	zoo_op_t ops[ZOOKEEPER_MAX_WRITES];

	g_assert(n_writes >= 1 && n_writes <= ZOOKEEPER_MAX_WRITES);
	request->n_writes = n_writes;
	for (guint i = 0; i < n_writes; i++) {
		const ZookeeperWrite *write = &writes[i];

		g_string_append_printf(paths, "%s%s", i > 0 ? "," : "", write->path);
		switch (write->type) {
		case ZOOKEEPER_CHECK:
			zoo_check_op_init(&ops[i], write->path, write->version);
			break;
		case ZOOKEEPER_CREATE:
			zoo_create_op_init(&ops[i], write->path, write->data,
					   (int)strlen(write->data), self->acl, ZOO_PERSISTENT,
					   request->created[i], MAX_PATH_BYTES);
			break;
		case ZOOKEEPER_SET:
			zoo_set_op_init(&ops[i], write->path, write->data, (int)strlen(write->data),
					write->version, &request->stats[i]);
			request->stat = &request->stats[i];
			break;
		}
	}
	request->path = g_string_free(paths, FALSE);
	return sent(self, request,
		    zoo_amulti(self->handle, (int)n_writes, ops, request->results, on_committed,
			       request));
}
