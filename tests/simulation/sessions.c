/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/sessions.h"

#include <string.h>

#include "tests/simulation/ensemble.h"

/* Latencies, one way. */
#define LATENCY_MIN_US      50
#define LATENCY_MAX_US      1500
#define LONG_LATENCY_MAX_US MS(400)
#define LONG_LATENCY_ODDS   0.02
#define MAX_LATE_US         SECONDS(6)
#define RECONNECT_MIN_US    MS(10)
#define RECONNECT_MAX_US    MS(300)
#define CLOSE_LOST_ODDS     0.1
#define NAMES_SILENT_ODDS   0.01

typedef enum { WATCH_DATA, WATCH_CREATION, WATCH_CHILDREN } WatchKind;

/* A watch. The server sets it when it executes the read, the client when it receives the reply. */
typedef struct {
	char *path;
	WatchKind kind;
	gboolean is_active; /* the client has received the reply */
	gboolean is_fired;  /* the server has sent the event, and the client has not received it */
} Watch;

/* An event of a watch, under way to the client. */
typedef struct {
	ZookeeperSession *session;
	char *path;
	gboolean is_of_children;
	gboolean gone;
} WatchEvent;

typedef struct {
	ZookeeperSession *session; /* NULL if no session waits for the reply */
	gint64 session_id;
	guint64 number;
	EnsembleRequest request;
	gboolean watch;
	Watch *set_watch; /* (nullable): the watch, when the server has set it */
	guint64 seen;     /* number of the last write that the server had applied at its reply */
	gint64 sent_ns;
	guint server;
	gboolean is_stuck;       /* it has arrived, but the connection is silent */
	gboolean is_lost;        /* the ensemble never executes it */
	gint64 late_at_us;       /* the earliest time of its execution */
	ZookeeperMessage *reply; /* NULL if it has not been executed */
} Request;

struct _ZookeeperSession {
	ZookeeperSessionConfig config;
	char *auth;
	const WorldMachine *machine;
	GQueue messages;
	guint64 last_request;
	gboolean is_opened;
	gboolean is_connected;
	gboolean is_silent; /* connected, but no message passes */
	gboolean is_over;   /* expired, closed or killed: it connects no more */
	gboolean is_closed; /* closed or killed: it receives no message */
	gint64 id;          /* 0 if it has never been connected */
	guint server;
	guint generation;       /* number of broken connections */
	guint64 seen;           /* number of the last write that it has seen */
	gint64 last_contact_us; /* time of its last message to the ensemble on an ended connection
				 */
	gint64 cut_until_us;
	gint64 last_arrival_us, last_reply_us; /* requests and replies keep their order */
	GQueue outstanding;                    /* (element-type Request) */
	GQueue queued;                         /* (element-type Request): for the next connection */
	GPtrArray *watches;
};

static struct {
	GPtrArray *all;    /* freed at the end, because events refer to them */
	GPtrArray *live;   /* sessions that are not over */
	GHashTable *by_id; /* session ID to session */
	gint64 (*last_run_us)(const WorldMachine *machine);
	gint64 names_lost_until_us;
	gdouble moved_odds;
	gdouble open_error_odds;
	gboolean open_errors_ephemeral;
	gdouble lost_odds, late_odds; /* for requests under way when a connection breaks */
	SessionsCounts counts;
} sessions;

static void try_connect(gpointer data, guint64 generation);

void sessions_set_last_run(gint64 (*last_run_us)(const WorldMachine *machine))
{
	sessions.last_run_us = last_run_us;
}

SessionsCounts sessions_counts(void)
{
	return sessions.counts;
}

static gint64 draw_latency_us(void)
{
	return world_between(LATENCY_MIN_US,
			     world_odds(LONG_LATENCY_ODDS) ? LONG_LATENCY_MAX_US : LATENCY_MAX_US);
}

/* Draws the arrival of a message that is sent now. Messages keep their order: @last_us. */
static gint64 draw_arrival_us(gint64 *last_us)
{
	gint64 arrival_us = world_now_us() + draw_latency_us();

	*last_us = MAX(*last_us, arrival_us);
	return *last_us;
}

/* Messages to the owner */

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

/* @message: (transfer full) */
static void post_message(ZookeeperSession *self, ZookeeperMessage *message)
{
	if (self->is_closed) {
		zookeeper_message_free(message);
		return;
	}
	g_queue_push_tail(&self->messages, message);
	self->config.wake(self->config.user_data);
}

static ZookeeperMessage *message_new(ZookeeperMessageType type)
{
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	message->type = type;
	return message;
}

static void post_event(ZookeeperSession *self, ZookeeperMessageType type)
{
	static const char *const NAMES[] = {
		[ZOOKEEPER_CONNECTED] = "connected",
		[ZOOKEEPER_DISCONNECTED] = "disconnected",
		[ZOOKEEPER_EXPIRED] = "expired",
	};
	ZookeeperMessage *message = message_new(type);

	world_note(self->machine, "session %" G_GINT64_FORMAT " is %s", self->id, NAMES[type]);
	message->session = self->id;
	post_message(self, message);
}

/* Watches */

static void watch_free(gpointer data)
{
	Watch *watch = data;

	g_free(watch->path);
	g_free(watch);
}

static gboolean is_parent(const char *parent, const char *path)
{
	gsize length = strlen(parent);

	return strncmp(parent, path, length) == 0 && path[length] == '/' &&
	       strchr(path + length + 1, '/') == NULL;
}

static gboolean does_watch_match(const Watch *watch, const char *path, gboolean is_of_children,
				 gboolean gone)
{
	return g_str_equal(watch->path, path) &&
	       (gone || (watch->kind == WATCH_CHILDREN) == is_of_children);
}

/* The client runs its watch function once for an event, even if several watches match. */
static void on_watch_event(gpointer data, guint64 generation)
{
	WatchEvent *event = data;
	ZookeeperSession *self = event->session;
	gboolean is_watched = FALSE;
	ZookeeperMessage *message;

	for (guint place = self->watches->len; place > 0 && self->generation == generation;
	     place--) {
		const Watch *watch = self->watches->pdata[place - 1];

		/* a watch that is not active yet belongs to a later event */
		if (!watch->is_active || !watch->is_fired ||
		    !does_watch_match(watch, event->path, event->is_of_children, event->gone))
			continue;
		is_watched = TRUE;
		g_ptr_array_remove_index(self->watches, place - 1);
	}
	if (is_watched) {
		message = message_new(ZOOKEEPER_CHANGED);
		message->path = g_strdup(event->path);
		message->gone = event->gone;
		post_message(self, message);
	}
	g_free(event->path);
	g_free(event);
}

/* The server sends one event for all watches that match, after its earlier replies. */
static void send_event(ZookeeperSession *self, const char *path, gboolean is_of_children,
		       gboolean gone)
{
	gboolean is_watched = FALSE;
	WatchEvent *event;

	for (guint i = 0; i < self->watches->len; i++) {
		Watch *watch = self->watches->pdata[i];

		if (watch->is_fired || !does_watch_match(watch, path, is_of_children, gone))
			continue;
		watch->is_fired = is_watched = TRUE;
	}
	if (!is_watched)
		return;
	event = g_new(WatchEvent, 1);
	*event = (WatchEvent){self, g_strdup(path), is_of_children, gone};
	world_at(draw_arrival_us(&self->last_reply_us), on_watch_event, event, self->generation);
}

static void send_parent_event(ZookeeperSession *self, const char *path)
{
	for (guint i = 0; i < self->watches->len; i++) {
		const Watch *watch = self->watches->pdata[i];

		if (watch->kind == WATCH_CHILDREN && is_parent(watch->path, path)) {
			send_event(self, watch->path, TRUE, FALSE);
			return;
		}
	}
}

static void on_applied(guint server, const char *path, EnsembleChange change)
{
	for (guint i = 0; i < sessions.live->len; i++) {
		ZookeeperSession *self = sessions.live->pdata[i];

		if (!self->is_connected || self->server != server || self->is_silent)
			continue;
		send_event(self, path, FALSE, change == ENSEMBLE_GONE);
		if (change != ENSEMBLE_CHANGED)
			send_parent_event(self, path);
	}
}

/* On a new connection, the client sends its watches and the number of the last write it has seen.
 */
static void set_watches_again(ZookeeperSession *self)
{
	for (guint i = 0; i < self->watches->len; i++) {
		const Watch *watch = self->watches->pdata[i];
		guint64 changed = 0, children_changed = 0;
		gboolean exists =
			ensemble_find(self->server, watch->path, &changed, &children_changed);

		if (watch->kind == WATCH_CREATION) {
			if (exists)
				send_event(self, watch->path, FALSE, FALSE);
		} else if (!exists) {
			send_event(self, watch->path, FALSE, TRUE);
		} else if ((watch->kind == WATCH_CHILDREN ? children_changed : changed) >
			   self->seen) {
			send_event(self, watch->path, watch->kind == WATCH_CHILDREN, FALSE);
		}
	}
}

static WatchKind watch_kind(const Request *request)
{
	if (request->request.operation == ENSEMBLE_CHILDREN)
		return WATCH_CHILDREN;
	return request->reply->outcome == ZOOKEEPER_NO_NODE ? WATCH_CREATION : WATCH_DATA;
}

static void add_watch(ZookeeperSession *self, Request *request)
{
	const char *path = request->request.path;
	Watch *watch;

	if (!request->watch || (request->reply->outcome != ZOOKEEPER_OK &&
				(request->request.operation != ENSEMBLE_EXISTS ||
				 request->reply->outcome != ZOOKEEPER_NO_NODE)))
		return;
	for (guint i = 0; i < self->watches->len; i++) {
		watch = self->watches->pdata[i];
		if (!watch->is_fired && watch->kind == watch_kind(request) &&
		    g_str_equal(watch->path, path)) {
			request->set_watch = watch;
			return;
		}
	}
	watch = g_new(Watch, 1);
	*watch = (Watch){g_strdup(path), watch_kind(request), FALSE, FALSE};
	g_ptr_array_add(self->watches, watch);
	request->set_watch = watch;
}

/* The server forgets the watches of a connection that breaks. The client remembers those for which
 * it has received a reply but no event. */
static void forget_events(ZookeeperSession *self)
{
	for (guint place = self->watches->len; place > 0; place--) {
		Watch *watch = self->watches->pdata[place - 1];

		watch->is_fired = FALSE;
		if (!watch->is_active)
			g_ptr_array_remove_index(self->watches, place - 1);
	}
}

/* Requests */

static void request_free(gpointer data)
{
	Request *request = data;

	ensemble_request_clear(&request->request);
	g_clear_pointer(&request->reply, zookeeper_message_free);
	g_free(request);
}

static void post_unsure(ZookeeperSession *self, const Request *request)
{
	ZookeeperMessage *message = message_new(ZOOKEEPER_REPLY);

	message->request = request->number;
	message->outcome = ZOOKEEPER_UNSURE;
	message->reason = "connection loss";
	message->sent_ns = request->sent_ns;
	message->received_ns = world_boottime_ns(self->machine);
	post_message(self, message);
}

static void on_reply(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	Request *request = data;
	ZookeeperSession *self = request->session;

	if (self != NULL) {
		g_queue_remove(&self->outstanding, request);
		if (request->set_watch != NULL)
			request->set_watch->is_active = TRUE;
		self->seen = MAX(self->seen, request->seen);
		request->reply->request = request->number;
		request->reply->sent_ns = request->sent_ns;
		request->reply->received_ns = world_boottime_ns(self->machine);
		post_message(self, g_steal_pointer(&request->reply));
	}
	request_free(request);
}

static void break_connection(ZookeeperSession *self);

/* A real ensemble drops requests of a connection if their session has a newer connection. */
static gboolean is_superseded(const Request *request)
{
	const ZookeeperSession *owner =
		g_hash_table_lookup(sessions.by_id, GSIZE_TO_POINTER(request->session_id));

	return sessions.late_odds <= 0 && owner->is_connected;
}

/* The reply of a server if the session has moved to another server. */
static ZookeeperMessage *moved_reply_new(void)
{
	ZookeeperMessage *reply = message_new(ZOOKEEPER_REPLY);

	reply->outcome = ZOOKEEPER_UNSURE;
	reply->reason = "session moved to another server";
	return reply;
}

static gboolean draw_open_error(const Request *request)
{
	if (sessions.open_errors_ephemeral &&
	    request->request.operation != ENSEMBLE_CREATE_EPHEMERAL)
		return FALSE;
	return sessions.open_error_odds > 0 && world_odds(sessions.open_error_odds);
}

/* Returns: (nullable): as ensemble_execute() */
static ZookeeperMessage *execute_with_open_error(const Request *request)
{
	ZookeeperMessage *reply = message_new(ZOOKEEPER_REPLY);

	if (!sessions.open_errors_ephemeral && world_odds(0.5)) {
		g_clear_pointer(&reply, zookeeper_message_free);
		reply = ensemble_execute(request->server, request->session_id, &request->request);
		if (reply == NULL)
			return NULL;
	}
	reply->outcome = ZOOKEEPER_UNSURE;
	reply->reason = "simulated";
	reply->error = SESSIONS_OPEN_ERROR;
	return reply;
}

/* Returns: (nullable): as ensemble_execute() */
static ZookeeperMessage *execute_request(const Request *request)
{
	if (request->session != NULL && world_odds(sessions.moved_odds))
		return moved_reply_new();
	if (request->session != NULL && draw_open_error(request))
		return execute_with_open_error(request);
	return ensemble_execute(request->server, request->session_id, &request->request);
}

static void on_arrival(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	Request *request = data;
	ZookeeperSession *self = request->session;

	if (request->is_lost || (self == NULL && is_superseded(request))) {
		request_free(request);
	} else if (self != NULL && self->is_silent) {
		request->is_stuck = TRUE; /* until the connection breaks */
	} else if (world_now_us() < request->late_at_us) {
		world_at(request->late_at_us, on_arrival, request, 0);
	} else {
		request->reply = execute_request(request);
		if (self == NULL) {
			world_note(NULL, "a request of session %" G_GINT64_FORMAT " arrives late",
				   request->session_id);
			request_free(request);
		} else if (request->reply == NULL) { /* its session has expired */
			request->is_stuck = TRUE;
			break_connection(self);
		} else {
			add_watch(self, request);
			request->seen = ensemble_applied(request->server);
			world_at(draw_arrival_us(&self->last_reply_us), on_reply, request, 0);
		}
	}
}

static void send_request(ZookeeperSession *self, Request *request)
{
	request->session = self;
	request->session_id = self->id;
	request->server = self->server;
	g_queue_push_tail(&self->outstanding, request);
	world_at(draw_arrival_us(&self->last_arrival_us), on_arrival, request, 0);
}

/* Draws whether and when a request under way is executed after the end of its connection. */
static void orphan_request(Request *request)
{
	request->session = NULL;
	if (request->reply != NULL) /* it has been executed */
		return;
	request->is_lost = world_odds(sessions.lost_odds);
	if (world_odds(sessions.late_odds))
		request->late_at_us = world_now_us() + world_scaled(1000, MAX_LATE_US);
	sessions.counts.lost += request->is_lost;
	sessions.counts.late += !request->is_lost;
	if (request->is_stuck)
		world_at(world_now_us(), on_arrival, request, 0);
}

/* Connections */

static void fail_queued(ZookeeperSession *self)
{
	Request *request;

	while ((request = g_queue_pop_head(&self->queued)) != NULL) {
		post_unsure(self, request);
		request_free(request);
	}
}

static void connect_later(ZookeeperSession *self)
{
	gint64 at_us = world_now_us() + world_between(RECONNECT_MIN_US, RECONNECT_MAX_US);

	world_at(MAX(self->cut_until_us, at_us), try_connect, self, self->generation);
}

static void break_connection(ZookeeperSession *self)
{
	gboolean was_silent = self->is_silent;
	Request *request;

	if (!self->is_connected)
		return;
	self->is_connected = self->is_silent = FALSE;
	self->generation++;
	forget_events(self);
	if (!was_silent)
		self->last_contact_us = MIN(world_now_us(), sessions.last_run_us(self->machine));
	sessions.counts.breaks++;
	post_event(self, ZOOKEEPER_DISCONNECTED);
	while ((request = g_queue_pop_head(&self->outstanding)) != NULL) {
		post_unsure(self, request);
		orphan_request(request);
	}
	fail_queued(self);
	if (!self->is_over)
		connect_later(self);
}

static void try_connect(gpointer data, guint64 generation)
{
	ZookeeperSession *self = data;
	guint server = (guint)world_between(0, ENSEMBLE_SERVERS - 1);
	Request *request;

	if (self->is_over || self->is_connected || self->generation != generation)
		return;
	if (world_now_us() < self->cut_until_us ||
	    sessions.last_run_us(self->machine) < world_now_us() ||
	    ensemble_applied(server) < self->seen) {
		if (world_odds(0.5))
			fail_queued(self);
		connect_later(self);
		return;
	}
	if (self->id != 0 && !ensemble_is_session_alive(self->id)) {
		post_event(self, ZOOKEEPER_EXPIRED);
		fail_queued(self);
		self->is_over = TRUE;
		g_ptr_array_remove_fast(sessions.live, self);
		return;
	}
	if (self->id == 0) {
		self->id = ensemble_open_session(self->auth, self->config.timeout_ms);
		g_hash_table_insert(sessions.by_id, GSIZE_TO_POINTER(self->id), self);
	}
	self->is_connected = TRUE;
	self->server = server;
	self->last_arrival_us = self->last_reply_us = world_now_us();
	post_event(self, ZOOKEEPER_CONNECTED);
	set_watches_again(self);
	self->seen = MAX(self->seen, ensemble_applied(server));
	while ((request = g_queue_pop_head(&self->queued)) != NULL)
		send_request(self, request);
}

static gint64 find_last_contact(gint64 id)
{
	const ZookeeperSession *self = g_hash_table_lookup(sessions.by_id, GSIZE_TO_POINTER(id));

	return self->is_connected && !self->is_silent
		       ? MIN(world_now_us(), sessions.last_run_us(self->machine))
		       : self->last_contact_us;
}

static void on_session_ended(gint64 id)
{
	ZookeeperSession *self = g_hash_table_lookup(sessions.by_id, GSIZE_TO_POINTER(id));

	if (!self->is_silent)
		break_connection(self);
}

/* The first message: whether the names of the servers were resolved. */
static void on_opened(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	ZookeeperSession *self = data;
	gboolean is_lost = self->config.look_up && (world_now_us() < sessions.names_lost_until_us ||
						    world_odds(NAMES_SILENT_ODDS));
	gboolean is_known = !is_lost || self->config.known != NULL;
	ZookeeperMessage *message;

	if (self->is_over)
		return;
	message = message_new(is_known ? ZOOKEEPER_OPENED : ZOOKEEPER_NO_NAMES);
	if (is_lost)
		message->unknown = g_strdup("zk: the name server does not answer");
	if (is_known)
		message->addresses = g_strsplit("127.0.0.1:2181", ",", -1);
	self->is_opened = TRUE;
	post_message(self, message);
	if (is_known)
		world_after(world_between(500, MS(20)), try_connect, self, self->generation);
}

/* worker/zookeeper/session.h */

/* Returns: until when a machine is cut off, according to its last session; the next session
 * inherits this */
static gint64 find_cut(const WorldMachine *machine)
{
	for (guint i = sessions.all->len; i > 0; i--) {
		const ZookeeperSession *before = sessions.all->pdata[i - 1];

		if (before->machine == machine)
			return before->cut_until_us;
	}
	return 0;
}

ZookeeperSession *zookeeper_session_new(const ZookeeperSessionConfig *config)
{
	ZookeeperSession *self = g_new0(ZookeeperSession, 1);

	world_pass_checkpoint(WORLD_CHECKPOINT_OUTSIDE);
	self->config = *config;
	self->auth = g_strdup(config->auth);
	self->machine = world_machine();
	self->cut_until_us = find_cut(self->machine);
	self->watches = g_ptr_array_new_with_free_func(watch_free);
	g_ptr_array_add(sessions.all, self);
	g_ptr_array_add(sessions.live, self);
	world_after(world_between(100, MS(5)), on_opened, self, 0);
	return self;
}

static void end_session(ZookeeperSession *self)
{
	Request *request;

	self->is_over = self->is_closed = TRUE;
	g_ptr_array_remove_fast(sessions.live, self);
	if (self->is_connected && !self->is_silent)
		self->last_contact_us = world_now_us();
	self->is_connected = self->is_silent = FALSE;
	while ((request = g_queue_pop_head(&self->outstanding)) != NULL)
		orphan_request(request);
	while ((request = g_queue_pop_head(&self->queued)) != NULL)
		request_free(request);
}

void zookeeper_session_close(ZookeeperSession *self, gint64 timeout_ms G_GNUC_UNUSED)
{
	Request *request;

	world_pass_checkpoint(WORLD_CHECKPOINT_OUTSIDE);
	self->is_closed = TRUE;
	if (self->is_over)
		return;
	if (self->is_connected && !self->is_silent && !world_odds(CLOSE_LOST_ODDS)) {
		request = g_new0(Request, 1);
		request->request.operation = ENSEMBLE_CLOSE;
		request->session_id = self->id;
		request->server = self->server;
		world_at(draw_arrival_us(&self->last_arrival_us), on_arrival, request, 0);
	}
	end_session(self);
}

void zookeeper_session_free(ZookeeperSession *self)
{
	if (self != NULL)
		zookeeper_session_close(self, 0);
}

ZookeeperMessage *zookeeper_session_take(ZookeeperSession *self)
{
	if (!self->is_opened || g_queue_is_empty(&self->messages))
		return NULL;
	world_pass_checkpoint(WORLD_CHECKPOINT_OUTSIDE);
	return g_queue_pop_head(&self->messages);
}

gint64 zookeeper_session_timeout_ms(ZookeeperSession *self)
{
	return self->config.timeout_ms;
}

static guint64 make_request(ZookeeperSession *self, EnsembleRequest request, gboolean watch)
{
	Request *new = g_new0(Request, 1);

	world_pass_checkpoint(WORLD_CHECKPOINT_OUTSIDE);
	new->request = request;
	new->watch = watch;
	new->number = ++self->last_request;
	new->sent_ns = world_boottime_ns(self->machine);
	sessions.counts.requests++;
	if (self->is_connected) {
		send_request(self, new);
	} else {
		g_queue_push_tail(&self->queued, new);
		new->session = self;
		if (self->is_over || world_odds(0.5))
			fail_queued(self);
	}
	return self->last_request;
}

static guint64 make_path_request(ZookeeperSession *self, EnsembleOperation operation,
				 const char *path, const char *data, gboolean watch)
{
	return make_request(self,
			    (EnsembleRequest){.operation = operation,
					      .path = g_strdup(path),
					      .data = g_strdup(data)},
			    watch);
}

#define DEFINE_READ(name, operation)                                                               \
	guint64 zookeeper_session_##name(ZookeeperSession *self, const char *path, gboolean watch) \
	{                                                                                          \
		return make_path_request(self, operation, path, NULL, watch);                      \
	}
DEFINE_READ(get, ENSEMBLE_GET)
DEFINE_READ(exists, ENSEMBLE_EXISTS)
DEFINE_READ(children, ENSEMBLE_CHILDREN)

guint64 zookeeper_session_create(ZookeeperSession *self, const char *path, const char *data,
				 gboolean is_ephemeral)
{
	EnsembleOperation operation = is_ephemeral ? ENSEMBLE_CREATE_EPHEMERAL : ENSEMBLE_CREATE;

	return make_path_request(self, operation, path, data, FALSE);
}

#define DEFINE_REQUEST(name, operation)                                                            \
	guint64 zookeeper_session_##name(ZookeeperSession *self, const char *path)                 \
	{                                                                                          \
		return make_path_request(self, operation, path, NULL, FALSE);                      \
	}
DEFINE_REQUEST(delete, ENSEMBLE_DELETE)
DEFINE_REQUEST(get_acl, ENSEMBLE_GET_ACL)
DEFINE_REQUEST(copy_acl, ENSEMBLE_GET_ACL)
DEFINE_REQUEST(sync, ENSEMBLE_SYNC)

guint64 zookeeper_session_commit(ZookeeperSession *self, const ZookeeperWrite *writes,
				 guint n_writes)
{
	EnsembleRequest request = {.operation = ENSEMBLE_COMMIT, .n_writes = n_writes};

	for (guint i = 0; i < n_writes; i++)
		request.writes[i] = (ZookeeperWrite){writes[i].type, g_strdup(writes[i].path),
						     g_strdup(writes[i].data), writes[i].version};
	return make_request(self, request, FALSE);
}

/* Faults */

static gboolean belongs_to(const ZookeeperSession *self, const WorldMachine *machine)
{
	return machine == NULL || self->machine == machine;
}

static void on_silence_over(gpointer data, guint64 generation)
{
	ZookeeperSession *self = data;

	if (self->generation == generation && self->is_silent)
		break_connection(self);
}

static void cut_session(ZookeeperSession *self, gint64 for_us, gboolean silently)
{
	self->cut_until_us = MAX(self->cut_until_us, world_now_us() + for_us);
	if (!silently || !self->is_connected || self->is_silent) {
		break_connection(self);
		return;
	}
	self->is_silent = TRUE;
	self->last_contact_us = world_now_us();
	world_after(self->config.timeout_ms * MS(2) / 3, on_silence_over, self, self->generation);
}

void sessions_cut(const WorldMachine *machine, gint64 for_us, gboolean silently)
{
	world_note(machine, "is cut off for %.3f s%s", (gdouble)for_us / G_TIME_SPAN_SECOND,
		   silently ? ", silently" : "");
	for (guint i = sessions.live->len; i > 0; i--)
		if (belongs_to(sessions.live->pdata[i - 1], machine))
			cut_session(sessions.live->pdata[i - 1], for_us, silently);
}

void sessions_allow_connections(const WorldMachine *machine)
{
	for (guint i = 0; i < sessions.live->len; i++) {
		ZookeeperSession *self = sessions.live->pdata[i];

		if (!belongs_to(self, machine) || self->is_connected)
			continue;
		self->cut_until_us = 0;
		connect_later(self);
	}
}

void sessions_expire(const WorldMachine *machine)
{
	for (guint i = sessions.live->len; i > 0; i--) {
		const ZookeeperSession *self = sessions.live->pdata[i - 1];

		if (belongs_to(self, machine) && self->id != 0)
			ensemble_expire_session(self->id);
	}
}

void sessions_kill(const WorldMachine *machine)
{
	for (guint i = sessions.live->len; i > 0; i--)
		if (belongs_to(sessions.live->pdata[i - 1], machine))
			end_session(sessions.live->pdata[i - 1]);
}

void sessions_lose_names(gint64 for_us)
{
	sessions.names_lost_until_us = world_now_us() + for_us;
}

void sessions_set_odds(gdouble moved, gdouble lost, gdouble late)
{
	sessions.moved_odds = moved;
	sessions.lost_odds = lost;
	sessions.late_odds = late;
}

void sessions_set_open_errors(gdouble odds, gboolean ephemeral_only)
{
	sessions.open_error_odds = odds;
	sessions.open_errors_ephemeral = ephemeral_only;
}

void sessions_init(void)
{
	memset(&sessions, 0, sizeof(sessions));
	sessions_set_odds(0.0002, 0.4, 0.5);
	sessions.all = g_ptr_array_new();
	sessions.live = g_ptr_array_new();
	sessions.by_id = g_hash_table_new(g_direct_hash, g_direct_equal);
	ensemble_set_clients(find_last_contact, on_session_ended);
	ensemble_set_applied(on_applied);
}

/* Requests under way are not freed: the process ends soon. */
void sessions_clear(void)
{
	for (guint i = 0; i < sessions.all->len; i++) {
		ZookeeperSession *self = sessions.all->pdata[i];

		g_queue_clear_full(&self->messages, (GDestroyNotify)zookeeper_message_free);
		g_ptr_array_unref(self->watches);
		g_free(self->auth);
		g_free(self);
	}
	g_ptr_array_unref(sessions.all);
	g_ptr_array_unref(sessions.live);
	g_hash_table_unref(sessions.by_id);
}
