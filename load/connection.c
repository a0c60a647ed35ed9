/* SPDX-License-Identifier: Apache-2.0 */
#include "load/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/socket.h"

static void resolve_name(LoadServer *self)
{
	g_autoptr(GSocketConnectable) target =
		g_network_address_new(self->address->host, self->address->port);
	g_autoptr(GSocketAddressEnumerator) enumerator = g_socket_connectable_enumerate(target);
	g_autoptr(GError) error = NULL;
	GSocketAddress *socket_address;

	while ((socket_address = g_socket_address_enumerator_next(enumerator, NULL, &error)) !=
	       NULL)
		g_ptr_array_add(self->socket_addresses, socket_address);
	if (self->socket_addresses->len > 0)
		return;

	/* GIO's message names the host once more; the reason is at its end */
	const char *colon = error != NULL ? g_strrstr(error->message, ": ") : NULL;

	self->error = g_error_new(G_IO_ERROR, G_IO_ERROR_HOST_NOT_FOUND, "%s: cannot connect: %s",
				  self->address->text,
				  colon != NULL ? colon + 2 : "the name has no address");
}

LoadServer *load_server_new(const Address *address, TlsClient *tls)
{
	LoadServer *self = g_new(LoadServer, 1);

	*self = (LoadServer){
		.address = address,
		.tls = address->is_tls ? tls : NULL,
		.socket_addresses = g_ptr_array_new_with_free_func(g_object_unref),
	};
	if (address->path != NULL) {
		struct sockaddr_un local;
		socklen_t length = socket_unix_address(address->path, &local);

		g_ptr_array_add(self->socket_addresses,
				g_socket_address_new_from_native(&local, length));
	} else {
		resolve_name(self);
	}
	return self;
}

void load_server_free(LoadServer *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->socket_addresses);
	g_clear_error(&self->error);
	g_free(self);
}

const char *load_server_name(const LoadServer *self)
{
	return self->address->text;
}

/* The least room for a read. */
#define READ_BYTES 65536

struct _LoadConnection {
	GSocket *socket;
	int fd;
	TlsStream *tls; /* NULL: plain */
	gboolean more;  /* to receive again without waiting for the socket */
	const LoadServer *server;
	const LoadWire *wire;
	/* The calls in flight: a ring of wire->slots. */
	gint64 *since_ns;
	guint oldest;
	guint in_flight;
	guint32 oldest_call; /* its number, of all calls of the connection */
	gsize unsent_bytes;  /* of the calls in flight, at their end */
	/* The beginning of a reply; NULL until there was one. */
	guint8 *rest;
	gsize rest_bytes;
	gint64 last_id;
};

void load_connection_buffer_init(LoadConnectionBuffer *self, const LoadWire *wire)
{
	*self = (LoadConnectionBuffer){.size = READ_BYTES + wire->largest_reply};
	self->bytes = g_malloc(self->size);
	self->requests = g_malloc(wire->slots * wire->request_bytes);
	for (guint i = 0; i < wire->slots; i++)
		memcpy(self->requests + i * wire->request_bytes, wire->request,
		       wire->request_bytes);
}

void load_connection_buffer_clear(LoadConnectionBuffer *self)
{
	g_clear_pointer(&self->bytes, g_free);
	g_clear_pointer(&self->requests, g_free);
}

static gboolean set_connect_error(const LoadServer *server, const GError *failure, GError **error)
{
	g_set_error(error, failure->domain, failure->code, "%s: cannot connect: %s",
		    load_server_name(server), failure->message);
	return FALSE;
}

/* (transfer full) (nullable): a non-blocking socket that is being connected. */
static GSocket *begin_socket(GSocketAddress *address, GError **error)
{
	GSocketFamily family = g_socket_address_get_family(address);
	g_autoptr(GSocket) socket =
		g_socket_new(family, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT, error);
	g_autoptr(GError) failure = NULL;

	if (socket == NULL || (family != G_SOCKET_FAMILY_UNIX &&
			       !g_socket_set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, error)))
		return NULL;
	g_socket_set_blocking(socket, FALSE);
	if (!g_socket_connect(socket, address, NULL, &failure) &&
	    !g_error_matches(failure, G_IO_ERROR, G_IO_ERROR_PENDING)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return NULL;
	}
	return g_steal_pointer(&socket);
}

/* @socket: (transfer full) */
static LoadConnection *connection_new(GSocket *socket, const LoadServer *server,
				      const LoadWire *wire)
{
	LoadConnection *self = g_new0(LoadConnection, 1);

	self->socket = socket;
	self->fd = g_socket_get_fd(socket);
	self->server = server;
	self->wire = wire;
	if (server->tls != NULL)
		self->tls = tls_client_connect(server->tls, self->fd, server->address->host);
	self->since_ns = g_new(gint64, wire->slots);
	self->oldest_call = g_random_int();
	return self;
}

LoadConnection *load_connection_begin(const LoadServer *server, guint attempt, const LoadWire *wire,
				      GError **error)
{
	g_autoptr(GError) failure = NULL;
	GSocket *socket;

	if (server->socket_addresses->len == 0) {
		g_propagate_error(error, g_error_copy(server->error));
		return NULL;
	}
	socket = begin_socket(
		server->socket_addresses->pdata[attempt % server->socket_addresses->len], &failure);
	if (socket == NULL) {
		set_connect_error(server, failure, error);
		return NULL;
	}
	return connection_new(socket, server, wire);
}

gboolean load_connection_finish(LoadConnection *self, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (g_socket_check_connect_result(self->socket, &failure)) {
		if (!socket_is_self_connected(self->fd))
			return TRUE;
		g_set_error_literal(&failure, G_IO_ERROR, G_IO_ERROR_CONNECTION_REFUSED,
				    g_strerror(ECONNREFUSED));
	}
	return set_connect_error(self->server, failure, error);
}

/* Waits for the end of the TLS handshake. Otherwise the first call begins it. */
static gboolean shake_hands(LoadConnection *self, guint64 timeout_ms, GError **error)
{
	gint64 end_us = g_get_monotonic_time() + (gint64)timeout_ms * G_TIME_SPAN_MILLISECOND;
	g_autoptr(GError) failure = NULL;

	while (failure == NULL && tls_stream_shake_hands(self->tls) != 0) {
		int number = errno;
		g_autofree char *why = tls_client_describe(self->tls, number);

		if (number != EAGAIN)
			failure = g_error_new_literal(G_IO_ERROR,
						      (gint)g_io_error_from_errno(number), why);
		else /* poll's events are GLib's */
			g_socket_condition_timed_wait(
				self->socket, (GIOCondition)tls_stream_events(self->tls),
				MAX(end_us - g_get_monotonic_time(), 0), NULL, &failure);
	}
	return failure == NULL || set_connect_error(self->server, failure, error);
}

/* Waits until a connection that was begun is open. */
static gboolean wait_until_open(LoadConnection *self, guint64 timeout_ms, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (!g_socket_condition_timed_wait(self->socket, G_IO_OUT,
					   (gint64)timeout_ms * G_TIME_SPAN_MILLISECOND, NULL,
					   &failure))
		return set_connect_error(self->server, failure, error);
	if (!load_connection_finish(self, error))
		return FALSE;
	return self->tls == NULL || shake_hands(self, timeout_ms, error);
}

/* While the server's queue is full, a non-blocking local socket is refused, so this one blocks. */
static LoadConnection *open_local(LoadServer *server, const LoadWire *wire, guint64 timeout_ms)
{
	int fd = socket_unix_connect(server->address->path, (guint)timeout_ms);
	int number = errno;
	g_autoptr(GError) failure = NULL;
	GSocket *socket = fd >= 0 ? g_socket_new_from_fd(fd, &failure) : NULL;

	if (socket == NULL && fd >= 0)
		close(fd);
	else if (socket == NULL)
		failure = g_error_new_literal(G_IO_ERROR, (gint)g_io_error_from_errno(number),
					      g_strerror(number));
	if (socket == NULL) {
		set_connect_error(server, failure, &server->error);
		return NULL;
	}
	g_socket_set_blocking(socket, FALSE);
	return connection_new(socket, server, wire);
}

LoadConnection *load_connection_open(LoadServer *server, const LoadWire *wire, guint64 timeout_ms,
				     GError **error)
{
	for (guint i = 0; i < server->socket_addresses->len; i++) {
		g_autoptr(LoadConnection) self = NULL;

		g_clear_error(&server->error);
		if (server->address->path != NULL)
			self = open_local(server, wire, timeout_ms);
		else
			self = load_connection_begin(server, i, wire, &server->error);
		if (self == NULL || (server->address->path == NULL &&
				     !wait_until_open(self, timeout_ms, &server->error)))
			continue;
		/* later connections use the address that works */
		if (i > 0)
			g_ptr_array_remove_range(server->socket_addresses, 0, i);
		g_ptr_array_set_size(server->socket_addresses, 1);
		return g_steal_pointer(&self);
	}
	g_propagate_error(error, g_error_copy(server->error));
	return NULL;
}

void load_connection_free(LoadConnection *self)
{
	if (self == NULL)
		return;
	if (self->tls != NULL)
		tls_stream_close(self->tls);
	tls_stream_free(self->tls);
	g_object_unref(self->socket);
	g_free(self->since_ns);
	g_free(self->rest);
	g_free(self);
}

int load_connection_fd(const LoadConnection *self)
{
	return self->fd;
}

const LoadServer *load_connection_server(const LoadConnection *self)
{
	return self->server;
}

guint load_connection_in_flight(const LoadConnection *self)
{
	return self->in_flight;
}

guint load_connection_free_slots(const LoadConnection *self)
{
	return self->wire->slots - self->in_flight;
}

gboolean load_connection_is_silent(const LoadConnection *self)
{
	char byte;

	if (self->tls != NULL)
		return tls_stream_receive(self->tls, &byte, sizeof(byte)) < 0 && errno == EAGAIN;
	return recv(self->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static gboolean is_transient(int number)
{
	return number == EAGAIN || number == EINTR;
}

static gboolean set_io_error(const LoadConnection *self, const char *what, GError **error)
{
	int number = errno;
	g_autofree char *why = tls_client_describe(self->tls, number);

	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(number), "%s: %s", what, why);
	return FALSE;
}

void load_connection_add_call(LoadConnection *self, gint64 since_ns)
{
	guint slot = self->oldest + self->in_flight;

	self->since_ns[slot < self->wire->slots ? slot : slot - self->wire->slots] = since_ns;
	self->in_flight++;
	self->unsent_bytes += self->wire->request_bytes;
}

gboolean load_connection_flush(LoadConnection *self, LoadConnectionBuffer *buffer, GError **error)
{
	gsize request_bytes = self->wire->request_bytes;
	guint count = (guint)((self->unsent_bytes + request_bytes - 1) / request_bytes);
	gsize sent_of_first = count * request_bytes - self->unsent_bytes;
	gssize written;

	if (count == 0)
		return TRUE;
	load_wire_number_requests(self->wire, buffer->requests, count,
				  self->oldest_call + self->in_flight - count);
	written = tls_client_send(self->tls, self->fd, buffer->requests + sent_of_first,
				  self->unsent_bytes);
	if (written < 0)
		return is_transient(errno) || errno == EPIPE || errno == ECONNRESET ||
		       set_io_error(self, "could not send", error);
	self->unsent_bytes -= (gsize)written;
	return TRUE;
}

gboolean load_connection_wants_write(const LoadConnection *self)
{
	/* in a handshake, it may be the other end's turn */
	return self->unsent_bytes > 0 && (self->tls == NULL || tls_stream_is_shaken(self->tls) ||
					  tls_stream_events(self->tls) != POLLIN);
}

gboolean load_connection_receive(LoadConnection *self, LoadConnectionBuffer *buffer, GError **error)
{
	gssize received;

	if (self->rest_bytes > 0)
		memcpy(buffer->bytes, self->rest, self->rest_bytes);
	buffer->taken = 0;
	buffer->filled = self->rest_bytes;
	received = tls_client_receive(self->tls, self->fd, buffer->bytes + buffer->filled,
				      buffer->size - buffer->filled);
	self->more = self->tls != NULL && buffer->filled + (gsize)MAX(received, 0) == buffer->size;
	if (received < 0 && is_transient(errno))
		return TRUE;
	if (received < 0)
		return set_io_error(self,
				    load_connection_is_within_reply(self)
					    ? "could not receive the rest of a reply"
					    : "could not receive",
				    error);
	if (received == 0) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED,
			    "the server closed the connection%s",
			    load_connection_is_within_reply(self) ? " within a reply" : "");
		return FALSE;
	}
	buffer->filled += (gsize)received;
	return TRUE;
}

LoadWireStatus load_connection_next_reply(LoadConnection *self, LoadConnectionBuffer *buffer,
					  LoadWireReply *out_reply, gint64 *out_since_ns)
{
	LoadWireStatus status = LOAD_WIRE_INCOMPLETE;
	gsize request_bytes = self->wire->request_bytes;
	const guint8 *next = buffer->bytes + buffer->taken;
	gsize left = buffer->filled - buffer->taken;

	/* no call in flight was sent to its end */
	if (left > 0 && self->in_flight * request_bytes < self->unsent_bytes + request_bytes)
		return LOAD_WIRE_BROKEN;
	if (left > 0)
		status = load_wire_parse(self->wire, next, left, self->oldest_call, out_reply);
	if (status == LOAD_WIRE_INCOMPLETE) {
		self->rest_bytes = left;
		/* an incomplete reply is no longer than the largest */
		if (left > 0 && self->rest == NULL)
			self->rest = g_malloc(self->wire->largest_reply);
		if (left > 0)
			memcpy(self->rest, next, left);
	}
	if (status != LOAD_WIRE_VALUES && status != LOAD_WIRE_ERROR)
		return status;

	*out_since_ns = load_connection_take_call(self);
	buffer->taken += out_reply->length;
	return status;
}

gboolean load_connection_is_within_reply(const LoadConnection *self)
{
	return self->rest_bytes > 0;
}

gboolean load_connection_has_more(const LoadConnection *self)
{
	return self->more;
}

gint64 load_connection_take_call(LoadConnection *self)
{
	gint64 since_ns = self->since_ns[self->oldest];

	self->oldest = self->oldest + 1 < self->wire->slots ? self->oldest + 1 : 0;
	self->oldest_call++;
	self->in_flight--;
	return since_ns;
}

gboolean load_connection_note_id(LoadConnection *self, gint64 id)
{
	gboolean above = id > self->last_id;

	self->last_id = id;
	return above;
}
