/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* More is not read at once; also bounds the memory of many connections. */
#define MAX_READ_BYTES 65536

struct _Connection {
	GSocketConnection *socket;
	int fd;
	const Wire *wire;
	/* The calls in flight: a ring of wire->slots. */
	gint64 *sent_ns;
	guint oldest;
	guint in_flight;
	/* Where in wire->requests the next write begins, and how much is to be written. */
	gsize write_offset;
	gsize unsent_bytes;
	/* What was received and not yet taken: buffer[taken] to buffer[filled - 1]. */
	guint8 *buffer;
	gsize buffer_bytes;
	gsize taken;
	gsize filled;
	gint64 last_id;
};

Connection *connection_new(const Address *server, const Wire *wire, GError **error)
{
	g_autoptr(GSocketClient) client = g_socket_client_new();
	g_autoptr(GSocketConnection) socket = NULL;
	Connection *self;

	g_socket_client_set_enable_proxy(client, FALSE);
	socket = g_socket_client_connect_to_host(client, server->text, server->port, NULL, error);
	if (!socket || !g_socket_set_option(g_socket_connection_get_socket(socket), IPPROTO_TCP,
					    TCP_NODELAY, 1, error))
		return NULL;

	self = g_new0(Connection, 1);
	self->fd = g_socket_get_fd(g_socket_connection_get_socket(socket));
	self->socket = g_steal_pointer(&socket);
	self->wire = wire;
	self->sent_ns = g_new(gint64, wire->slots);
	/* Room for a reply that is cut off behind a full read. */
	self->buffer_bytes = MIN(wire->slots * wire->reply_bytes, MAX_READ_BYTES) +
			     MAX(wire->reply_bytes, WIRE_MAX_ERROR_BYTES);
	self->buffer = g_malloc(self->buffer_bytes);
	return self;
}

void connection_free(Connection *self)
{
	if (!self)
		return;
	g_object_unref(self->socket);
	g_free(self->sent_ns);
	g_free(self->buffer);
	g_free(self);
}

int connection_fd(const Connection *self)
{
	return self->fd;
}

guint connection_in_flight(const Connection *self)
{
	return self->in_flight;
}

static gboolean fail(const char *what, GError **error)
{
	int number = errno;

	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(number), "%s: %s", what,
		    g_strerror(number));
	return FALSE;
}

gboolean connection_send(Connection *self, guint calls, gint64 now_ns, GError **error)
{
	const Wire *wire = self->wire;
	guint slot = (self->oldest + self->in_flight) % wire->slots;
	gssize written;

	for (guint i = 0; i < calls; i++) {
		self->sent_ns[slot] = now_ns;
		slot = slot + 1 < wire->slots ? slot + 1 : 0;
	}
	self->in_flight += calls;
	self->unsent_bytes += calls * wire->request_bytes;
	if (self->unsent_bytes == 0)
		return TRUE;

	written = send(self->fd, wire->requests + self->write_offset, self->unsent_bytes,
		       MSG_NOSIGNAL);
	if (written < 0)
		return errno == EAGAIN || errno == EINTR || fail("could not send", error);
	self->unsent_bytes -= (gsize)written;
	self->write_offset += (gsize)written;
	if (self->write_offset >= wire->slots * wire->request_bytes)
		self->write_offset -= wire->slots * wire->request_bytes;
	return TRUE;
}

gboolean connection_wants_write(const Connection *self)
{
	return self->unsent_bytes > 0;
}

gboolean connection_receive(Connection *self, GError **error)
{
	gssize received;

	self->filled -= self->taken;
	memmove(self->buffer, self->buffer + self->taken, self->filled);
	self->taken = 0;
	received =
		recv(self->fd, self->buffer + self->filled, self->buffer_bytes - self->filled, 0);
	if (received < 0)
		return errno == EAGAIN || errno == EINTR || fail("could not receive", error);
	if (received == 0) {
		g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED,
				    "the server closed the connection");
		return FALSE;
	}
	self->filled += (gsize)received;
	return TRUE;
}

WireStatus connection_next_reply(Connection *self, WireReply *out_reply, gint64 *out_sent_ns)
{
	WireStatus status;

	if (self->taken == self->filled)
		return WIRE_INCOMPLETE;
	if (self->in_flight == 0)
		return WIRE_BROKEN;
	status = wire_parse_reply(self->wire, self->buffer + self->taken,
				  self->filled - self->taken, self->oldest, out_reply);
	if (status == WIRE_INCOMPLETE || status == WIRE_BROKEN)
		return status;

	*out_sent_ns = self->sent_ns[self->oldest];
	self->taken += out_reply->frame_bytes;
	self->oldest = self->oldest + 1 < self->wire->slots ? self->oldest + 1 : 0;
	self->in_flight--;
	return status;
}

gboolean connection_note_id(Connection *self, gint64 id)
{
	gboolean above = id > self->last_id;

	self->last_id = id;
	return above;
}
