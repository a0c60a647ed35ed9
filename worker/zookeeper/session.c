/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/session-private.h"

#include <string.h>

#include "common/log.h"
#include "common/zookeeper/znode-acl.h"
#include "common/zookeeper/znodes.h"
#include "core/clock.h"

#define MAX_PATH_BYTES 512

/* Servers of 3.7 and later say so, the client of 3.8 has no name for it. */
#define QUOTA_EXCEEDED (-125)

/* Errors that are not about the connection, and leave the outcome of the request open. Older
 * clients have no names for them. */
static const struct {
	gint code;
	const char *reason;
	const char *remedy;
} OPEN_ERRORS[] = {
	{-120, "no ephemeral znode on a local session",
	 "set localSessionsUpgradingEnabled=true in ZooKeeper's zoo.cfg, or do without "
	 "localSessionsEnabled"},
	{-124, "ZooKeeper closed the session because it is not authenticated",
	 "if ZooKeeper's enforce.auth.schemes has digest, give --zookeeper-auth; without it, or "
	 "with sessionRequireClientSASLAuth, this server cannot use that ZooKeeper"},
	{-127, "the operation was throttled", "ZooKeeper is overloaded"},
};

/* What the client's threads need for a reply. Theirs once the request was taken. */
typedef struct {
	ZookeeperSession *session;
	guint64 number;
	gint64 sent_ns;
	const char *operation; /* static */
	char *path;            /* of a transaction, all of them */
	/* of a transaction */
	guint n_writes;
	const struct Stat *stat; /* of the last set; NULL: there is none */
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

/* Any thread; (transfer full) */
static void post(ZookeeperSession *self, ZookeeperMessage *message)
{
	pthread_mutex_lock(&self->mutex);
	if (self->ending) {
		zookeeper_message_free(message);
	} else {
		g_queue_push_tail(&self->messages, message);
		/* under the lock, so that none comes later than the end */
		self->config.wake(self->config.user_data);
	}
	pthread_mutex_unlock(&self->mutex);
}

/* The client's threads */

static void on_session_event(ZookeeperSession *self, zhandle_t *handle, int state)
{
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	if (state == ZOO_CONNECTED_STATE) {
		message->type = ZOOKEEPER_CONNECTED;
		message->session = zoo_client_id(handle)->client_id;
		pthread_mutex_lock(&self->mutex);
		self->timeout_ms = zoo_recv_timeout(handle);
		pthread_mutex_unlock(&self->mutex);
	} else if (state == ZOO_EXPIRED_SESSION_STATE) {
		message->type = ZOOKEEPER_EXPIRED;
	} else if (state == ZOO_AUTH_FAILED_STATE) {
		message->type = ZOOKEEPER_DENIED;
	} else { /* there are undocumented states between attempts */
		message->type = ZOOKEEPER_DISCONNECTED;
	}
	post(self, message);
}

void zookeeper_session_on_event(zhandle_t *handle, int type, int state, const char *path,
				void *context)
{
	ZookeeperSession *self = context;
	ZookeeperMessage *message;

	if (type == ZOO_SESSION_EVENT) {
		on_session_event(self, handle, state);
		return;
	}
	message = g_new0(ZookeeperMessage, 1);
	message->type = ZOOKEEPER_CHANGED;
	message->path = g_strdup(path);
	message->gone = type == ZOO_DELETED_EVENT;
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

/* Returns whether @code leaves the outcome open and can recur on another connection or session. */
static gboolean is_open_error(int code)
{
	switch (code) {
	case ZCONNECTIONLOSS:
	case ZOPERATIONTIMEOUT:
	case ZINVALIDSTATE:
	case ZSESSIONEXPIRED:
	case ZAUTHFAILED: /* an event reports it */
	case ZCLOSING:
	case ZSESSIONMOVED:
		return FALSE;
	default:
		return outcome_of(code) == ZOOKEEPER_UNSURE;
	}
}

static void describe_error(int code, ZookeeperMessage *message)
{
	message->reason = code == QUOTA_EXCEEDED ? "its quota is used up" : zerror(code);
	message->error = is_open_error(code) ? code : 0;
	for (gsize i = 0; i < G_N_ELEMENTS(OPEN_ERRORS); i++)
		if (OPEN_ERRORS[i].code == code) {
			message->reason = OPEN_ERRORS[i].reason;
			message->remedy = OPEN_ERRORS[i].remedy;
		}
}

static ZookeeperStat stat_of(const struct Stat *stat)
{
	return (ZookeeperStat){
		.version = stat->version,
		.created_ms = stat->ctime,
		.modified_ms = stat->mtime,
		.owner_session = stat->ephemeralOwner,
	};
}

static ZookeeperMessage *reply_new(const Request *request, int code, const struct Stat *stat)
{
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	message->type = ZOOKEEPER_REPLY;
	message->request = request->number;
	message->sent_ns = request->sent_ns;
	message->received_ns = clock_boottime_ns();
	message->outcome = outcome_of(code);
	describe_error(code, message);
	if (code == ZOK && stat != NULL)
		message->stat = stat_of(stat);
	return message;
}

static void refuse(ZookeeperMessage *message)
{
	message->outcome = ZOOKEEPER_REFUSED;
	message->reason = "its answer makes no sense";
}

static void log_operation(const Request *request, const ZookeeperMessage *message)
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
}

/* The request ends here. */
static void post_reply(Request *request, ZookeeperMessage *message)
{
	log_operation(request, message);
	post(request->session, message);
	g_free(request->path);
	g_free(request);
}

static void on_done(int code, const void *data)
{
	Request *request = (Request *)data;

	post_reply(request, reply_new(request, code, NULL));
}

static void on_stat(int code, const struct Stat *stat, const void *data)
{
	Request *request = (Request *)data;

	post_reply(request, reply_new(request, code, stat));
}

static void on_data(int code, const char *value, int length, const struct Stat *stat,
		    const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, stat);

	if (code == ZOK && !znode_data_make_sense(length, value)) {
		refuse(message);
	} else if (code == ZOK) {
		message->length = (gsize)MAX(length, 0); /* -1: it holds nothing */
		message->data = g_strndup(value != NULL ? value : "", message->length);
		if (message->length > 0) /* with its NULs, if there are any */
			memcpy(message->data, value, message->length);
	}
	post_reply(request, message);
}

static void on_children(int code, const struct String_vector *names, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, NULL);

	if (code == ZOK && !znode_names_make_sense(names->count, names->data)) {
		refuse(message);
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
	post_reply(request, message);
}

static void on_created(int code, const char *path, const struct Stat *stat, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, stat);

	if (code == ZOK && (path == NULL || *path != '/'))
		refuse(message);
	else if (code == ZOK)
		message->path = g_strdup(path);
	post_reply(request, message);
}

static void on_synced(int code, const char *path G_GNUC_UNUSED, const void *data)
{
	on_done(code, data);
}

/* Which of the writes is to blame: the others are "rolled back" or "not tried". */
static guint failed_write(const Request *request)
{
	for (guint i = 0; i < request->n_writes; i++)
		if (request->results[i].err != ZOK &&
		    request->results[i].err != ZRUNTIMEINCONSISTENCY)
			return i;
	return 0;
}

static void on_committed(int code, const void *data)
{
	Request *request = (Request *)data;
	ZookeeperMessage *message = reply_new(request, code, request->stat);

	if (message->outcome != ZOOKEEPER_OK && message->outcome != ZOOKEEPER_UNSURE)
		message->failed = failed_write(request);
	post_reply(request, message);
}

/* The owner's thread */

static void log_message(const ZookeeperMessage *message)
{
	static const char *const WHATS[] = {
		[ZOOKEEPER_OPENED] = "opened",         [ZOOKEEPER_NO_NAMES] = "no-names",
		[ZOOKEEPER_CONNECTED] = "connected",   [ZOOKEEPER_DISCONNECTED] = "disconnected",
		[ZOOKEEPER_EXPIRED] = "expired",       [ZOOKEEPER_DENIED] = "denied",
		[ZOOKEEPER_NOT_OPENED] = "not-opened",
	};

	if (message->type < G_N_ELEMENTS(WHATS))
		log_event(LOG_ZOOKEEPER_SESSION, log_text("what", WHATS[message->type]));
}

ZookeeperMessage *zookeeper_session_take(ZookeeperSession *self)
{
	ZookeeperMessage *message = NULL;

	pthread_mutex_lock(&self->mutex);
	if (self->opened)
		message = g_queue_pop_head(&self->messages);
	pthread_mutex_unlock(&self->mutex);
	if (message != NULL)
		log_message(message);
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

/* @code: what the client said to the request; it has taken it, or there will be no reply but
 * this. */
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

static guint64 create(ZookeeperSession *self, const char *path, const char *data, int mode)
{
	Request *request = request_new(self, "create", path);

	return sent(self, request,
		    zoo_acreate2(self->handle, path, data, (int)strlen(data), self->acl, mode,
				 on_created, request));
}

guint64 zookeeper_session_create(ZookeeperSession *self, const char *path, const char *data)
{
	return create(self, path, data, ZOO_PERSISTENT);
}

guint64 zookeeper_session_create_ephemeral(ZookeeperSession *self, const char *path,
					   const char *data)
{
	return create(self, path, data, ZOO_EPHEMERAL | ZOO_SEQUENCE);
}

guint64 zookeeper_session_set(ZookeeperSession *self, const char *path, const char *data)
{
	Request *request = request_new(self, "set", path);

	return sent(self, request,
		    zoo_aset(self->handle, path, data, (int)strlen(data), -1, on_stat, request));
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

guint64 zookeeper_session_sync(ZookeeperSession *self, const char *path)
{
	Request *request = request_new(self, "sync", path);

	return sent(self, request, zoo_async(self->handle, path, on_synced, request));
}

static char *paths_of(const ZookeeperWrite *writes, guint n_writes)
{
	GString *paths = g_string_new(NULL);

	for (guint i = 0; i < n_writes; i++)
		g_string_append_printf(paths, "%s%s", i > 0 ? "," : "", writes[i].path);
	return g_string_free(paths, FALSE);
}

guint64 zookeeper_session_commit(ZookeeperSession *self, const ZookeeperWrite *writes,
				 guint n_writes)
{
	g_autofree char *paths = paths_of(writes, n_writes);
	Request *request = request_new(self, "commit", paths);
	zoo_op_t ops[ZOOKEEPER_MAX_WRITES];

	g_assert(n_writes >= 1 && n_writes <= ZOOKEEPER_MAX_WRITES);
	request->n_writes = n_writes;
	for (guint i = 0; i < n_writes; i++) {
		const ZookeeperWrite *write = &writes[i];

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
	return sent(self, request,
		    zoo_amulti(self->handle, (int)n_writes, ops, request->results, on_committed,
			       request));
}
