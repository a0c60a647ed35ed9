/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/fork-guard.h"
#include "common/self-connection.h"

#define HEADER_BYTES sizeof(guint32)
#define READ_BYTES   16384
#define KEPT_BYTES   (256 * 1024) /* of the buffer for replies, kept for the next reply */

static gboolean fail(GError **error, SnowflakeClientError code, const char *why)
{
	g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, code, why);
	return FALSE;
}

static void set_state(PoolLink *self, PoolLinkState state, gint64 now_us)
{
	self->state = state;
	self->since_us = now_us;
}

static gboolean begin_to_connect(PoolLink *self, const PoolLinkAddress *address)
{
	const int one = 1;

	self->fd = socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (self->fd < 0)
		return FALSE;
	fork_guard_note(&self->fd);
	/* if it fails, as it does on a local socket, calls are slower at worst */
	setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return connect(self->fd, (const struct sockaddr *)&address->bytes, address->length) == 0 ||
	       errno == EINPROGRESS;
}

static gboolean prepare_tls(PoolLink *self, const PoolLinkAddress *address, TlsClient *tls)
{
	if (*address->tls_host == '\0')
		return TRUE;
	errno = EPROTONOSUPPORT; /* there is nothing to speak it with */
	if (tls != NULL)
		self->tls = tls_client_connect(tls, self->fd, address->tls_host);
	return self->tls != NULL;
}

PoolLink *pool_link_new(const PoolLinkAddress *address, TlsClient *tls, gint64 now_us,
			GError **error)
{
	PoolLink *self = g_new0(PoolLink, 1);

	self->out = g_byte_array_new();
	self->in = g_byte_array_new();
	set_state(self, POOL_LINK_CONNECTING, now_us);
	if (begin_to_connect(self, address) && prepare_tls(self, address, tls))
		return self;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
		    "cannot connect: %s", g_strerror(errno));
	pool_link_free(self);
	return NULL;
}

void pool_link_free(PoolLink *self)
{
	if (self == NULL)
		return;
	tls_stream_free(self->tls); /* says nothing: in the child of a fork it is the parent's */
	fork_guard_close_noted(&self->fd);
	g_byte_array_unref(self->out);
	g_byte_array_unref(self->in);
	g_free(self);
}

void pool_link_ask(PoolLink *self, const ClientCall *call, gint64 now_us)
{
	guint32 length = 0;

	self->call = *call;
	self->seqid = self->seqid == G_MAXINT32 ? 0 : self->seqid + 1;
	self->out_sent = 0;
	g_byte_array_set_size(self->out, 0);
	g_byte_array_append(self->out, (const guint8 *)&length, HEADER_BYTES);
	client_call_write(call, self->seqid, self->out);
	length = GUINT32_TO_BE(self->out->len - HEADER_BYTES);
	memcpy(self->out->data, &length, HEADER_BYTES);
	set_state(self, POOL_LINK_ASKING, now_us);
}

short pool_link_events(const PoolLink *self)
{
	if (self->is_shaking)
		return tls_stream_events(self->tls);

	gboolean has_to_send = self->state == POOL_LINK_CONNECTING ||
			       (self->state == POOL_LINK_ASKING && self->out_sent < self->out->len);

	return has_to_send ? POLLIN | POLLOUT : POLLIN;
}

static gboolean can_go_on(const PoolLink *self, GError **error)
{
	int number = errno;
	g_autofree char *why = NULL;

	if (number == EAGAIN || number == EINTR)
		return TRUE;
	why = tls_client_describe(self->tls, number);
	return fail(error, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, why);
}

static gboolean send_some(PoolLink *self, GError **error)
{
	while (self->out_sent < self->out->len) {
		ssize_t n = tls_client_send(self->tls, self->fd, self->out->data + self->out_sent,
					    self->out->len - self->out_sent);

		if (n < 0)
			return can_go_on(self, error);
		self->out_sent += (gsize)n;
	}
	return TRUE;
}

static gboolean receive_some(PoolLink *self, GError **error)
{
	for (;;) {
		guint had = self->in->len;

		g_byte_array_set_size(self->in, had + READ_BYTES);

		ssize_t n =
			tls_client_receive(self->tls, self->fd, self->in->data + had, READ_BYTES);

		g_byte_array_set_size(self->in, had + (guint)MAX(n, 0));
		if (n < 0)
			return can_go_on(self, error);
		if (n == 0)
			return fail(error, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
				    "the server closed the connection");
		if (n < READ_BYTES)
			return TRUE;
		if (self->in->len > client_call_max_reply_bytes(&self->call))
			return TRUE; /* more than there may be: enough to see that */
	}
}

/* The length of the message that answers; 0: it is not all there yet. */
static gboolean find_message(const PoolLink *self, guint *out_length, GError **error)
{
	guint max_bytes = client_call_max_reply_bytes(&self->call);
	guint32 length;

	*out_length = 0;
	if (self->in->len < HEADER_BYTES)
		return TRUE;
	memcpy(&length, self->in->data, HEADER_BYTES);
	length = GUINT32_FROM_BE(length);
	if (!client_call_check_frame(length, max_bytes, error))
		return FALSE;
	if (self->in->len > HEADER_BYTES + length)
		return fail(error, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "not an answer of a Snowflake server: more than one");
	*out_length = self->in->len == HEADER_BYTES + length ? length : 0;
	return TRUE;
}

static void clear_input(PoolLink *self)
{
	gboolean is_large = self->in->len > KEPT_BYTES;

	g_byte_array_set_size(self->in, 0);
	if (!is_large)
		return;
	g_byte_array_unref(self->in);
	self->in = g_byte_array_new();
}

static PoolLinkEvent read_reply(PoolLink *self, guint length, gint64 now_us, ClientReply *reply,
				GError **error)
{
	g_autoptr(GError) refusal = NULL;
	gboolean answered = client_call_read(
		&self->call, self->seqid, self->in->data + HEADER_BYTES, length, reply, &refusal);

	clear_input(self);
	set_state(self, POOL_LINK_IDLE, now_us);
	if (answered)
		return POOL_LINK_ANSWERED;

	gboolean is_broken = refusal->code == SNOWFLAKE_CLIENT_ERROR_PROTOCOL;

	g_propagate_error(error, g_steal_pointer(&refusal));
	return is_broken ? POOL_LINK_FAILED : POOL_LINK_REFUSED;
}

static PoolLinkEvent exchange(PoolLink *self, gint64 now_us, ClientReply *reply, GError **error)
{
	guint length;

	if (!send_some(self, error) || !receive_some(self, error) ||
	    !find_message(self, &length, error))
		return POOL_LINK_FAILED;
	return length > 0 ? read_reply(self, length, now_us, reply, error) : POOL_LINK_NOTHING;
}

static PoolLinkEvent shake_hands(PoolLink *self, gint64 now_us, GError **error)
{
	g_autofree char *why = NULL;
	gboolean is_of_tls;

	self->is_shaking = TRUE;
	if (tls_stream_shake_hands(self->tls) == 0) {
		self->is_shaking = FALSE;
		set_state(self, POOL_LINK_IDLE, now_us);
		return POOL_LINK_READY;
	}
	if (errno == EAGAIN)
		return POOL_LINK_NOTHING;
	is_of_tls = errno == EPROTO;
	why = tls_client_describe(self->tls, errno);
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
		    "cannot connect: %s%s", why,
		    is_of_tls ? "" : " during the TLS handshake (a server without TLS?)");
	return POOL_LINK_FAILED;
}

static PoolLinkEvent finish_connecting(PoolLink *self, gint64 now_us, GError **error)
{
	struct pollfd writable = {.fd = self->fd, .events = POLLOUT};
	int code = 0;
	socklen_t length = sizeof(code);

	if (poll(&writable, 1, 0) == 0)
		return POOL_LINK_NOTHING;
	getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &code, &length);
	if (code == 0 && self_connection_is_one(self->fd))
		code = ECONNREFUSED;
	if (code == 0 && self->tls != NULL)
		return shake_hands(self, now_us, error);
	if (code == 0) {
		set_state(self, POOL_LINK_IDLE, now_us);
		return POOL_LINK_READY;
	}
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
		    "cannot connect: %s", g_strerror(code));
	return POOL_LINK_FAILED;
}

static PoolLinkEvent look_while_idle(PoolLink *self, GError **error)
{
	if (!receive_some(self, error))
		return POOL_LINK_FAILED;
	if (self->in->len == 0)
		return POOL_LINK_NOTHING;
	fail(error, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, "an answer that nobody asked for");
	return POOL_LINK_FAILED;
}

PoolLinkEvent pool_link_advance(PoolLink *self, gint64 now_us, ClientReply *reply, GError **error)
{
	switch (self->state) {
	case POOL_LINK_CONNECTING:
		return self->is_shaking ? shake_hands(self, now_us, error)
					: finish_connecting(self, now_us, error);
	case POOL_LINK_IDLE:
		return look_while_idle(self, error);
	case POOL_LINK_ASKING:
		return exchange(self, now_us, reply, error);
	}
	g_assert_not_reached();
}
