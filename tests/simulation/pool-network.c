/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/pool-network.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/fork-guard.h"
#include "common/socket.h"
#include "common/thread.h"
#include "common/tls/client.h"

#define FIRST_SOCKET  1000000 /* lower descriptors are eventfds of hosts */
#define FIRST_ADDRESS 0x0a000001
#define WINDOW_US     10000
#define MAX_TRIES_S   60 /* maximum number of connections of a pool to a server within a second */

static struct {
	GPtrArray *hosts;       /* (element-type NetworkHost) */
	GPtrArray *connections; /* (element-type NetworkConnection) */
	GPtrArray *listeners;   /* (element-type NetworkListener): NULL if no server */
	NetworkHost *host;
	gint64 connects_us[8192]; /* ring buffer of the last connects */
	guint64 n_connects, first_connect;
	guint worst;
} network;

typedef enum { CONNECT, ACCEPTED, REQUEST, REPLY, ENDED, WRITABLE } PacketType;

typedef struct {
	NetworkConnection *connection;
	PacketType type;
	guint length;
	guint8 bytes[];
} Packet;

static void connection_free(NetworkConnection *connection)
{
	g_byte_array_unref(connection->request);
	g_byte_array_unref(connection->reply);
	g_free(connection);
}

void pool_network_init(void)
{
	memset(&network, 0, sizeof(network));
	network.hosts = g_ptr_array_new_with_free_func(g_free);
	network.connections = g_ptr_array_new_with_free_func((GDestroyNotify)connection_free);
	network.listeners = g_ptr_array_new_with_free_func(g_free);
}

void pool_network_clear(void)
{
	g_ptr_array_unref(network.hosts);
	g_ptr_array_unref(network.connections);
	g_ptr_array_unref(network.listeners);
}

void pool_network_listen(guint server, const NetworkListener *listener)
{
	if (network.listeners->len <= server)
		g_ptr_array_set_size(network.listeners, (gint)server + 1);
	g_free(network.listeners->pdata[server]);
	network.listeners->pdata[server] = g_memdup2(listener, sizeof(*listener));
}

static const NetworkListener *listener_of(const NetworkConnection *connection)
{
	return connection->server < network.listeners->len
		       ? network.listeners->pdata[connection->server]
		       : NULL;
}

struct sockaddr_in pool_network_address(guint server)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(7609),
		.sin_addr.s_addr = htonl(FIRST_ADDRESS + server),
	};
}

/* Hosts */

NetworkHost *pool_network_host_new(const char *name, gint64 distance_us)
{
	NetworkHost *host = g_new0(NetworkHost, 1);

	g_strlcpy(host->machine.name, name, sizeof(host->machine.name));
	host->machine.uptime_us = world_between(1, 1000) * G_USEC_PER_SEC;
	host->distance_us = distance_us;
	host->fd = network.hosts->len;
	host->due_us = host->armed_us = WORLD_NEVER_US;
	g_ptr_array_add(network.hosts, host);
	return host;
}

void pool_network_enter(NetworkHost *host)
{
	network.host = host;
	world_enter(&host->machine);
}

static void host_wake(NetworkHost *host, gint64 at_us);

static gboolean has_event(const NetworkConnection *connection, short events)
{
	if (connection->is_seen_ended || connection->error != 0)
		return TRUE;
	return ((events & POLLIN) != 0 && connection->reply->len > 0) ||
	       ((events & POLLOUT) != 0 && connection->is_connected && !connection->is_blocked);
}

static NetworkConnection *connection_at(int fd)
{
	g_assert_cmpint(fd, >=, FIRST_SOCKET);
	return network.connections->pdata[fd - FIRST_SOCKET];
}

static gboolean is_ready(const NetworkHost *host)
{
	for (guint i = 0; i < host->n_fds; i++) {
		const NetworkConnection *connection = connection_at(host->fds[i].fd);

		if (!connection->is_closed && has_event(connection, host->fds[i].events))
			return TRUE;
	}
	return host->is_called;
}

/* Draws how late the scheduler wakes a thread. */
static gint64 draw_lateness_us(void)
{
	return world_between(1, 30);
}

static void host_pass(NetworkHost *host)
{
	gint64 until_us;

	pool_network_enter(host);
	host->due_us = WORLD_NEVER_US;
	until_us = pool_refill_run_pass(host->refill, host->fds, &host->n_fds);
	host->n_passes++;
	if (is_ready(host))
		host_wake(host, world_now_us() + draw_lateness_us());
	else if (until_us != POOL_NEVER_US)
		host_wake(host, MAX(world_when_us(&host->machine, until_us), world_now_us()) +
					draw_lateness_us());
	if (host->passed != NULL)
		host->passed(host->user_data);
}

static void on_host_timer(gpointer data, guint64 tag)
{
	NetworkHost *host = data;

	if ((gint64)tag != host->armed_us)
		return;
	host->armed_us = WORLD_NEVER_US;
	if (host->refill != NULL && host->due_us <= world_now_us())
		host_pass(host);
	else if (host->refill != NULL && host->due_us != WORLD_NEVER_US)
		host_wake(host, host->due_us);
}

/* A timer that fires too early is armed again, so most hosts have one event in the heap. */
static void host_wake(NetworkHost *host, gint64 at_us)
{
	host->due_us = MIN(host->due_us, at_us);
	if (host->due_us >= host->armed_us)
		return;
	host->armed_us = host->due_us;
	world_at(host->armed_us, on_host_timer, host, (guint64)host->armed_us);
}

static void notify_host(NetworkConnection *connection)
{
	if (is_ready(connection->host))
		host_wake(connection->host, world_now_us() + draw_lateness_us());
}

/* Packets */

static void deliver(NetworkConnection *connection, const Packet *packet)
{
	const NetworkListener *listener = listener_of(connection);
	NetworkReaction answer;

	switch (packet->type) {
	case CONNECT:
		answer = listener != NULL ? listener->connect(listener->user_data, connection)
			 : connection->server % 2 == 0 ? NETWORK_REFUSES
						       : NETWORK_IS_SILENT;
		connection->is_accepted = answer == NETWORK_ACCEPTS;
		if (answer == NETWORK_REFUSES)
			pool_network_end(connection);
		else if (answer == NETWORK_ACCEPTS)
			pool_network_send(connection, NULL, 0, 0);
		return;
	case REQUEST:
		if (connection->is_ended)
			return;
		g_byte_array_append(connection->request, packet->bytes, packet->length);
		listener->receive(listener->user_data, connection);
		return;
	case ACCEPTED:
		connection->is_connected = TRUE;
		break;
	case REPLY:
		g_byte_array_append(connection->reply, packet->bytes, packet->length);
		break;
	case ENDED:
		if (connection->is_connected)
			connection->is_seen_ended = TRUE;
		else
			connection->error = ECONNREFUSED;
		break;
	case WRITABLE:
		connection->is_blocked = FALSE;
		break;
	}
	notify_host(connection);
}

static void on_packet(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	g_autofree Packet *packet = data;

	if (!packet->connection->is_closed)
		deliver(packet->connection, packet);
}

static void send_packet(NetworkConnection *connection, PacketType type, const void *bytes,
			guint length, gint64 after_us)
{
	const NetworkListener *listener = listener_of(connection);
	gint64 way_us = connection->host->distance_us +
			(listener != NULL ? listener->distance_us : 100) + world_between(1, 20);
	gint64 *last_us = type == CONNECT || type == REQUEST ? &connection->to_server_us
							     : &connection->to_client_us;
	Packet *packet = g_malloc(sizeof(Packet) + length);

	*packet = (Packet){connection, type, length};
	if (length > 0)
		memcpy(packet->bytes, bytes, length);
	*last_us = MAX(world_now_us() + way_us + after_us, *last_us);
	world_at(*last_us, on_packet, packet, 0);
}

void pool_network_send(NetworkConnection *connection, const guint8 *bytes, guint length,
		       gint64 after_us)
{
	if (!connection->is_ended && !connection->is_closed)
		send_packet(connection, length > 0 ? REPLY : ACCEPTED, bytes, length, after_us);
}

void pool_network_end(NetworkConnection *connection)
{
	if (connection->is_ended || connection->is_closed)
		return;
	connection->is_ended = TRUE;
	send_packet(connection, ENDED, NULL, 0, 0);
}

static gboolean is_open(const NetworkConnection *connection, guint server)
{
	return connection->server == server && connection->is_accepted && !connection->is_ended &&
	       !connection->is_closed;
}

void pool_network_end_all(guint server)
{
	for (guint i = 0; i < network.connections->len; i++)
		if (is_open(network.connections->pdata[i], server))
			pool_network_end(network.connections->pdata[i]);
}

guint pool_network_count_connections(guint server)
{
	guint count = 0;

	for (guint i = 0; i < network.connections->len; i++)
		count += is_open(network.connections->pdata[i], server);
	return count;
}

/* The backoff from a failed server is at least 20 ms: 50 tries a second. */
static void check_backoff(NetworkHost *host, guint server)
{
	gint64 second = world_now_us() / G_USEC_PER_SEC;

	if (host->second != second)
		memset(host->n_connects, 0, sizeof(host->n_connects));
	host->second = second;
	if (server < NETWORK_COUNTED && ++host->n_connects[server] > MAX_TRIES_S)
		world_fail("%s: more than %d connections to server %u within a second",
			   host->machine.name, MAX_TRIES_S, server);
}

static void note_connect(const NetworkConnection *connection)
{
	NetworkHost *host = connection->host;
	gint64 now_us = world_now_us();

	check_backoff(host, connection->server);
	if (host->n_begun++ > 0)
		host->longest_gap_us = MAX(host->longest_gap_us, now_us - host->begun_us);
	host->begun_us = now_us;
	network.connects_us[network.n_connects++ % G_N_ELEMENTS(network.connects_us)] = now_us;
	while (now_us - network.connects_us[network.first_connect %
					    G_N_ELEMENTS(network.connects_us)] >=
	       WINDOW_US)
		network.first_connect++;
	g_assert_cmpuint(network.n_connects - network.first_connect, <,
			 G_N_ELEMENTS(network.connects_us));
	network.worst = MAX(network.worst, (guint)(network.n_connects - network.first_connect));
}

guint pool_network_take_worst_connects(void)
{
	guint worst = network.worst;

	network.worst = 0;
	return worst;
}

/* Replacements of system and GLib functions */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain G_GNUC_UNUSED, int type G_GNUC_UNUSED, int protocol G_GNUC_UNUSED)
{
	NetworkConnection *connection = g_new0(NetworkConnection, 1);

	connection->host = network.host;
	connection->fd = FIRST_SOCKET + (int)network.connections->len;
	connection->request = g_byte_array_new();
	connection->reply = g_byte_array_new();
	g_ptr_array_add(network.connections, connection);
	return connection->fd;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length G_GNUC_UNUSED)
{
	NetworkConnection *connection = connection_at(fd);
	const struct sockaddr_in *place = (const struct sockaddr_in *)(const void *)address;

	connection->server = ntohl(place->sin_addr.s_addr) - FIRST_ADDRESS;
	world_note(&connection->host->machine, "connects to server %u", connection->server);
	note_connect(connection);
	if (world_odds(0.001)) {
		errno = ENETUNREACH;
		return -1;
	}
	send_packet(connection, CONNECT, NULL, 0, 0);
	errno = EINPROGRESS;
	return -1;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd G_GNUC_UNUSED, int level G_GNUC_UNUSED, int name G_GNUC_UNUSED,
		      const void *value G_GNUC_UNUSED, socklen_t length G_GNUC_UNUSED)
{
	return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int __wrap_getsockopt(int fd, int level G_GNUC_UNUSED, int name G_GNUC_UNUSED, void *value,
		      socklen_t *length G_GNUC_UNUSED)
{
	*(int *)value = connection_at(fd)->error;
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	g_assert_true(count == 1 && timeout == 0);
	return has_event(connection_at(fds->fd), fds->events);
}

gssize __wrap_tls_client_send(TlsStream *stream, int fd, const void *bytes, gsize length);
gssize __wrap_tls_client_send(TlsStream *stream G_GNUC_UNUSED, int fd, const void *bytes,
			      gsize length)
{
	NetworkConnection *connection = connection_at(fd);

	if (connection->is_seen_ended) {
		errno = ECONNRESET;
		return -1;
	}
	if (connection->is_blocked) {
		errno = EAGAIN;
		return -1;
	}
	if (length > 1 && world_odds(0.02)) {
		length = (gsize)world_between(1, (gint64)length - 1);
		connection->is_blocked = TRUE;
		send_packet(connection, WRITABLE, NULL, 0, 0);
	}
	connection->host->n_calls++;
	send_packet(connection, REQUEST, bytes, (guint)length, 0);
	return (gssize)length;
}

gssize __wrap_tls_client_receive(TlsStream *stream, int fd, void *bytes, gsize length);
gssize __wrap_tls_client_receive(TlsStream *stream G_GNUC_UNUSED, int fd, void *bytes, gsize length)
{
	NetworkConnection *connection = connection_at(fd);
	guint n = (guint)MIN(length, connection->reply->len);

	if (n == 0 && connection->is_seen_ended)
		return 0;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, connection->reply->data, n);
	g_byte_array_remove_range(connection->reply, 0, n);
	return n;
}

gboolean __wrap_socket_is_self_connected(int fd);
gboolean __wrap_socket_is_self_connected(int fd G_GNUC_UNUSED)
{
	return FALSE;
}

int __wrap_eventfd(unsigned int count, int flags);
int __wrap_eventfd(unsigned int count G_GNUC_UNUSED, int flags G_GNUC_UNUSED)
{
	return (int)network.host->fd;
}

int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value G_GNUC_UNUSED)
{
	NetworkHost *host = network.hosts->pdata[fd];

	host->is_called = TRUE;
	host_wake(host, world_now_us() + draw_lateness_us());
	return 0;
}

int __wrap_eventfd_read(int fd, eventfd_t *out_value);
int __wrap_eventfd_read(int fd, eventfd_t *out_value)
{
	*out_value = 1;
	((NetworkHost *)network.hosts->pdata[fd])->is_called = FALSE;
	return 0;
}

GRand *__wrap_g_rand_new(void);
GRand *__wrap_g_rand_new(void)
{
	return g_rand_new_with_seed((guint32)world_between(0, G_MAXUINT32));
}

/* Replacements of the start and the end of a thread */

int __wrap_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *data),
			void *data);
int __wrap_thread_start(pthread_t *out_thread G_GNUC_UNUSED, const char *name G_GNUC_UNUSED,
			void *(*run)(void *data)G_GNUC_UNUSED, void *data)
{
	network.host->refill = data;
	host_wake(network.host, world_now_us() + draw_lateness_us());
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **out_result);
int __wrap_pthread_join(pthread_t thread G_GNUC_UNUSED, void **out_result G_GNUC_UNUSED)
{
	return 0;
}

/* Replacement of a function of common/fork-guard.c */

void __real_fork_guard_close_noted(int *fd);
void __wrap_fork_guard_close_noted(int *fd);
void __wrap_fork_guard_close_noted(int *fd)
{
	if (*fd >= FIRST_SOCKET)
		connection_at(*fd)->is_closed = TRUE;
	__real_fork_guard_close_noted(fd);
}
