/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/store.h"

#include <string.h>

#include "common/log.h"
#include "common/zookeeper/znodes.h"
#include "worker/zookeeper/name-resolution.h"
#include "worker/zookeeper/reach-probe.h"
#include "worker/zookeeper/session.h"

/* Each request of the registration (or of a tool) is a job. Its number is StoreMessage.request. A
 * job makes one or several requests to the session, whose numbers are ZookeeperMessage.request. It
 * is answered when all of them have been answered. When a connection is lost, its jobs end without
 * an answer. */

/* Maximum number of list reads that are in progress at once; further reads wait. */
#define MAX_READS 256

/* A session is replaced after this many session timeouts without a connection. Servers that were
 * restored from a backup refuse the old session for ever, and names may resolve to different
 * addresses by then. */
#define TIMEOUTS_TO_REPLACE 3
/* The minimum time between two attempts to open a session. */
#define OPEN_INTERVAL_US    G_USEC_PER_SEC

/* The loss of a connection is logged only if it lasts this long. */
#define LOSS_LOGGED_US G_USEC_PER_SEC

/* The purpose of a request to the session. */
typedef enum { FOR_SYNC, FOR_ACL, FOR_READ, FOR_CHILDREN, FOR_CHILD, FOR_COMMIT } Purpose;

typedef struct {
	StoreMessage *answer; /* the answer, as far as it is known */
	/* number of requests that are not answered yet, including those not sent yet */
	guint n_open;
} Job;

/* A request to the session. */
typedef struct {
	guint64 job; /* number of its job, which may have been dropped */
	Purpose purpose;
	char *key;
} SessionRequest;

/* Access checks */

/* Checks whether any client can write the znodes that the servers of a datacenter share: the root,
 * the znodes directly below it, and the datacenter including all reservations. This is for a server
 * with --zookeeper-auth, in case znodes were created without it. A client that can write a parent
 * can delete a reservation below it, so that another server would take a worker ID that is in use.
 *
 * common/zookeeper/znodes.h defines which znodes are open. Parents are read before their children,
 * so the reported znode is the highest open one. Nothing is changed. Claims are not read, because
 * they belong to their servers and end with them. A reservation whose ACL this server may not read
 * is skipped, because no server with its password can claim this worker ID. */
typedef struct {
	gboolean is_finished;
	ZookeeperOutcome outcome; /* the outcome at the end: OK, or why the result is unknown */
	const char *reason;       /* description of the outcome; static */
	char *path;               /* (nullable): the znode that is open, or that cannot be read */
	gboolean is_open;         /* any client can write @path */
	/* members below: used during the check */
	ZookeeperSession *session;
	char *reservations;
	guint64 sync, children; /* numbers of the requests in progress; 0 if there is none */
	GHashTable *requests;   /* maps the number of a request to its path */
	GQueue paths;           /* paths still to be read */
} AccessCheck;

static void end_check(AccessCheck *self, ZookeeperOutcome outcome, const char *reason,
		      const char *path)
{
	self->is_finished = TRUE;
	self->outcome = outcome;
	self->reason = reason;
	self->path = g_strdup(path);
}

static void request_acls(AccessCheck *self)
{
	while (!g_queue_is_empty(&self->paths) && g_hash_table_size(self->requests) < MAX_READS) {
		char *path = g_queue_pop_head(&self->paths);
		guint64 *request = g_new(guint64, 1);

		*request = zookeeper_session_get_acl(self->session, path);
		g_hash_table_insert(self->requests, request, path);
	}
	if (self->children == 0 && g_hash_table_size(self->requests) == 0)
		self->is_finished = TRUE;
}

static void take_acl(AccessCheck *self, const ZookeeperMessage *message, const char *path)
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

/* Handles a reply of the session. Returns: %FALSE if the reply belongs to another request */
static gboolean access_check_take(AccessCheck *self, const ZookeeperMessage *message)
{
	const char *path = g_hash_table_lookup(self->requests, &message->request);

	if (message->request == self->sync) {
		if (message->outcome != ZOOKEEPER_OK)
			end_check(self, message->outcome, message->reason, NULL);
		return TRUE;
	}
	if (path == NULL && message->request != self->children)
		return FALSE;
	if (path != NULL) {
		take_acl(self, message, path);
	} else if (message->outcome == ZOOKEEPER_OK) {
		guint worker_id;

		self->children = 0;
		/* skip names that servers do not create */
		for (char **name = message->children; *name != NULL; name++)
			if (znode_parse_number(*name, G_MAXUINT, &worker_id))
				g_queue_push_tail(&self->paths, g_strconcat(self->reservations, "/",
									    *name, NULL));
	} else {
		self->children = 0;
		if (message->outcome != ZOOKEEPER_NO_NODE)
			end_check(self, message->outcome, message->reason, self->reservations);
	}
	g_hash_table_remove(self->requests, &message->request);
	if (!self->is_finished)
		request_acls(self);
	return TRUE;
}

static AccessCheck *access_check_new(ZookeeperSession *session, const char *root,
				     guint datacenter_id)
{
	AccessCheck *self = g_new0(AccessCheck, 1);
	g_autofree char *claims = znode_in_datacenter(root, datacenter_id, ZNODES_CLAIMS);
	g_autofree char *datacenter = g_path_get_dirname(claims);

	self->session = session;
	self->reservations = znode_in_datacenter(root, datacenter_id, ZNODES_RESERVATIONS);
	self->requests = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
	g_queue_init(&self->paths);
	g_queue_push_tail(&self->paths, g_strdup(root));
	for (const char *const *name = ZNODES_OF_ROOT; *name != NULL; name++)
		g_queue_push_tail(&self->paths, g_strconcat(root, "/", *name, NULL));
	g_queue_push_tail(&self->paths, g_strdup(datacenter));
	for (const char *const *name = ZNODES_OF_DATACENTER; *name != NULL; name++)
		g_queue_push_tail(&self->paths, g_strconcat(datacenter, "/", *name, NULL));
	/* sync first, because an operator may have just closed the znodes */
	self->sync = zookeeper_session_sync(session, root);
	self->children = zookeeper_session_children(session, self->reservations, FALSE);
	request_acls(self);
	return self;
}

static void access_check_free(AccessCheck *self)
{
	if (self == NULL)
		return;
	g_queue_clear_full(&self->paths, g_free);
	g_hash_table_unref(self->requests);
	g_free(self->reservations);
	g_free(self->path);
	g_free(self);
}

/* The store */

typedef struct {
	Store store;
	char *servers, *root, *auth, *certificates; /* the last two members are nullable */
	gint64 session_timeout_ms;

	ZookeeperSession *session; /* (nullable): the open session */
	gint64 session_id;         /* 0 if not connected yet */
	gboolean is_connected;
	/* time of the loss of the connection or the session; 0 if there was none */
	gint64 lost_at_us;
	gboolean logged_up;      /* the last log event was "connected" */
	gboolean logged_expired; /* the last log event was "session expired" */

	GQueue messages;  /* (element-type StoreMessage): messages for the registration */
	guint64 last_job; /* number of the last job */
	GHashTable *jobs; /* maps a number to a Job */
	GHashTable
		*requests; /* maps the number of a request to the session to its SessionRequest */
	GQueue to_read; /* (element-type SessionRequest): list reads that have not been sent yet */
	guint n_reads;  /* number of list reads that were sent */
	char *watched;  /* (nullable): argument of watch() */
	guint64 watch_request;
	AccessCheck *access; /* (nullable) */
	guint64 access_job;

	struct {
		ZookeeperSession *session; /* (nullable): will replace the current session */
		gint64 next_at_us;         /* no session is opened before this time */
		gint64 opened_at_us;       /* time at which the previous session was opened */
		GStrv addresses;           /* (nullable): ZooKeeper's last known addresses */
		gboolean addresses_good;   /* the last connection has confirmed these addresses */
		char *unknown;  /* (nullable): the names that cannot be resolved, and why */
		guint failures; /* number of consecutive DNS lookups that did not find all names */
		ReachProbe *probe; /* (nullable): determines why there is no connection */
	} opening;
} ZookeeperStore;

/* Jobs */

static void session_request_free(SessionRequest *request)
{
	g_free(request->key);
	g_free(request);
}

static void job_free(Job *job)
{
	store_message_free(job->answer);
	g_free(job);
}

static Job *find_job(const ZookeeperStore *self, guint64 number)
{
	return g_hash_table_lookup(self->jobs, &number);
}

static StoreMessage *message_new(StoreEvent event, const char *key)
{
	StoreMessage *message = g_new0(StoreMessage, 1);

	message->event = event;
	message->key = g_strdup(key);
	return message;
}

static void post_event(ZookeeperStore *self, StoreEvent event, const char *key)
{
	g_queue_push_tail(&self->messages, message_new(event, key));
}

static guint64 job_new(ZookeeperStore *self)
{
	Job *job = g_new0(Job, 1);
	guint64 *number = g_new(guint64, 1);

	*number = ++self->last_job;
	job->answer = message_new(STORE_ANSWER, NULL);
	job->answer->request = *number;
	job->answer->reason = "no connection";
	job->answer->records = g_ptr_array_new_with_free_func((GDestroyNotify)store_record_free);
	g_hash_table_insert(self->jobs, number, job);
	return *number;
}

static void finish_job(ZookeeperStore *self, guint64 number)
{
	Job *job = find_job(self, number);

	g_queue_push_tail(&self->messages, g_steal_pointer(&job->answer));
	g_hash_table_remove(self->jobs, &number);
}

static SessionRequest *session_request_new(guint64 job, Purpose purpose, const char *key)
{
	SessionRequest *request = g_new(SessionRequest, 1);

	*request = (SessionRequest){job, purpose, g_strdup(key)};
	return request;
}

/* Adds a request to a job. @number: number of the request */
static void expect_reply(ZookeeperStore *self, guint64 job, guint64 number, Purpose purpose,
			 const char *key)
{
	guint64 *copy = g_new(guint64, 1);

	*copy = number;
	find_job(self, job)->n_open++;
	g_hash_table_insert(self->requests, copy, session_request_new(job, purpose, key));
}

/* Answers UNSURE, because there is no session. */
static guint64 answer_unsure(ZookeeperStore *self)
{
	guint64 job = job_new(self);

	find_job(self, job)->answer->outcome = STORE_UNSURE;
	finish_job(self, job);
	self->store.wake(self->store.wake_data);
	return job;
}

static guint64 store_read(Store *store, const char *key, gboolean fresh)
{
	ZookeeperStore *self = (ZookeeperStore *)store;
	guint64 job;

	if (self->session == NULL)
		return answer_unsure(self);
	job = job_new(self);
	/* sync first, because this ZooKeeper server may be behind the one that accepted the
	 * write */
	if (fresh)
		expect_reply(self, job, zookeeper_session_sync(self->session, key), FOR_SYNC, key);
	expect_reply(self, job, zookeeper_session_get(self->session, key, FALSE), FOR_READ, key);
	return job;
}

static guint64 store_list(Store *store, const char *prefix, gboolean fresh, gboolean watch)
{
	ZookeeperStore *self = (ZookeeperStore *)store;
	guint64 job;

	if (self->session == NULL)
		return answer_unsure(self);
	job = job_new(self);
	if (fresh)
		expect_reply(self, job, zookeeper_session_sync(self->session, prefix), FOR_SYNC,
			     prefix);
	expect_reply(self, job, zookeeper_session_children(self->session, prefix, watch),
		     FOR_CHILDREN, prefix);
	return job;
}

static guint64 store_commit(Store *store, const StoreWrite *writes, guint n_writes)
{
	ZookeeperStore *self = (ZookeeperStore *)store;
	const StoreWrite *last = &writes[n_writes - 1];
	ZookeeperWrite parts[STORE_MAX_WRITES];
	guint64 job, request;

	g_assert(n_writes >= 1 && n_writes <= STORE_MAX_WRITES);
	if (self->session == NULL)
		return answer_unsure(self);
	for (guint i = 0; i < n_writes; i++)
		parts[i] = (ZookeeperWrite){
			.type = writes[i].data == NULL            ? ZOOKEEPER_CHECK
				: writes[i].version == STORE_NONE ? ZOOKEEPER_CREATE
								  : ZOOKEEPER_SET,
			.path = writes[i].key,
			.data = writes[i].data,
			/* STORE_ANY becomes -1, which means any version for ZooKeeper; a creation
			 * has no version */
			.version = MAX(writes[i].version, -1),
		};
	job = job_new(self);
	if (n_writes == 1 && last->version == STORE_NONE)
		request = zookeeper_session_create(self->session, last->key, last->data,
						   last->is_ephemeral);
	else
		request = zookeeper_session_commit(self->session, parts, n_writes);
	expect_reply(self, job, request, FOR_COMMIT, last->key);
	return job;
}

static guint64 store_copy_access(Store *store, const char *key)
{
	ZookeeperStore *self = (ZookeeperStore *)store;
	guint64 job;

	if (self->session == NULL)
		return answer_unsure(self);
	job = job_new(self);
	expect_reply(self, job, zookeeper_session_copy_acl(self->session, key), FOR_ACL, key);
	return job;
}

static void store_drop(Store *store, guint64 request)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	g_hash_table_remove(self->jobs, &request);
}

static void store_erase(Store *store, const char *key)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	if (self->session != NULL)
		zookeeper_session_delete(self->session, key);
}

static void set_watch(ZookeeperStore *self)
{
	self->watch_request = zookeeper_session_exists(self->session, self->watched, TRUE);
}

static void store_watch(Store *store, const char *key)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	if (self->session == NULL)
		return;
	g_free(self->watched);
	self->watched = g_strdup(key);
	set_watch(self);
}

static guint64 store_check_access(Store *store, guint datacenter_id)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	if (self->auth == NULL)
		return 0;
	if (self->session == NULL)
		return answer_unsure(self);
	g_clear_pointer(&self->access, access_check_free);
	self->access = access_check_new(self->session, self->root, datacenter_id);
	return self->access_job = job_new(self);
}

static char *store_describe_remedy(Store *store, const char *key)
{
	const ZookeeperStore *self = (const ZookeeperStore *)store;

	return g_strdup_printf("close it with ZooKeeper's zkCli.sh: addauth digest "
			       "%.*s:PASSWORD, then setAcl -R %s auth::cdrwa",
			       (int)strcspn(self->auth, ":"), self->auth, key);
}

/* Replies */

static StoreOutcome outcome_of(ZookeeperOutcome outcome)
{
	switch (outcome) {
	case ZOOKEEPER_OK:
		return STORE_OK;
	case ZOOKEEPER_NO_NODE:
		return STORE_ABSENT;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
		return STORE_CONFLICT;
	case ZOOKEEPER_NO_AUTH:
		return STORE_DENIED;
	case ZOOKEEPER_REFUSED:
		return STORE_REFUSED;
	case ZOOKEEPER_UNSURE:
		break;
	}
	return STORE_UNSURE;
}

/* Adds a record to the answer. @message: its data is moved to the record */
static void add_record(const ZookeeperStore *self, StoreMessage *answer, const char *key,
		       ZookeeperMessage *message)
{
	StoreRecord *record = g_new(StoreRecord, 1);

	*record = (StoreRecord){
		.key = g_strdup(key),
		.data = g_steal_pointer(&message->data),
		.length = message->length,
		.version = message->stat.version,
		.order = message->stat.created_order,
		.created_ms = message->stat.created_ms,
		.modified_ms = message->stat.modified_ms,
		.is_own = message->stat.owner_session != 0 &&
			  message->stat.owner_session == self->session_id,
	};
	g_ptr_array_add(answer->records, record);
}

static void send_reads(ZookeeperStore *self)
{
	while (self->n_reads < MAX_READS && !g_queue_is_empty(&self->to_read)) {
		SessionRequest *request = g_queue_pop_head(&self->to_read);
		guint64 *number;

		if (find_job(self, request->job) == NULL) { /* the job was dropped */
			session_request_free(request);
			continue;
		}
		number = g_new(guint64, 1);
		*number = zookeeper_session_get(self->session, request->key, FALSE);
		g_hash_table_insert(self->requests, number, request);
		self->n_reads++;
	}
}

static void take_job_reply(ZookeeperStore *self, const SessionRequest *request,
			   ZookeeperMessage *message)
{
	Job *job = find_job(self, request->job);
	StoreMessage *answer = job->answer;
	gboolean is_child = request->purpose == FOR_CHILD;

	if (message->error != 0) {
		answer->error = message->error;
		answer->remedy = message->remedy;
	}
	answer->sent_ns = message->sent_ns;
	answer->received_ns = message->received_ns;
	if (is_child && message->outcome == ZOOKEEPER_NO_AUTH) {
		add_record(self, answer, request->key, message);
	} else if (message->outcome != ZOOKEEPER_OK) {
		/* a child may have been deleted since; if several requests fail, the first error is
		 * used */
		if ((!is_child || message->outcome != ZOOKEEPER_NO_NODE) &&
		    answer->outcome == STORE_OK) {
			answer->outcome = outcome_of(message->outcome);
			answer->reason = message->reason;
			answer->failed = message->failed;
		}
	} else if (request->purpose == FOR_CHILDREN) {
		for (char **name = message->children; *name != NULL; name++) {
			g_autofree char *key = g_strjoin("/", request->key, *name, NULL);

			job->n_open++;
			g_queue_push_tail(&self->to_read,
					  session_request_new(request->job, FOR_CHILD, key));
		}
	} else if (request->purpose != FOR_SYNC && request->purpose != FOR_ACL) {
		add_record(self, answer, message->path != NULL ? message->path : request->key,
			   message);
	}
	if (--job->n_open == 0)
		finish_job(self, request->job);
}

static void take_reply(ZookeeperStore *self, ZookeeperMessage *message)
{
	const SessionRequest *request = g_hash_table_lookup(self->requests, &message->request);

	if (message->outcome != ZOOKEEPER_UNSURE)
		self->store.heard_at_us = g_get_monotonic_time();
	if (request != NULL) {
		self->n_reads -= request->purpose == FOR_CHILD;
		if (find_job(self, request->job) != NULL)
			take_job_reply(self, request, message);
		g_hash_table_remove(self->requests, &message->request);
		send_reads(self);
	} else if (self->access != NULL && access_check_take(self->access, message)) {
		Job *job = find_job(self, self->access_job);

		if (job != NULL && message->error != 0) {
			job->answer->error = message->error;
			job->answer->remedy = message->remedy;
		}
		if (job != NULL && self->access->is_finished) {
			job->answer->outcome = outcome_of(self->access->outcome);
			job->answer->reason = self->access->reason;
			job->answer->is_open = self->access->is_open;
			job->answer->key = g_strdup(self->access->path != NULL ? self->access->path
									       : self->root);
			finish_job(self, self->access_job);
		}
		if (self->access->is_finished)
			g_clear_pointer(&self->access, access_check_free);
	} else if (message->request == self->watch_request &&
		   message->outcome == ZOOKEEPER_NO_NODE) {
		post_event(self, STORE_GONE, self->watched);
	}
}

/* Connections */

/* Drops all jobs. They will not be answered. */
static void drop_jobs(ZookeeperStore *self)
{
	g_hash_table_remove_all(self->jobs);
	g_queue_clear_full(&self->to_read, (GDestroyNotify)session_request_free);
	g_clear_pointer(&self->access, access_check_free);
}

static void end_session(ZookeeperStore *self, StoreEvent event)
{
	g_clear_pointer(&self->session, zookeeper_session_free);
	if (self->is_connected)
		self->lost_at_us = g_get_monotonic_time();
	self->is_connected = FALSE;
	self->session_id = 0;
	drop_jobs(self);
	g_hash_table_remove_all(self->requests);
	self->n_reads = 0;
	g_clear_pointer(&self->watched, g_free);
	self->watch_request = 0;
	post_event(self, event, NULL);
}

static void on_connected(ZookeeperStore *self, gint64 session_id)
{
	g_autofree char *session = g_strdup_printf("0x%" G_GINT64_MODIFIER "x", session_id);

	if (!self->logged_up)
		log_event(LOG_ZOOKEEPER_CONNECTED, log_text("session", session),
			  log_number("timeout_ms", zookeeper_session_timeout_ms(self->session)));
	self->logged_up = TRUE;
	self->logged_expired = FALSE;
	self->session_id = session_id;
	self->is_connected = TRUE;
	/* requests made since the loss of the previous connection are sent over this one, but are
	 * based on earlier readings */
	drop_jobs(self);
	/* the request for the watch may have been lost; setting it twice is harmless */
	if (self->watched != NULL)
		set_watch(self);
	post_event(self, STORE_UP, NULL);
}

static void take_session_message(ZookeeperStore *self, ZookeeperMessage *message)
{
	g_autofree char *session = NULL;

	switch (message->type) {
	case ZOOKEEPER_OPENED:
	case ZOOKEEPER_NO_NAMES:
	case ZOOKEEPER_NOT_OPENED:
		break;
	case ZOOKEEPER_CONNECTED:
		on_connected(self, message->session);
		break;
	case ZOOKEEPER_DISCONNECTED:
		if (!self->is_connected)
			break;
		self->is_connected = FALSE;
		self->lost_at_us = g_get_monotonic_time();
		post_event(self, STORE_DOWN, NULL);
		break;
	case ZOOKEEPER_EXPIRED:
		session = g_strdup_printf("0x%" G_GINT64_MODIFIER "x", self->session_id);
		self->logged_up = FALSE;
		self->logged_expired = TRUE;
		log_event(LOG_SESSION_EXPIRED, log_text("session", session));
		end_session(self, STORE_SESSION_EXPIRED);
		self->lost_at_us = g_get_monotonic_time();
		/* ZooKeeper itself has expired the session, so the addresses are still correct */
		self->opening.addresses_good = TRUE;
		g_clear_pointer(&self->opening.session, zookeeper_session_free);
		break;
	case ZOOKEEPER_DENIED:
		end_session(self, STORE_AUTH_FAILED);
		((StoreMessage *)g_queue_peek_tail(&self->messages))->text =
			g_strdup("it refuses the user and password in --zookeeper-auth");
		break;
	case ZOOKEEPER_CHANGED:
		if (g_strcmp0(message->path, self->watched) != 0)
			post_event(self, STORE_CHANGED, message->path);
		else if (message->gone)
			post_event(self, STORE_GONE, message->path);
		else
			set_watch(self);
		break;
	case ZOOKEEPER_REPLY:
		take_reply(self, message);
		break;
	}
}

/* Handles one message of the session. Returns: %FALSE if there is none */
static gboolean take_from_session(ZookeeperStore *self)
{
	g_autoptr(ZookeeperMessage) message = NULL;

	if (self->session != NULL)
		message = zookeeper_session_take(self->session);
	if (message == NULL)
		return FALSE;
	take_session_message(self, message);
	return TRUE;
}

/* Opening a session, which will replace the current one. Until then, the current session keeps
 * trying to connect, because DNS lookups may take a minute. */

/* Returns the monotonic time at which to open a session; G_MAXINT64 if none is needed, or one is
 * being opened. */
static gint64 open_at_us(const ZookeeperStore *self)
{
	gint64 patience_ms, n_addresses = 0;

	if (self->is_connected || self->opening.session != NULL)
		return G_MAXINT64;
	if (self->session == NULL)
		return self->opening.next_at_us;
	/* ZooKeeper's client tries each address for at most two thirds of a session timeout; a name
	 * can have several addresses, separated by commas */
	for (char **each = self->opening.addresses; each != NULL && *each != NULL; each++) {
		n_addresses += **each != '\0';
		for (const char *c = *each; (c = strchr(c, ',')) != NULL; c++)
			n_addresses++;
	}
	patience_ms =
		MAX(TIMEOUTS_TO_REPLACE, n_addresses) * zookeeper_session_timeout_ms(self->session);
	return MAX(self->opening.next_at_us, MAX(self->lost_at_us, self->opening.opened_at_us) +
						     patience_ms * G_TIME_SPAN_MILLISECOND);
}

/* If the new session is open, replaces the previous one with it. */
static void take_opened_session(ZookeeperStore *self)
{
	g_autoptr(ZookeeperMessage) message = NULL;

	if (self->is_connected) /* connected, so no other session is needed */
		g_clear_pointer(&self->opening.session, zookeeper_session_free);
	if (self->opening.session != NULL)
		message = zookeeper_session_take(self->opening.session);
	if (message == NULL)
		return;
	/* neither is set if the thread for the DNS lookups could not be started */
	if (!self->opening.addresses_good &&
	    (message->unknown != NULL || message->addresses != NULL)) {
		/* log it once, until all names are resolved again */
		if (message->unknown != NULL && self->opening.unknown == NULL)
			log_event(LOG_ZOOKEEPER_RESOLVE_FAILED,
				  log_text("error", message->unknown));
		if (message->unknown == NULL && self->opening.unknown != NULL)
			log_event(LOG_ZOOKEEPER_RESOLVE_RECOVERED,
				  log_number("failures", self->opening.failures));
		self->opening.failures = message->unknown != NULL ? self->opening.failures + 1 : 0;
		g_free(self->opening.unknown);
		self->opening.unknown = g_steal_pointer(&message->unknown);
	}
	self->opening.addresses_good = FALSE;
	if (message->addresses != NULL) {
		g_strfreev(self->opening.addresses);
		self->opening.addresses = g_steal_pointer(&message->addresses);
	}
	if (message->failure != NULL)
		log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", message->failure));
	if (message->type != ZOOKEEPER_OPENED) {
		g_clear_pointer(&self->opening.session, zookeeper_session_free);
		self->opening.next_at_us = g_get_monotonic_time() + OPEN_INTERVAL_US;
		return;
	}
	self->opening.opened_at_us = g_get_monotonic_time();
	if (self->session != NULL)
		end_session(self, STORE_SESSION_REPLACED);
	self->session = g_steal_pointer(&self->opening.session);
}

static gint64 log_loss_at_us(const ZookeeperStore *self)
{
	if (self->is_connected || (!self->logged_up && !self->logged_expired))
		return G_MAXINT64;
	return self->lost_at_us + LOSS_LOGGED_US;
}

static StoreMessage *store_take(Store *store)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	while (g_queue_is_empty(&self->messages) && take_from_session(self))
		;
	if (g_queue_is_empty(&self->messages)) {
		take_opened_session(self);
		while (g_queue_is_empty(&self->messages) && take_from_session(self))
			;
	}
	if (g_queue_is_empty(&self->messages)) {
		if (g_get_monotonic_time() >= log_loss_at_us(self)) {
			self->logged_up = FALSE;
			self->logged_expired = FALSE;
			log_event(LOG_ZOOKEEPER_LOST, log_text("servers", self->servers));
			post_event(self, STORE_STILL_DOWN, NULL);
		}
		if (g_get_monotonic_time() >= open_at_us(self)) {
			const ZookeeperSessionConfig config = {
				.servers = self->servers,
				.known = self->opening.addresses,
				.look_up = !self->opening.addresses_good,
				.certificates = self->certificates,
				.auth = self->auth,
				.timeout_ms = self->session_timeout_ms,
				.wake = store->wake,
				.user_data = store->wake_data,
			};

			self->opening.next_at_us = g_get_monotonic_time() + OPEN_INTERVAL_US;
			self->opening.session = zookeeper_session_new(&config);
		}
	}
	return g_queue_pop_head(&self->messages);
}

static gint64 store_due_at_us(const Store *store)
{
	const ZookeeperStore *self = (const ZookeeperStore *)store;

	return MIN(open_at_us(self), log_loss_at_us(self));
}

static gint64 store_session_timeout_ms(const Store *store)
{
	const ZookeeperStore *self = (const ZookeeperStore *)store;

	return self->session != NULL ? zookeeper_session_timeout_ms(self->session)
				     : self->session_timeout_ms;
}

/* The reason why there is no connection */

static gboolean store_find_why_down(Store *store, char **out_why)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	if (self->opening.probe == NULL && self->opening.addresses != NULL) {
		g_autofree char *addresses = name_resolution_join(self->opening.addresses);

		self->opening.probe = reach_probe_new(addresses, self->certificates,
						      self->store.wake, self->store.wake_data);
	}
	if (self->opening.probe != NULL)
		return reach_probe_take(self->opening.probe, out_why);
	*out_why = NULL; /* no thread could be started for the probe */
	if (self->opening.addresses == NULL && self->opening.unknown != NULL)
		*out_why =
			g_strdup_printf("its name cannot be resolved (%s)", self->opening.unknown);
	else if (self->opening.addresses == NULL && self->opening.session != NULL)
		*out_why = g_strdup("its DNS lookup has not finished yet");
	return TRUE;
}

static void store_forget_why_down(Store *store)
{
	g_clear_pointer(&((ZookeeperStore *)store)->opening.probe, reach_probe_free);
}

gboolean zookeeper_store_has_no_names(const Store *store)
{
	const ZookeeperStore *self = (const ZookeeperStore *)store;

	return self->opening.addresses == NULL && self->opening.unknown != NULL;
}

static void store_close(Store *store, gint64 timeout_ms)
{
	ZookeeperStore *self = (ZookeeperStore *)store;

	g_clear_pointer(&self->opening.session, zookeeper_session_free);
	g_clear_pointer(&self->opening.probe, reach_probe_free);
	if (self->session != NULL)
		zookeeper_session_close(self->session, timeout_ms);
	drop_jobs(self);
	g_queue_clear_full(&self->messages, (GDestroyNotify)store_message_free);
	g_hash_table_unref(self->jobs);
	g_hash_table_unref(self->requests);
	g_strfreev(self->opening.addresses);
	g_free(self->opening.unknown);
	g_free(self->watched);
	g_free(self->servers);
	g_free(self->root);
	g_free(self->auth);
	g_free(self->certificates);
	g_free(self);
}

Store *zookeeper_store_new(const ZookeeperStoreConfig *config)
{
	static const StoreOps OPS = {
		.read = store_read,
		.list = store_list,
		.commit = store_commit,
		.drop = store_drop,
		.erase = store_erase,
		.watch = store_watch,
		.check_access = store_check_access,
		.copy_access = store_copy_access,
		.describe_remedy = store_describe_remedy,
		.take = store_take,
		.due_at_us = store_due_at_us,
		.session_timeout_ms = store_session_timeout_ms,
		.find_why_down = store_find_why_down,
		.forget_why_down = store_forget_why_down,
		.close = store_close,
	};
	ZookeeperStore *self = g_new0(ZookeeperStore, 1);

	self->store = (Store){
		.ops = &OPS,
		.name = "ZooKeeper",
		.option = "--zookeeper",
		.root_option = "another root (--zookeeper HOSTS/ROOT)",
		.access_remedy = "specify the user and password of the other servers with "
				 "--zookeeper-auth",
	};
	self->servers = g_strdup(config->hosts->servers);
	self->root = g_strdup(config->hosts->root);
	/* otherwise the connection would not use TLS */
	g_assert(!config->hosts->is_tls || config->hosts->certificates != NULL);
	self->certificates = g_strdup(config->hosts->certificates);
	self->auth = g_strdup(config->auth);
	self->session_timeout_ms = config->session_timeout_ms;
	g_queue_init(&self->messages);
	g_queue_init(&self->to_read);
	self->jobs = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
					   (GDestroyNotify)job_free);
	self->requests = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
					       (GDestroyNotify)session_request_free);
	return &self->store;
}
