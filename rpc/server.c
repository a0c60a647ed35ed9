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
#include "rpc/handshakes.h"
#include "rpc/listener.h"

/* Connections accepted before the main loop gets its turn. */
#define ACCEPT_BATCH 256

/* How long not to accept after an accept failed for want of something. */
#define PAUSE_MS 100

/* ... and for loops to close what made room. */
#define ROOM_PAUSE_MS 1

/* Of such pauses, when the server stops. */
#define MOST_LAST_TRIES 100

/* Between the last that is accepted on a socket that others keep and the hang-up on all who are
 * silent: time for the first call of whoever has just connected. */
#define FIRST_CALL_MS 250

/* From so many connections on, the memory that they took is given back when most of them have gone:
 * how many there are is looked at as often. */
#define FLOOD_CONNECTIONS 64
#define FLOOD_LOOK_S      5

struct _RpcServer {
	GPtrArray *loops;    /* of Loop; as they were made, since other threads look at them */
	guint n_running;     /* of these, the first ones */
	GArray *loop_rounds; /* of guint64: what rpc_server_responds() saw last */
	Roster *roster;
	RosterConfig limits;
	gint64 handshake_timeout_ms;
	TlsContext *tls;        /* NULL: nobody speaks it */
	Handshakes *handshakes; /* likewise, or not started */
	Counters *handshake_counters;
	pthread_mutex_t allow_lock; /* the handshakes' thread asks too */
	AllowList *allow;           /* under the lock; NULL: everybody */
	guint peak;                 /* of connections, since memory was given back */
	guint flood_source;         /* 0: there was no flood */
	Counters *counters;
	GPtrArray *listeners; /* of Listener */
	gboolean started;
	/* Given up for a moment when there are no descriptors left, so that the client can be
	 * accepted and closed, not kept waiting; -1: another was faster to take it. */
	int reserve_fd;
};

static int open_reserve(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error)
{
	g_autoptr(RpcServer) self = g_new0(RpcServer, 1);

	self->limits = config->roster;
	self->handshake_timeout_ms = config->handshake_timeout_ms;
	pthread_mutex_init(&self->allow_lock, NULL);
	self->roster = roster_new(&config->roster);
	self->counters = counter_set_add(counters);
	self->handshake_counters = counter_set_add(counters);
	self->listeners = g_ptr_array_new_with_free_func((GDestroyNotify)listener_free);
	self->loop_rounds = g_array_new(FALSE, TRUE, sizeof(guint64));
	self->reserve_fd = open_reserve();
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
	roster_free(self->roster);
	tls_context_unref(self->tls);
	allow_list_unref(self->allow);
	pthread_mutex_destroy(&self->allow_lock);
	g_array_unref(self->loop_rounds);
	if (self->reserve_fd >= 0)
		close(self->reserve_fd);
	g_free(self);
}

gboolean rpc_server_listen(RpcServer *self, const char *host, guint16 port, gboolean is_tls,
			   GError **error)
{
	guint first = self->listeners->len;
	gboolean opened = listener_open(host, port, self->listeners, error);

	for (guint i = first; is_tls && i < self->listeners->len; i++)
		listener_set_tls(self->listeners->pdata[i]);
	return opened;
}

gboolean rpc_server_listen_local(RpcServer *self, const char *path, const SocketFileAccess *access,
				 GError **error)
{
	return listener_open_local(path, access, self->listeners, error);
}

void rpc_server_adopt(RpcServer *self, int fd)
{
	listener_adopt(fd, self->listeners);
}

char *rpc_server_address(const RpcServer *self)
{
	guint first = 0;

	while (first < self->listeners->len && listener_is_local(self->listeners->pdata[first]))
		first++;
	return listener_address(self->listeners->pdata[first < self->listeners->len ? first : 0]);
}

/* That has the fewest connections; one that has failed only if there is no other. */
static Loop *choose_loop(RpcServer *self)
{
	Loop *chosen = NULL;
	guint fewest = G_MAXUINT;

	for (guint i = 0; i < self->loops->len; i++) {
		Loop *loop = self->loops->pdata[i];
		guint n = loop_failure(loop) == 0 ? loop_n_connections(loop) : G_MAXUINT - 1;

		if (n < fewest) {
			fewest = n;
			chosen = loop;
		}
	}
	return chosen;
}

/* @address: whose fault it may be, with so many @connections */
static void refuse(RpcServer *self, int connection, LogEvent event, const char *address,
		   guint connections, const char *reason, const char *remedy)
{
	close(connection);
	counters_add(self->counters, COUNTER_CONNECTIONS_REFUSED, 1);
	log_event(event, log_text("reason", reason), log_text("address", address),
		  log_number("connections", connections), log_text("remedy", remedy));
}

static void refuse_full(RpcServer *self, int connection)
{
	guint most;
	g_autofree char *address = roster_biggest(self->roster, &most);
	g_autofree char *reason = g_strdup_printf(
		"more than %u connections, and none of the address that has most is idle for %g s",
		self->limits.max_connections, self->limits.idle_ms / 1e3);

	refuse(self, connection, LOG_CONNECTION_REFUSED, address, most, reason,
	       "let clients keep and share connections, or raise --max-connections");
}

static void refuse_origin(RpcServer *self, int connection, const Origin *origin)
{
	g_autofree char *address = origin_text(origin);
	guint most = self->limits.max_per_address;
	g_autofree char *reason = g_strdup_printf("more than %u connections of one %s", most,
						  origin_is_local(origin) ? "user" : "address");

	refuse(self, connection, LOG_ADDRESS_REFUSED, address, most, reason,
	       "let its clients keep and share connections, or raise "
	       "--max-connections-per-address");
}

static void refuse_for_descriptors(RpcServer *self, int connection)
{
	guint most;
	g_autofree char *address = roster_biggest(self->roster, &most);

	refuse(self, connection, LOG_CONNECTION_REFUSED, address, most, "no file descriptors left",
	       "raise the limit (ulimit -n, LimitNOFILE=) or lower --max-connections");
}

static void note_left(RpcServer *self, const char *peer)
{
	counters_add(self->counters, COUNTER_CLOSED_FOR_ROOM, 1);
	log_event(LOG_CONNECTION_CLOSED, log_text("reason", "idle, and room was needed"),
		  log_text("peer", peer));
}

/* The allocator keeps what lies between what is in use, and of other threads all of it. */
static gboolean on_flood_look(gpointer user_data)
{
	RpcServer *self = user_data;
	guint n = roster_n_connections(self->roster);

	if (n >= self->peak / 2)
		return G_SOURCE_CONTINUE;
	malloc_trim(0);
	self->peak = n;
	if (n >= FLOOD_CONNECTIONS)
		return G_SOURCE_CONTINUE;
	self->flood_source = 0;
	return G_SOURCE_REMOVE;
}

static void watch_flood(RpcServer *self)
{
	self->peak = MAX(self->peak, roster_n_connections(self->roster));
	if (self->peak >= FLOOD_CONNECTIONS && self->flood_source == 0)
		self->flood_source = g_timeout_add_seconds(FLOOD_LOOK_S, on_flood_look, self);
}

static AllowList *ref_allow(RpcServer *self)
{
	AllowList *allow;

	pthread_mutex_lock(&self->allow_lock);
	allow = allow_list_ref(self->allow);
	pthread_mutex_unlock(&self->allow_lock);
	return allow;
}

/* Any thread, with counters of its own. */
static void note_not_allowed(Counters *counters, int fd, const TlsStream *tls)
{
	g_autofree char *peer = socket_name_peer(fd);
	g_autofree char *certificate = tls != NULL ? tls_stream_peer(tls) : NULL;
	g_autofree char *entry = allow_list_entry_for(tls);
	g_autofree char *remedy =
		g_strdup_printf("add its address%s%s to --allow, if it may call",
				entry != NULL ? ", or " : "", entry != NULL ? entry : "");

	counters_add(counters, COUNTER_CLOSED_NOT_ALLOWED, 1);
	log_event(LOG_NOT_ALLOWED, log_text("peer", peer),
		  log_text("certificate", certificate != NULL ? certificate : "none"),
		  log_text("remedy", remedy));
}

/* The handshakes' thread: one is done. */
static gboolean on_shaken(gpointer user_data, const InboxConnection *newcomer)
{
	RpcServer *self = user_data;
	g_autoptr(AllowList) allow = ref_allow(self);

	if (allow_list_admits(allow, newcomer->fd, newcomer->tls)) {
		loop_add(choose_loop(self), newcomer);
		return TRUE;
	}
	note_not_allowed(self->handshake_counters, newcomer->fd, newcomer->tls);
	return FALSE;
}

/* As far as it can be told before the handshake: of TLS, a name may be shown yet. */
static gboolean is_allowed(RpcServer *self, const Listener *listener, int connection)
{
	if (self->allow == NULL || listener_is_local(listener) ||
	    (listener_is_tls(listener) && allow_list_has_names(self->allow)) ||
	    allow_list_admits(self->allow, connection, NULL))
		return TRUE;
	note_not_allowed(self->counters, connection, NULL);
	close(connection);
	return FALSE;
}

static void start_serving(RpcServer *self, const Listener *listener, InboxConnection *connection)
{
	if (!listener_is_tls(listener)) {
		loop_add(choose_loop(self), connection);
		return;
	}
	connection->tls = tls_stream_new_server(self->tls, connection->fd);
	if (connection->tls != NULL) {
		handshakes_add(self->handshakes, connection);
		return;
	}
	log_event(LOG_ACCEPT_FAILED, log_text("error", g_strerror(errno)));
	inbox_connection_close(connection);
}

static void log_accepted(RpcServer *self, int connection)
{
	g_autofree char *peer = NULL;

	if (!log_shows(LOG_CONNECTION_ACCEPTED))
		return;
	peer = socket_name_peer(connection);
	log_event(LOG_CONNECTION_ACCEPTED, log_text("peer", peer),
		  log_number("connections", roster_n_connections(self->roster)));
}

static void place(RpcServer *self, const Listener *listener, int connection, const Origin *origin)
{
	g_autofree char *left = NULL;
	RosterEntry *entry = NULL;

	switch (roster_admit(self->roster, connection, origin, g_get_monotonic_time(), &entry,
			     &left)) {
	case ROSTER_ADMITTED:
		/* counted before the newcomer can ask */
		if (left != NULL)
			note_left(self, left);
		counters_add(self->counters, COUNTER_CONNECTIONS_ACCEPTED, 1);
		log_accepted(self, connection);
		start_serving(self, listener, &(InboxConnection){.fd = connection, .entry = entry});
		watch_flood(self);
		break;
	case ROSTER_FULL:
		refuse_full(self, connection);
		break;
	case ROSTER_ADDRESS_FULL:
		refuse_origin(self, connection, origin);
		break;
	}
}

/* No descriptor is left for the client that waits. Returns whether there was one: accepting says
 * that there is no descriptor even if there is no client. */
static gboolean turn_away(RpcServer *self, const Listener *listener)
{
	Origin origin;
	int connection;

	close(self->reserve_fd);
	connection = listener_accept(listener, &origin);
	if (connection >= 0)
		refuse_for_descriptors(self, connection);
	self->reserve_fd = open_reserve();
	return connection >= 0;
}

/* Accepts @most at most. Returns for how long trying on makes no sense, in milliseconds. */
static guint accept_some(RpcServer *self, const Listener *listener, guint most)
{
	if (self->reserve_fd < 0)
		self->reserve_fd = open_reserve();
	for (guint i = 0; i < most; i++) {
		Origin origin;
		int connection;

		if (!roster_ready(self->roster))
			return ROOM_PAUSE_MS;
		connection = listener_accept(listener, &origin);
		if (connection >= 0) {
			if (is_allowed(self, listener, connection))
				place(self, listener, connection, &origin);
		} else if ((errno == EMFILE || errno == ENFILE) && self->reserve_fd >= 0) {
			if (!turn_away(self, listener))
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
	return accept_some(user_data, listener, ACCEPT_BATCH);
}

static gboolean start_loops(RpcServer *self, GError **error)
{
	for (; self->n_running < self->loops->len; self->n_running++)
		if (!loop_start(self->loops->pdata[self->n_running], error))
			return FALSE;
	return TRUE;
}

/* If there is somebody to shake hands with. */
static gboolean start_handshakes(RpcServer *self, GError **error)
{
	const HandshakesConfig config = {
		.timeout_ms = self->handshake_timeout_ms, .done = on_shaken, .user_data = self};

	if (self->tls == NULL)
		return TRUE;
	self->handshakes = handshakes_new(&config, self->handshake_counters, error);
	return self->handshakes != NULL;
}

gboolean rpc_server_start(RpcServer *self, GError **error)
{
	self->started = TRUE;
	g_array_set_size(self->loop_rounds, self->loops->len);
	if (!start_loops(self, error) || !start_handshakes(self, error)) {
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

void rpc_server_set_allow(RpcServer *self, AllowList *allow)
{
	AllowList *before;

	pthread_mutex_lock(&self->allow_lock);
	before = self->allow;
	self->allow = allow_list_ref(allow);
	pthread_mutex_unlock(&self->allow_lock);
	allow_list_unref(before);
}

void rpc_server_set_max_per_address(RpcServer *self, guint max_per_address)
{
	self->limits.max_per_address = max_per_address;
	roster_set_max_per_address(self->roster, max_per_address);
}

void rpc_server_wake(RpcServer *self)
{
	for (guint i = 0; i < self->loops->len; i++)
		loop_wake(self->loops->pdata[i]);
}

guint rpc_server_n_connections(const RpcServer *self)
{
	return roster_n_connections(self->roster);
}

guint rpc_server_max_connections(const RpcServer *self)
{
	return self->limits.max_connections;
}

guint rpc_server_n_parked(const RpcServer *self)
{
	guint n_parked = 0;

	for (guint i = 0; i < self->loops->len; i++)
		n_parked += loop_n_parked(self->loops->pdata[i]);
	return n_parked;
}

gboolean rpc_server_responds(RpcServer *self)
{
	gboolean all = TRUE;

	for (guint i = 0; i < self->loops->len; i++) {
		guint64 *seen = &g_array_index(self->loop_rounds, guint64, i);
		guint64 rounds = loop_rounds(self->loops->pdata[i]);

		all = all && rounds != *seen;
		*seen = rounds;
	}
	rpc_server_wake(self);
	return all;
}

gboolean rpc_server_check(RpcServer *self, GError **error)
{
	for (guint i = 0; i < self->loops->len; i++) {
		int failure = loop_failure(self->loops->pdata[i]);

		if (failure == 0)
			continue;
		g_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
			    "an event loop cannot wait for events: %s", g_strerror(failure));
		return FALSE;
	}
	return TRUE;
}

static gboolean has_adopted(const RpcServer *self)
{
	for (guint i = 0; i < self->listeners->len; i++)
		if (listener_is_adopted(self->listeners->pdata[i]))
			return TRUE;
	return FALSE;
}

/* Those whose connection stands have been promised an answer; on a socket that others keep, the
 * next server's. */
static void accept_the_rest(RpcServer *self, const Listener *listener)
{
	for (guint tries = 0; !listener_is_adopted(listener) && tries < MOST_LAST_TRIES; tries++) {
		if (accept_some(self, listener, SOMAXCONN) != ROOM_PAUSE_MS)
			return;
		g_usleep(1000 * ROOM_PAUSE_MS);
	}
}

void rpc_server_stop(RpcServer *self, gint64 timeout_ms)
{
	gint64 pause_ms;

	if (!self->started)
		return;
	self->started = FALSE;
	pause_ms = has_adopted(self) ? MIN(FIRST_CALL_MS, timeout_ms) : 0;
	for (guint i = 0; i < self->listeners->len; i++) {
		listener_withdraw(self->listeners->pdata[i]);
		accept_the_rest(self, self->listeners->pdata[i]);
	}
	g_ptr_array_set_size(self->listeners, 0);
	g_usleep(1000 * (gulong)pause_ms);                   /* the loops serve on */
	g_clear_pointer(&self->handshakes, handshakes_free); /* before the loops that it gives to */
	for (guint i = 0; i < self->n_running; i++)
		loop_drain(self->loops->pdata[i], timeout_ms - pause_ms);
	for (guint i = 0; i < self->n_running; i++)
		loop_join(self->loops->pdata[i]);
}
