/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/log.h"
#include "common/socket.h"
#include "core/text.h"
#include "rpc/handshakes.h"

/* The maximum number of connections that are accepted before the main loop continues. */
#define ACCEPT_BATCH 256

/* The pause after an accept() that failed because the system lacked a resource. */
#define PAUSE_MS 100

/* The pause while loops close connections that were shut down to make room, and the maximum number
 * of these pauses when the server stops. */
#define ROOM_PAUSE_MS   1
#define MOST_LAST_TRIES 100

/* The time for a first call when the server stops and another process keeps the listening socket
 * open. Silent connections are closed this long after the last accept. */
#define FIRST_CALL_MS 250

/* If there were this many connections, memory is returned to the system when most of them are
 * closed. The number of connections is checked at this interval. */
#define FLOOD_CONNECTIONS 64
#define FLOOD_CHECK_S     5

/* The file opened to keep a descriptor in reserve. */
#define RESERVE "/dev/null"

struct _RpcServer {
	/* (element-type Loop): never changes, because other threads read it */
	GPtrArray *loops;
	guint n_running; /* number of loops that run, counted from the first */
	/* (element-type guint64): each loop's number of rounds at the last rpc_server_responds() */
	GArray *loop_rounds;
	ConnectionLimits *connections;
	ConnectionLimitsConfig limits;
	gint64 handshake_timeout_ms;
	TlsContext *tls;        /* NULL if no address uses TLS */
	Handshakes *handshakes; /* NULL if no address uses TLS, or before the start */
	Counters *handshake_counters;
	pthread_mutex_t allow_lock; /* protects allow, which the handshake thread also reads */
	AllowList *allow;           /* protected by the lock; if NULL, every client may connect */
	/* largest number of connections since memory was last returned */
	guint peak;
	guint flood_source; /* timer that checks the number of connections; 0 if it is not needed */
	Counters *counters;
	GPtrArray *listeners; /* (element-type Listener) */
	gboolean started;
	/* A descriptor in reserve. It is closed briefly when no descriptors are left, so that a
	 * waiting client can be accepted and refused. -1 if another thread took the descriptor in
	 * between. */
	int reserve_fd;
};

RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error)
{
	g_autoptr(RpcServer) self = g_new0(RpcServer, 1);

	self->limits = config->connections;
	self->handshake_timeout_ms = config->handshake_timeout_ms;
	pthread_mutex_init(&self->allow_lock, NULL);
	self->connections = connection_limits_new(&self->limits);
	self->counters = counter_set_add(counters);
	self->handshake_counters = counter_set_add(counters);
	self->listeners = g_ptr_array_new_with_free_func((GDestroyNotify)listener_free);
	self->loop_rounds = g_array_new(FALSE, TRUE, sizeof(guint64));
	self->reserve_fd = open(RESERVE, O_RDONLY | O_CLOEXEC);
	self->loops = g_ptr_array_new_with_free_func((GDestroyNotify)loop_free);
	for (guint i = 0; i < config->n_loops; i++) {
		Loop *loop = loop_new(&config->service, &config->limits, counter_set_add(counters),
				      config->failed, config->user_data, error);

		if (loop == NULL)
			return NULL;
		g_ptr_array_add(self->loops, loop);
	}
	return g_steal_pointer(&self);
}

void rpc_server_free(RpcServer *self)
{
	if (self == NULL)
		return;
	rpc_server_stop(self, 0);
	if (self->flood_source != 0)
		g_source_remove(self->flood_source);
	g_ptr_array_unref(self->listeners);
	g_ptr_array_unref(self->loops);
	connection_limits_free(self->connections);
	tls_context_unref(self->tls);
	allow_list_unref(self->allow);
	pthread_mutex_destroy(&self->allow_lock);
	g_array_unref(self->loop_rounds);
	if (self->reserve_fd >= 0)
		close(self->reserve_fd);
	g_free(self);
}

GPtrArray *rpc_server_listeners(RpcServer *self)
{
	return self->listeners;
}

char *rpc_server_address(const RpcServer *self)
{
	for (guint i = 0; i < self->listeners->len; i++)
		if (!((const Listener *)self->listeners->pdata[i])->is_local)
			return listener_address(self->listeners->pdata[i]);
	return listener_address(self->listeners->pdata[0]);
}

/* Returns the loop with the fewest connections. Returns a failed loop only if there is no other. */
static Loop *choose_loop(RpcServer *self)
{
	Loop *chosen = NULL;
	guint fewest = G_MAXUINT;

	for (guint i = 0; i < self->loops->len; i++) {
		Loop *loop = self->loops->pdata[i];
		LoopStatus status = loop_status(loop);
		guint n = status.failure == 0 ? status.n_connections : G_MAXUINT - 1;

		if (n < fewest) {
			fewest = n;
			chosen = loop;
		}
	}
	return chosen;
}

/* Logs a refusal. @origin: (transfer full): the origin that is probably the cause, which has @n
 * connections */
static void refuse_connection(RpcServer *self, int connection, LogEvent event, char *origin,
			      guint n, const char *reason, const char *remedy)
{
	g_autofree char *address = origin;

	close(connection);
	counters_add(self->counters, COUNTER_CONNECTIONS_REFUSED, 1);
	log_event(event, log_text("reason", reason), log_text("address", address),
		  log_number("connections", n), log_text("remedy", remedy));
}

/* Returns memory to the system after a flood, because the allocator keeps freed memory between used
 * blocks, and all freed memory of other threads. */
static gboolean on_flood_check(gpointer user_data)
{
	RpcServer *self = user_data;
	guint n = connection_limits_n_connections(self->connections);

	if (n >= self->peak / 2)
		return G_SOURCE_CONTINUE;
	malloc_trim(0);
	self->peak = n;
	if (n >= FLOOD_CONNECTIONS)
		return G_SOURCE_CONTINUE;
	self->flood_source = 0;
	return G_SOURCE_REMOVE;
}

/* Can be called in any thread. @counters: the calling thread's counters */
static void note_not_allowed(Counters *counters, int fd, const TlsStream *tls)
{
	g_autofree char *peer = socket_name_peer(fd);
	g_autofree char *certificate = tls != NULL ? tls_stream_peer(tls) : NULL;
	g_autofree char *entry = allow_list_entry_for(tls);
	g_autofree char *remedy =
		g_strdup_printf("to allow this client, add its address%s%s to --allow",
				entry != NULL ? ", or " : "", entry != NULL ? entry : "");

	counters_add(counters, COUNTER_CLOSED_NOT_ALLOWED, 1);
	log_event(LOG_NOT_ALLOWED, log_text("peer", peer),
		  log_text("certificate", certificate != NULL ? certificate : "none"),
		  log_text("remedy", remedy));
}

/* Called in the handshake thread after a successful handshake. */
static gboolean on_handshake_done(gpointer user_data, const InboxConnection *connection)
{
	RpcServer *self = user_data;
	g_autoptr(AllowList) allow = NULL;

	pthread_mutex_lock(&self->allow_lock);
	allow = allow_list_ref(self->allow);
	pthread_mutex_unlock(&self->allow_lock);
	if (allow_list_admits(allow, connection->fd, connection->tls)) {
		loop_add(choose_loop(self), connection);
		return TRUE;
	}
	note_not_allowed(self->handshake_counters, connection->fd, connection->tls);
	return FALSE;
}

/* Passes an admitted connection to a loop, or first to the handshake thread if it uses TLS. */
static void start_serving(RpcServer *self, const Listener *listener, int fd, ConnectionEntry *entry)
{
	guint n = connection_limits_n_connections(self->connections);
	InboxConnection connection = {.fd = fd, .entry = entry};

	counters_add(self->counters, COUNTER_CONNECTIONS_ACCEPTED, 1);
	if (log_shows(LOG_CONNECTION_ACCEPTED)) {
		g_autofree char *peer = socket_name_peer(fd);

		log_event(LOG_CONNECTION_ACCEPTED, log_text("peer", peer),
			  log_number("connections", n));
	}
	if (listener->is_tls)
		connection.tls = tls_stream_new_server(self->tls, fd);
	if (!listener->is_tls) {
		loop_add(choose_loop(self), &connection);
	} else if (connection.tls != NULL) {
		handshakes_add(self->handshakes, &connection);
	} else {
		log_event(LOG_ACCEPT_FAILED, log_text("error", g_strerror(errno)));
		inbox_connection_close(&connection);
	}
	self->peak = MAX(self->peak, n);
	if (self->peak >= FLOOD_CONNECTIONS && self->flood_source == 0)
		self->flood_source = g_timeout_add_seconds(FLOOD_CHECK_S, on_flood_check, self);
}

/* Admits, refuses or closes a connection, according to --allow, the limit in total and the limit
 * per origin. */
static void receive_connection(RpcServer *self, const Listener *listener, int connection,
			       const Origin *origin)
{
	g_autofree char *closed = NULL;
	g_autofree char *reason = NULL;
	ConnectionEntry *entry = NULL;
	char *biggest;
	guint most = self->limits.max_per_address;

	/* a TLS client can still present a name that --allow contains */
	if (self->allow != NULL && !listener->is_local &&
	    !(listener->is_tls && allow_list_has_names(self->allow)) &&
	    !allow_list_admits(self->allow, connection, NULL)) {
		note_not_allowed(self->counters, connection, NULL);
		close(connection);
		return;
	}
	switch (connection_limits_admit(self->connections, connection, origin,
					g_get_monotonic_time(), &entry, &closed)) {
	case CONNECTION_LIMITS_ADMITTED:
		/* count the connection before the new client can make a call */
		if (closed != NULL) {
			counters_add(self->counters, COUNTER_CLOSED_FOR_ROOM, 1);
			log_event(LOG_CONNECTION_CLOSED,
				  log_text("reason", "idle, and replaced by a new connection"),
				  log_text("peer", closed));
		}
		start_serving(self, listener, connection, entry);
		break;
	case CONNECTION_LIMITS_FULL:
		reason = g_strdup_printf("more than %u connections, and the address with the most "
					 "has none that has been idle for %g s",
					 self->limits.max_connections, self->limits.idle_ms / 1e3);
		biggest = connection_limits_biggest(self->connections, &most);
		refuse_connection(self, connection, LOG_CONNECTION_REFUSED, biggest, most, reason,
				  "reuse connections in clients, or raise --max-connections");
		break;
	case CONNECTION_LIMITS_ADDRESS_FULL:
		reason = g_strdup_printf("more than %u connections from one %s", most,
					 origin->is_local ? "user" : "address");
		refuse_connection(
			self, connection, LOG_ADDRESS_REFUSED, g_strdup(origin->text), most, reason,
			"reuse connections in its clients, or raise --max-connections-per-address");
		break;
	}
}

/* Accepts up to @most clients. Returns the pause before the next try, in milliseconds. */
static guint accept_clients(RpcServer *self, const Listener *listener, guint most)
{
	if (self->reserve_fd < 0)
		self->reserve_fd = open(RESERVE, O_RDONLY | O_CLOEXEC);
	for (guint i = 0; i < most; i++) {
		Origin origin;
		int connection;
		guint n;

		if (!connection_limits_can_admit(self->connections))
			return ROOM_PAUSE_MS;
		connection = listener_accept(listener, &origin);
		if (connection >= 0) {
			receive_connection(self, listener, connection, &origin);
		} else if ((errno == EMFILE || errno == ENFILE) && self->reserve_fd >= 0) {
			/* Refuse the waiting client, because no descriptor is left for it. accept()
			 * reports this even if no client is waiting. */
			close(self->reserve_fd);
			connection = listener_accept(listener, &origin);
			if (connection >= 0) {
				char *biggest = connection_limits_biggest(self->connections, &n);

				refuse_connection(
					self, connection, LOG_CONNECTION_REFUSED, biggest, n,
					"no file descriptor is left",
					"raise the limit (ulimit -n, LimitNOFILE=) or lower "
					"--max-connections");
			}
			self->reserve_fd = open(RESERVE, O_RDONLY | O_CLOEXEC);
			if (connection < 0)
				break;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			break;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			log_event(LOG_ACCEPT_FAILED, log_text("error", g_strerror(errno)));
			return PAUSE_MS;
		}
	}
	return 0;
}

static guint on_ready(Listener *listener, gpointer user_data)
{
	return accept_clients(user_data, listener, ACCEPT_BATCH);
}

gboolean rpc_server_start(RpcServer *self, GError **error)
{
	gboolean is_started = TRUE;

	self->started = TRUE;
	g_array_set_size(self->loop_rounds, self->loops->len);
	while (is_started && self->n_running < self->loops->len) {
		is_started = loop_start(self->loops->pdata[self->n_running], error);
		self->n_running += (guint)is_started;
	}
	if (is_started && self->tls != NULL) {
		self->handshakes = handshakes_new(self->handshake_timeout_ms, on_handshake_done,
						  self, self->handshake_counters, error);
		is_started = self->handshakes != NULL;
	}
	if (!is_started) {
		g_ptr_array_set_size(self->listeners, 0);
		rpc_server_stop(self, 0);
		return FALSE;
	}
	for (guint i = 0; i < self->listeners->len; i++) {
		Listener *listener = self->listeners->pdata[i];
		g_autofree char *address = listener_address(listener);

		listener_watch(listener, on_ready, self);
		log_event(LOG_LISTENING, log_text("address", address));
	}
	return TRUE;
}

void rpc_server_set_tls(RpcServer *self, TlsContext *context)
{
	tls_context_unref(self->tls);
	self->tls = tls_context_ref(context);
}

void rpc_server_set_access(RpcServer *self, AllowList *allow, guint max_per_address)
{
	AllowList *before;

	self->limits.max_per_address = max_per_address;
	pthread_mutex_lock(&self->allow_lock);
	before = self->allow;
	self->allow = allow_list_ref(allow);
	pthread_mutex_unlock(&self->allow_lock);
	allow_list_unref(before);
}

void rpc_server_wake(RpcServer *self)
{
	for (guint i = 0; i < self->loops->len; i++)
		loop_wake(self->loops->pdata[i]);
}

RpcServerStatus rpc_server_status(const RpcServer *self)
{
	RpcServerStatus status = {
		.n_connections = connection_limits_n_connections(self->connections),
		.max_connections = self->limits.max_connections,
	};

	for (guint i = 0; i < self->loops->len; i++)
		status.n_parked += loop_status(self->loops->pdata[i]).n_parked;
	return status;
}

gboolean rpc_server_responds(RpcServer *self)
{
	gboolean all = TRUE;

	for (guint i = 0; i < self->loops->len; i++) {
		guint64 *seen = &g_array_index(self->loop_rounds, guint64, i);
		guint64 rounds = loop_status(self->loops->pdata[i]).rounds;

		all = all && rounds != *seen;
		*seen = rounds;
	}
	rpc_server_wake(self);
	return all;
}

gboolean rpc_server_check(RpcServer *self, GError **error)
{
	for (guint i = 0; i < self->loops->len; i++) {
		int failure = loop_status(self->loops->pdata[i]).failure;

		if (failure != 0)
			return text_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
					      "an event loop cannot wait for events: %s",
					      g_strerror(failure));
	}
	return TRUE;
}

void rpc_server_stop(RpcServer *self, gint64 timeout_ms)
{
	gint64 pause_ms = 0;

	if (!self->started)
		return;
	self->started = FALSE;
	for (guint i = 0; i < self->listeners->len; i++) {
		Listener *listener = self->listeners->pdata[i];

		listener_withdraw(listener);
		if (listener->is_adopted) {
			/* the next server will accept the clients that are waiting now */
			pause_ms = MIN(FIRST_CALL_MS, timeout_ms);
			continue;
		}
		/* clients that have already connected are answered */
		for (guint tries = 0; tries < MOST_LAST_TRIES &&
				      accept_clients(self, listener, SOMAXCONN) == ROOM_PAUSE_MS;
		     tries++)
			g_usleep(1000 * ROOM_PAUSE_MS);
	}
	g_ptr_array_set_size(self->listeners, 0);
	g_usleep(1000 * (gulong)pause_ms); /* the loops still serve during this time */
	/* ended first, because the handshake thread adds connections to the loops */
	g_clear_pointer(&self->handshakes, handshakes_free);
	for (guint i = 0; i < self->n_running; i++)
		loop_drain(self->loops->pdata[i], timeout_ms - pause_ms);
	for (guint i = 0; i < self->n_running; i++)
		loop_join(self->loops->pdata[i]);
}
