/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/poller.h"

/* If the array of replies is larger than this after a pass, it is freed. */
#define KEPT_OUT_BYTES (256 * 1024)

static void drop_buffers(Connection *self)
{
	stream_clear(&self->stream);
	g_clear_pointer(&self->in, g_byte_array_unref);
	g_clear_pointer(&self->out, g_byte_array_unref);
	self->out_sent = 0;
}

void connection_clear(Connection *self)
{
	drop_buffers(self);
	if (self->is_tls)
		tls_stream_close(self->tls);
	tls_stream_free(self->tls);
	close(self->fd);
}

/* Returns how many bytes of replies are waiting for the client. */
static gsize pending_bytes(const Connection *self)
{
	return self->out == NULL ? 0 : self->out->len - self->out_sent;
}

/* Sends as many of @bytes as possible. Returns the number of bytes sent, or -1 if the connection is
 * broken. */
static inline gssize send_some(Connection *self, ConnectionShared *shared, const guint8 *bytes,
			       gsize length)
{
	gssize sent;

	do
		sent = G_UNLIKELY(self->is_tls)
			       ? tls_stream_send(self->tls, bytes, length)
			       : poller_send(self->fd, bytes, length, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (sent < 0 && errno == EPROTO && self->is_tls)
		self->bad = self->tls->failure;
	if (sent > 0) {
		self->sent = TRUE;
		counters_add(shared->counters, COUNTER_BYTES_SENT, (guint64)sent);
	}
	return sent;
}

gboolean connection_send(Connection *self, ConnectionShared *shared)
{
	gssize sent;

	if (self->out == NULL)
		return TRUE;
	sent = send_some(self, shared, self->out->data + self->out_sent, pending_bytes(self));
	if (sent < 0)
		return FALSE;
	self->out_sent += (guint)sent;
	if (pending_bytes(self) == 0) {
		g_clear_pointer(&self->out, g_byte_array_unref);
		self->out_sent = 0;
	} else if (self->out_sent >= self->out->len / 2) {
		/* drop the sent bytes, because new replies are appended while others are sent */
		g_byte_array_remove_range(self->out, 0, self->out_sent);
		self->out_sent = 0;
	}
	return TRUE;
}

/* Reads once. Returns the number of bytes, 0 if there were none, -1 if the connection is broken. */
static inline gssize receive_bytes(Connection *self, ConnectionShared *shared)
{
	gssize received;
	int failure;

	self->more = FALSE;
	do
		received = G_UNLIKELY(self->is_tls)
				   ? tls_stream_receive(self->tls, shared->in, shared->in_bytes)
				   : poller_recv(self->fd, shared->in, shared->in_bytes, 0);
	while (received < 0 && errno == EINTR);
	failure = received < 0 ? errno : 0;
	if (G_UNLIKELY(self->is_tls)) {
		self->more = received > 0 && self->tls->has_more;
		self->in_record = tls_stream_has_part(self->tls);
	}
	if (received < 0) {
		if (failure == EPROTO && self->is_tls)
			self->bad = self->tls->failure;
		return failure == EAGAIN || failure == EWOULDBLOCK ? 0 : -1;
	}
	if ((gsize)received == shared->in_bytes)
		self->more = TRUE;
	if (received == 0)
		self->eof = TRUE;
	counters_add(shared->counters, COUNTER_BYTES_RECEIVED, (guint64)received);
	return received;
}

void connection_half_close(Connection *self)
{
	drop_buffers(self);
	if (self->is_tls)
		tls_stream_close(self->tls);
	shutdown(self->fd, SHUT_WR); /* fails if the client has already closed it */
}

gboolean connection_discard(Connection *self, ConnectionShared *shared)
{
	gssize n = poller_recv(self->fd, shared->in, shared->in_bytes, 0);

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static gboolean may_answer(const Connection *self, const ConnectionShared *shared)
{
	return !self->ending && pending_bytes(self) < shared->max_pending_bytes;
}

static gboolean may_read(const Connection *self, const ConnectionShared *shared)
{
	return may_answer(self, shared) && !self->eof && !self->full;
}

guint32 connection_events(const Connection *self, const ConnectionShared *shared,
			  ConnectionState state)
{
	guint32 events = 0;

	if (pending_bytes(self) > 0)
		events |= EPOLLOUT;
	if (state != CONNECTION_PARKED && may_read(self, shared))
		events |= EPOLLIN;
	return events;
}

static ConnectionState waiting_state(const Connection *self)
{
	if (pending_bytes(self) > 0)
		return CONNECTION_WRITING;
	if (self->full || (self->is_tls && self->more && !self->ending))
		return CONNECTION_CUT_OFF;
	return self->ending ? CONNECTION_ENDED : CONNECTION_READING;
}

ConnectionState connection_flush(Connection *self, ConnectionShared *shared)
{
	self->sent = self->consumed = FALSE;
	return connection_send(self, shared) ? waiting_state(self) : CONNECTION_ENDED;
}

/* Runs a pass. Afterwards, @shared->out contains the bytes of replies that were sent or kept for
 * later. */
static ConnectionState make_pass(Connection *self, ConnectionShared *shared, RpcPass *pass,
				 gboolean read)
{
	const GByteArray *replies = shared->out;
	StreamStatus status;
	gssize fresh = 0, sent = 0;

	self->sent = self->consumed = FALSE;
	if (self->out != NULL && !connection_send(self, shared))
		return CONNECTION_ENDED;
	if (!may_answer(self, shared))
		return waiting_state(self);
	if (read && may_read(self, shared))
		fresh = receive_bytes(self, shared);
	if (fresh < 0)
		return CONNECTION_ENDED;

	/* answer calls in the kept bytes, followed by the new bytes from the loop's buffer */
	pass->bytes = shared->in;
	pass->length = (gsize)fresh;
	pass->room = shared->max_pending_bytes - pending_bytes(self);
	pass->out = shared->out;
	if (self->in != NULL) {
		g_byte_array_append(self->in, shared->in, (guint)fresh);
		pass->bytes = self->in->data;
		pass->length = self->in->len;
	} else {
		self->consumed = fresh > 0; /* if bytes remain, a message has begun */
	}
	status = stream_answer(&self->stream, &shared->stream, pass);
	self->bad = pass->bad;
	if (pass->consumed > 0)
		self->consumed = TRUE;

	/* keep the bytes that were not consumed, some of which may have been kept before */
	if (self->in != NULL) {
		g_byte_array_remove_range(self->in, 0, (guint)pass->consumed);
		if (self->in->len == 0)
			g_clear_pointer(&self->in, g_byte_array_unref);
	} else if (pass->consumed < pass->length) {
		self->in = g_byte_array_new();
		g_byte_array_append(self->in, pass->bytes + pass->consumed,
				    (guint)(pass->length - pass->consumed));
	}

	/* send the replies, and keep those that cannot be sent */
	if (replies->len > 0 && self->out == NULL) {
		sent = send_some(self, shared, replies->data, replies->len);
		if (sent < 0)
			return CONNECTION_ENDED;
	}
	if ((gsize)sent < replies->len) {
		if (self->out == NULL)
			self->out = g_byte_array_new();
		g_byte_array_append(self->out, replies->data + sent, replies->len - (guint)sent);
	}

	self->full = status == STREAM_FULL;
	if (status == STREAM_FULL || status == STREAM_PARKED)
		/* more bytes may arrive, because the socket is not read until then */
		self->more = TRUE;
	if (status == STREAM_CLOSE || (self->eof && status == STREAM_MORE))
		self->ending = TRUE;
	/* Acknowledge part of a message at once, because no reply carries the acknowledgement, and
	 * the kernel would delay it by 40 ms. A client that writes a message in two parts waits for
	 * it, unless it has switched off Nagle's algorithm. If this fails, only time is lost. */
	if (fresh > 0 && status == STREAM_MORE && self->in != NULL && !self->sent && !self->more)
		(void)setsockopt(self->fd, IPPROTO_TCP, TCP_QUICKACK, &(int){1}, sizeof(int));
	return status == STREAM_PARKED ? CONNECTION_PARKED : waiting_state(self);
}

ConnectionState connection_run(Connection *self, ConnectionShared *shared, RpcPass *pass,
			       gboolean read)
{
	ConnectionState state = make_pass(self, shared, pass, read);

	/* the array is not needed after the pass: the replies were sent, copied to the connection,
	 * or lost with it */
	if (G_UNLIKELY(shared->out->len > KEPT_OUT_BYTES)) {
		g_byte_array_unref(shared->out);
		shared->out = g_byte_array_new();
	}
	shared->out->len = 0; /* g_byte_array_set_size() would move the bytes after the end */
	return state;
}
