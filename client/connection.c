/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "client/call.h"
#include "common/socket.h"
#include "core/text.h"

#define HEADER_BYTES sizeof(guint32)
#define READ_BYTES   16384
#define KEPT_BYTES   (256 * 1024) /* largest reply buffer that is kept for the next reply */

#define TLS_ALERT_MASK 0xffff0000u
#define TLS_ALERT      0x15030000u /* first bytes of a TLS alert, interpreted as a length */

static gboolean set_failure(GError **error, SnowflakeClientError code, const char *why)
{
	return text_set_error(error, SNOWFLAKE_CLIENT_ERROR, code, "%s", why);
}

/* @why: (nullable): %NULL to describe the errno @code */
static void set_unreachable(GError **error, int code, const char *why)
{
	g_autofree char *described = why == NULL ? tls_client_describe(NULL, code) : NULL;

	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
		    "cannot connect: %s", why != NULL ? why : described);
}

static ClientConnection *connection_alloc(int fd)
{
	ClientConnection *self = g_new0(ClientConnection, 1);

	self->fd = fd;
	self->out = g_byte_array_new();
	self->in = g_byte_array_new();
	self->reply = g_byte_array_new();
	return self;
}

void client_connection_free(ClientConnection *self)
{
	if (self == NULL)
		return;
	if (self->fd >= 0 && self->tls != NULL)
		tls_stream_close(self->tls);
	tls_stream_free(self->tls);
	if (self->fd >= 0)
		close(self->fd);
	g_byte_array_unref(self->out);
	g_byte_array_unref(self->in);
	g_byte_array_unref(self->reply);
	g_free(self);
}

const guint8 *client_connection_get_reply(const ClientConnection *self, gsize *out_length)
{
	*out_length = self->reply->len - HEADER_BYTES;
	return self->reply->data + HEADER_BYTES;
}

/* Without waiting */

ClientConnection *client_connection_begin(const SocketAddress *address, TlsClient *tls,
					  GError **error)
{
	const int one = 1;
	ClientConnection *self = connection_alloc(
		socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	gboolean is_begun = self->fd >= 0;

	if (is_begun) {
		/* if this fails, for example on a local socket, calls are only slower */
		setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		is_begun = connect(self->fd, (const struct sockaddr *)&address->bytes,
				   address->length) == 0 ||
			   errno == EINPROGRESS;
	}
	if (is_begun && *address->tls_host != '\0') {
		errno = EPROTONOSUPPORT; /* there are no TLS settings */
		if (tls != NULL)
			self->tls = tls_client_connect(tls, self->fd, address->tls_host);
		is_begun = self->tls != NULL;
	}
	if (is_begun)
		return self;
	if (errno == EAGAIN)
		set_failure(error, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
			    "cannot connect: the server's queue is full");
	else
		set_unreachable(error, errno, NULL);
	client_connection_free(self);
	return NULL;
}

void client_connection_call(ClientConnection *self, const GByteArray *request,
			    guint max_reply_bytes)
{
	guint32 length = GUINT32_TO_BE(request->len);

	self->out_sent = 0;
	g_byte_array_set_size(self->out, 0);
	g_byte_array_append(self->out, (const guint8 *)&length, HEADER_BYTES);
	g_byte_array_append(self->out, request->data, request->len);
	self->max_reply_bytes = max_reply_bytes;
	self->state = CLIENT_CONNECTION_CALLING;
	if (self->reply->len > KEPT_BYTES) {
		g_byte_array_unref(self->reply);
		self->reply = g_byte_array_new();
	}
}

short client_connection_events(const ClientConnection *self)
{
	if (self->is_in_handshake)
		return self->tls->events;

	gboolean has_to_send =
		self->state == CLIENT_CONNECTION_CONNECTING ||
		(self->state == CLIENT_CONNECTION_CALLING && self->out_sent < self->out->len);

	return has_to_send ? POLLIN | POLLOUT : POLLIN;
}

/* Handles the errno of a failed send or receive. Returns whether the connection can continue. */
static gboolean can_go_on(const ClientConnection *self, GError **error)
{
	int code = errno;
	g_autofree char *why = NULL;

	if (code == EAGAIN || code == EINTR)
		return TRUE;
	why = tls_client_describe(self->tls, code);
	return set_failure(error, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, why);
}

static gboolean receive_bytes(ClientConnection *self, GError **error)
{
	for (;;) {
		guint had = self->in->len;

		g_byte_array_set_size(self->in, had + READ_BYTES);

		gssize n =
			tls_client_receive(self->tls, self->fd, self->in->data + had, READ_BYTES);

		g_byte_array_set_size(self->in, had + (guint)MAX(n, 0));
		if (n < 0)
			return can_go_on(self, error);
		if (n == 0)
			return set_failure(error, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
					   "the server closed the connection");
		if (n < READ_BYTES)
			return TRUE;
		if (self->in->len > self->max_reply_bytes)
			return TRUE; /* more bytes than allowed, which is reported below */
	}
}

/* Sends the call, and receives its reply. */
static ClientConnectionEvent advance_call(ClientConnection *self, GError **error)
{
	GByteArray *last_reply = self->reply;
	guint32 length;

	while (self->out_sent < self->out->len) {
		gssize n = tls_client_send(self->tls, self->fd, self->out->data + self->out_sent,
					   self->out->len - self->out_sent);

		if (n < 0 && !can_go_on(self, error))
			return CLIENT_CONNECTION_FAILED;
		if (n < 0)
			break;
		self->out_sent += (gsize)n;
	}
	if (!receive_bytes(self, error))
		return CLIENT_CONNECTION_FAILED;
	if (self->in->len < HEADER_BYTES)
		return CLIENT_CONNECTION_NOTHING;
	memcpy(&length, self->in->data, HEADER_BYTES);
	length = GUINT32_FROM_BE(length);
	if ((length & TLS_ALERT_MASK) == TLS_ALERT) {
		set_failure(error, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "the port requires TLS; write tls:HOST:PORT");
		return CLIENT_CONNECTION_FAILED;
	}
	if (length == 0 || length > self->max_reply_bytes) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "not a reply from a Snowflake server: a frame of %u bytes; the limit "
			    "is %u",
			    length, self->max_reply_bytes);
		return CLIENT_CONNECTION_FAILED;
	}
	if (self->in->len < HEADER_BYTES + length)
		return CLIENT_CONNECTION_NOTHING;
	self->reply = self->in;
	self->in = last_reply;
	length += HEADER_BYTES;
	g_byte_array_set_size(self->in, 0);
	g_byte_array_append(self->in, self->reply->data + length, self->reply->len - length);
	g_byte_array_set_size(self->reply, length);
	self->state = CLIENT_CONNECTION_IDLE;
	return CLIENT_CONNECTION_REPLIED;
}

static ClientConnectionEvent advance_handshake(ClientConnection *self, GError **error)
{
	g_autofree char *why = NULL;

	self->is_in_handshake = TRUE;
	if (tls_stream_shake_hands(self->tls) == 0) {
		self->is_in_handshake = FALSE;
		self->state = CLIENT_CONNECTION_IDLE;
		return CLIENT_CONNECTION_READY;
	}
	if (errno == EAGAIN)
		return CLIENT_CONNECTION_NOTHING;
	if (errno == ECONNRESET || errno == EPIPE)
		why = g_strdup("the server closed the connection in the TLS handshake; does the "
			       "port use TLS?");
	else
		why = tls_client_describe(self->tls, errno);
	set_unreachable(error, 0, why);
	return CLIENT_CONNECTION_FAILED;
}

ClientConnectionEvent client_connection_advance(ClientConnection *self, GError **error)
{
	struct pollfd writable = {.fd = self->fd, .events = POLLOUT};
	int code = 0;

	switch (self->state) {
	case CLIENT_CONNECTION_CONNECTING:
		if (self->is_in_handshake)
			return advance_handshake(self, error);
		if (poll(&writable, 1, 0) == 0)
			return CLIENT_CONNECTION_NOTHING;
		getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &code, &(socklen_t){sizeof(code)});
		if (code == 0 && socket_is_self_connected(self->fd))
			code = ECONNREFUSED;
		if (code != 0) {
			set_unreachable(error, code, NULL);
			return CLIENT_CONNECTION_FAILED;
		}
		if (self->tls != NULL)
			return advance_handshake(self, error);
		self->state = CLIENT_CONNECTION_IDLE;
		return CLIENT_CONNECTION_READY;
	case CLIENT_CONNECTION_IDLE:
		if (!receive_bytes(self, error))
			return CLIENT_CONNECTION_FAILED;
		if (self->in->len == 0)
			return CLIENT_CONNECTION_NOTHING;
		set_failure(error, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, "a reply without a call");
		return CLIENT_CONNECTION_FAILED;
	case CLIENT_CONNECTION_CALLING:
		return advance_call(self, error);
	}
	g_assert_not_reached();
}

/* Within a time limit */

static void set_timeout(GError **error, const char *what, ClientLimit limit)
{
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
		    "no %s within %u ms", what, limit.ms);
}

/* Advances the connection until its next event. */
static ClientConnectionEvent wait_for_event(ClientConnection *self, const char *what,
					    ClientLimit limit, GError **error)
{
	ClientConnectionEvent event;
	struct pollfd pollfd = {.fd = self->fd};

	while ((event = client_connection_advance(self, error)) == CLIENT_CONNECTION_NOTHING) {
		gint64 left_us = client_limit_end_us(limit) - g_get_monotonic_time();

		if (left_us <= 0) {
			set_timeout(error, what, limit);
			return CLIENT_CONNECTION_FAILED;
		}
		pollfd.events = client_connection_events(self);
		poll(&pollfd, 1, (int)MIN(left_us / G_TIME_SPAN_MILLISECOND + 1, G_MAXINT));
	}
	return event;
}

gboolean client_connection_wait_ready(ClientConnection *self, ClientLimit limit, GError **error)
{
	return self->state != CLIENT_CONNECTION_CONNECTING ||
	       wait_for_event(self, "connection", limit, error) == CLIENT_CONNECTION_READY;
}

ClientConnection *client_connection_new(const Address *address, TlsClient *tls, ClientLimit limit,
					GError **error)
{
	g_autofree char *why = NULL;
	g_autoptr(GPtrArray) names = NULL;
	g_autoptr(GError) failure = NULL;

	if (address->path != NULL) {
		gint64 left_us = client_limit_end_us(limit) - g_get_monotonic_time();
		/* a non-blocking socket would not wait for room in the server's queue */
		int fd = socket_unix_connect(address->path,
					     (guint)MAX(left_us / G_TIME_SPAN_MILLISECOND, 1));

		if (fd >= 0) {
			ClientConnection *self = connection_alloc(fd);

			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
			self->state = CLIENT_CONNECTION_IDLE;
			return self;
		}
		if (errno == ETIMEDOUT)
			set_timeout(error, "connection", limit);
		else
			set_unreachable(error, errno, NULL);
		return NULL;
	}
	names = resolution_wait_for_names(address, client_limit_end_us(limit), &why);
	for (guint left = names != NULL ? names->len : 0; left > 0; left--) {
		const ResolvedName *name = names->pdata[names->len - left];
		gint64 now_us = g_get_monotonic_time();
		gint64 half_us = MAX(client_limit_end_us(limit) - now_us, 0) / 2;
		ClientLimit half = {now_us, (guint)(half_us / G_TIME_SPAN_MILLISECOND) + 1};
		g_autoptr(ClientConnection) self = NULL;

		g_clear_error(&failure);
		self = client_connection_begin(&name->address, tls, &failure);
		if (self != NULL &&
		    client_connection_wait_ready(self, left > 1 ? half : limit, &failure))
			return g_steal_pointer(&self);
	}
	if (failure != NULL)
		g_propagate_error(error, g_steal_pointer(&failure));
	else if (why != NULL)
		set_unreachable(error, 0, why);
	else
		set_timeout(error, "connection", limit);
	return NULL;
}

gboolean client_connection_is_stale(ClientConnection *self)
{
	char byte;

	/* with TLS, the bytes may be part of TLS itself, such as tickets */
	return self->in->len > 0 ||
	       tls_client_receive(self->tls, self->fd, &byte, sizeof(byte)) >= 0 || errno != EAGAIN;
}

gboolean client_connection_exchange(ClientConnection *self, const GByteArray *request,
				    guint max_reply_bytes, ClientLimit limit, GByteArray *out_reply,
				    GError **error)
{
	const guint8 *reply;
	gsize length;

	client_connection_call(self, request, max_reply_bytes);
	if (wait_for_event(self, "answer", limit, error) != CLIENT_CONNECTION_REPLIED)
		return FALSE;
	reply = client_connection_get_reply(self, &length);
	g_byte_array_set_size(out_reply, 0);
	g_byte_array_append(out_reply, reply, (guint)length);
	return TRUE;
}
