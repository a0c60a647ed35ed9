/* SPDX-License-Identifier: Apache-2.0 */
#include "load/connection.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/snowflake-client.h"

/* minimum free space in the buffer for a read */
#define READ_BYTES 65536

LoadServer *load_server_new(const Address *address, TlsClient *tls)
{
	LoadServer *self = g_new0(LoadServer, 1);
	g_autofree char *why = NULL;

	self->address = address;
	self->tls = address->is_tls ? tls : NULL;
	self->names = resolution_wait_for_names(address, G_MAXINT64, &why);
	if (self->names == NULL)
		self->error =
			g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
				    "%s: cannot connect: %s", address->text, why);
	return self;
}

void load_server_free(LoadServer *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->names, g_ptr_array_unref);
	g_clear_error(&self->error);
	g_free(self);
}

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

/* @link: (transfer full) (nullable): if %NULL, @error is set, and the server's name is added to
 * it */
static LoadConnection *connection_new(ClientConnection *link, const LoadServer *server,
				      const LoadWire *wire, GError **error)
{
	LoadConnection *self;

	if (link == NULL) {
		g_prefix_error(error, "%s: ", server->address->text);
		return NULL;
	}
	self = g_new0(LoadConnection, 1);
	self->link = link;
	self->server = server;
	self->wire = wire;
	self->since_ns = g_new(gint64, wire->slots);
	self->oldest_call = g_random_int();
	return self;
}

LoadConnection *load_connection_begin(const LoadServer *server, guint attempt, const LoadWire *wire,
				      GError **error)
{
	const ResolvedName *name;

	if (server->names == NULL) {
		g_propagate_error(error, g_error_copy(server->error));
		return NULL;
	}
	name = server->names->pdata[attempt % server->names->len];
	return connection_new(client_connection_begin(&name->address, server->tls, error), server,
			      wire, error);
}

gboolean load_connection_finish(LoadConnection *self, GError **error)
{
	if (client_connection_advance(self->link, error) != CLIENT_CONNECTION_FAILED)
		return TRUE;
	g_prefix_error(error, "%s: ", self->server->address->text);
	return FALSE;
}

LoadConnection *load_connection_open(LoadServer *server, const LoadWire *wire, guint64 timeout_ms)
{
	for (guint i = 0; server->names != NULL && i < server->names->len; i++) {
		const ResolvedName *name = server->names->pdata[i];
		const ClientLimit limit = {g_get_monotonic_time(), (guint)timeout_ms};
		g_autoptr(ClientConnection) link = NULL;

		g_clear_error(&server->error);
		/* while the server's queue is full, connect() fails for a non-blocking local
		 * socket */
		if (server->address->path != NULL)
			link = client_connection_new(server->address, NULL, limit, &server->error);
		else
			link = client_connection_begin(&name->address, server->tls, &server->error);
		if (link == NULL || !client_connection_wait_ready(link, limit, &server->error)) {
			g_prefix_error(&server->error, "%s: ", server->address->text);
			continue;
		}
		/* later connections use the address that worked */
		if (server->names->len > 1) {
			g_ptr_array_remove_range(server->names, i + 1, server->names->len - i - 1);
			g_ptr_array_remove_range(server->names, 0, i);
		}
		return connection_new(g_steal_pointer(&link), server, wire, NULL);
	}
	return NULL;
}

void load_connection_free(LoadConnection *self)
{
	if (self == NULL)
		return;
	client_connection_free(self->link);
	g_free(self->since_ns);
	g_free(self->rest);
	g_free(self);
}

static gboolean is_transient(int number)
{
	return number == EAGAIN || number == EINTR;
}

static gboolean set_io_error(const LoadConnection *self, const char *what, GError **error)
{
	int number = errno;
	g_autofree char *why = tls_client_describe(self->link->tls, number);

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
	written = tls_client_send(self->link->tls, self->link->fd, buffer->requests + sent_of_first,
				  self->unsent_bytes);
	if (written < 0)
		return is_transient(errno) || errno == EPIPE || errno == ECONNRESET ||
		       set_io_error(self, "could not send", error);
	self->unsent_bytes -= (gsize)written;
	return TRUE;
}

gboolean load_connection_wants_write(const LoadConnection *self)
{
	/* during a handshake, this end may have to wait for the other end */
	return self->unsent_bytes > 0 &&
	       (self->link->tls == NULL || tls_stream_is_shaken(self->link->tls) ||
		self->link->tls->events != POLLIN);
}

gboolean load_connection_receive(LoadConnection *self, LoadConnectionBuffer *buffer, GError **error)
{
	gssize received;

	if (self->rest_bytes > 0)
		memcpy(buffer->bytes, self->rest, self->rest_bytes);
	buffer->taken = 0;
	buffer->filled = self->rest_bytes;
	received =
		tls_client_receive(self->link->tls, self->link->fd, buffer->bytes + buffer->filled,
				   buffer->size - buffer->filled);
	self->has_more =
		self->link->tls != NULL && buffer->filled + (gsize)MAX(received, 0) == buffer->size;
	if (received < 0 && is_transient(errno))
		return TRUE;
	if (received < 0)
		return set_io_error(self,
				    self->rest_bytes > 0 ? "could not receive the rest of a reply"
							 : "could not receive",
				    error);
	if (received == 0) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED,
			    "the server closed the connection%s",
			    self->rest_bytes > 0 ? " within a reply" : "");
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

	/* no call in flight was sent completely */
	if (left > 0 && self->in_flight * request_bytes < self->unsent_bytes + request_bytes)
		return LOAD_WIRE_BROKEN;
	if (left > 0)
		status = load_wire_parse(self->wire, next, left, self->oldest_call, out_reply);
	if (status == LOAD_WIRE_INCOMPLETE) {
		self->rest_bytes = left;
		/* an incomplete reply fits into largest_reply bytes */
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

gint64 load_connection_take_call(LoadConnection *self)
{
	gint64 since_ns = self->since_ns[self->oldest];

	self->oldest = self->oldest + 1 < self->wire->slots ? self->oldest + 1 : 0;
	self->oldest_call++;
	self->in_flight--;
	return since_ns;
}
