/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "client/call.h"
#include "common/socket.h"

#define CONNECTING_DESCRIPTORS 4

#define NO_TLS "the server closed the connection in the TLS handshake; does it speak TLS there?"

struct _ClientConnection {
	GSocketConnection *stream;
	GSocket *socket; /* of the stream; does not block */
	TlsStream *tls;  /* NULL: plain */
};

/* What waits while a connection is being made. */
typedef struct {
	GCancellable *cancellable;
	GSocketConnection *stream;
	GError *error;
	gboolean done;
	gboolean timed_out;
} Attempt;

static gint64 end_us(ClientLimit limit)
{
	return limit.start_us + limit.ms * G_TIME_SPAN_MILLISECOND;
}

/* Rounded up, so that a timer does not go off before the end. */
static guint left_ms(ClientLimit limit)
{
	gint64 left_us = MAX(end_us(limit) - g_get_monotonic_time(), 0);

	return (guint)((left_us + G_TIME_SPAN_MILLISECOND - 1) / G_TIME_SPAN_MILLISECOND);
}

static void connected(GObject *source, GAsyncResult *result, gpointer user_data)
{
	Attempt *attempt = user_data;

	attempt->stream =
		g_socket_client_connect_finish(G_SOCKET_CLIENT(source), result, &attempt->error);
	attempt->done = TRUE;
}

static gboolean give_up(gpointer user_data)
{
	Attempt *attempt = user_data;

	attempt->timed_out = TRUE;
	g_cancellable_cancel(attempt->cancellable);
	return G_SOURCE_REMOVE;
}

/* GLib ends the program where it gets none for a main context and what waits in it. So they are
 * had and given back before. */
static gboolean has_descriptors(int *out_errno)
{
	int fds[CONNECTING_DESCRIPTORS];
	guint count = 0;

	while (count < G_N_ELEMENTS(fds) &&
	       (fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		count++;
	*out_errno = errno;
	for (guint i = 0; i < count; i++)
		close(fds[i]);
	return count == G_N_ELEMENTS(fds);
}

/* GIO's own time limits are whole seconds, and a blocking look-up of a name has none. So connect in
 * a main loop of our own, with a timer beside it. */
static void connect_within(const Address *address, ClientLimit limit, Attempt *attempt)
{
	g_autoptr(GMainContext) context = g_main_context_new();
	g_autoptr(GSocketClient) client = g_socket_client_new();
	g_autoptr(GSocketConnectable) target = g_network_address_new(address->host, address->port);
	g_autoptr(GSource) timer = g_timeout_source_new(left_ms(limit));

	g_main_context_push_thread_default(context);
	g_source_set_callback(timer, give_up, attempt, NULL);
	g_source_attach(timer, context);
	g_socket_client_set_enable_proxy(client, FALSE);
	g_socket_client_connect_async(client, target, attempt->cancellable, connected, attempt);
	while (!attempt->done)
		g_main_context_iteration(context, TRUE);
	g_source_destroy(timer);
	/* an attempt at another address holds its socket and this context until it has heard that
	 * it is cancelled */
	while (g_main_context_iteration(context, FALSE))
		;
	g_main_context_pop_thread_default(context);
}

static void set_unreachable(GError **error, const char *why)
{
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
		    "cannot connect: %s", why);
}

static void set_timeout(GError **error, ClientLimit limit)
{
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
		    "no connection within %u ms", limit.ms);
}

static void set_connect_error(GError **error, ClientLimit limit, const Attempt *attempt)
{
	if (attempt->timed_out) {
		set_timeout(error, limit);
		return;
	}

	/* GIO's message names the host once more; the reason is at its end */
	const char *colon = g_strrstr(attempt->error->message, ": ");

	set_unreachable(error, colon != NULL ? colon + 2 : attempt->error->message);
}

/* (transfer full) (nullable) */
static GSocketConnection *connect_to_host(const Address *address, ClientLimit limit, GError **error)
{
	g_autoptr(GCancellable) cancellable = g_cancellable_new();
	Attempt attempt = {.cancellable = cancellable};
	int code;

	if (!has_descriptors(&code)) {
		set_unreachable(error, g_strerror(code));
		return NULL;
	}
	connect_within(address, limit, &attempt);
	if (attempt.stream == NULL) {
		set_connect_error(error, limit, &attempt);
		g_clear_error(&attempt.error);
	} else if (socket_is_self_connected(
			   g_socket_get_fd(g_socket_connection_get_socket(attempt.stream)))) {
		set_unreachable(error, g_strerror(ECONNREFUSED));
		g_clear_object(&attempt.stream);
	}
	return attempt.stream;
}

/* (transfer full) (nullable): without GIO, which would not wait for room among those who wait to be
 * accepted. */
static GSocketConnection *connect_to_path(const char *path, ClientLimit limit, GError **error)
{
	int fd = socket_unix_connect(path, MAX(left_ms(limit), 1));
	g_autoptr(GError) failure = NULL;
	g_autoptr(GSocket) socket = NULL;

	if (fd < 0 && errno == ETIMEDOUT) {
		set_timeout(error, limit);
		return NULL;
	}
	if (fd < 0) {
		set_unreachable(error, g_strerror(errno));
		return NULL;
	}
	socket = g_socket_new_from_fd(fd, &failure);
	if (socket == NULL) {
		close(fd);
		set_unreachable(error, failure->message);
		return NULL;
	}
	return g_socket_connection_factory_create_connection(socket);
}

static ClientConnection *connection_of(GSocketConnection *stream, const Address *address)
{
	ClientConnection *self = g_new0(ClientConnection, 1);

	self->stream = stream;
	self->socket = g_socket_connection_get_socket(stream);
	g_socket_set_blocking(self->socket, FALSE);
	/* if it fails, calls are slower, and that is all */
	if (address->path == NULL)
		g_socket_set_option(self->socket, IPPROTO_TCP, TCP_NODELAY, 1, NULL);
	return self;
}

/* As the functions of a GSocket would set it. */
static void set_tls_error(const ClientConnection *self, GError **error)
{
	int number = errno;
	g_autofree char *why = tls_client_describe(self->tls, number);

	g_set_error_literal(error, G_IO_ERROR, (gint)g_io_error_from_errno(number), why);
}

/* After a send or receive that failed with *error: %TRUE, and no error, once it can go on. */
static gboolean wait_if_it_would_block(ClientConnection *self, GIOCondition condition,
				       gint64 deadline_us, GError **error)
{
	if (!g_error_matches(*error, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK))
		return FALSE;
	g_clear_error(error);
	if (self->tls != NULL) /* poll's are GLib's */
		condition = (GIOCondition)tls_stream_events(self->tls);

	/* GLib cuts it off to milliseconds, and so might not wait at all */
	gint64 left_us = deadline_us - g_get_monotonic_time() + G_TIME_SPAN_MILLISECOND - 1;

	return g_socket_condition_timed_wait(self->socket, condition, MAX(left_us, 0), NULL, error);
}

static gboolean shake_hands(ClientConnection *self, gint64 deadline_us, GError **error)
{
	while (tls_stream_shake_hands(self->tls) != 0) {
		set_tls_error(self, error);
		if (!wait_if_it_would_block(self, G_IO_IN, deadline_us, error))
			return FALSE;
	}
	return TRUE;
}

static gboolean start_tls(ClientConnection *self, TlsClient *tls, const char *host,
			  ClientLimit limit, GError **error)
{
	g_autoptr(GError) failure = NULL;

	self->tls = tls_client_connect(tls, g_socket_get_fd(self->socket), host);
	if (self->tls == NULL) {
		set_unreachable(error, g_strerror(errno));
		return FALSE;
	}
	if (shake_hands(self, end_us(limit), &failure))
		return TRUE;
	if (g_error_matches(failure, G_IO_ERROR, G_IO_ERROR_TIMED_OUT))
		set_timeout(error, limit);
	else if (g_error_matches(failure, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED))
		set_unreachable(error, NO_TLS);
	else
		set_unreachable(error, failure->message);
	return FALSE;
}

ClientConnection *client_connection_new(const Address *address, TlsClient *tls, ClientLimit limit,
					GError **error)
{
	GSocketConnection *stream = address->path != NULL
					    ? connect_to_path(address->path, limit, error)
					    : connect_to_host(address, limit, error);
	g_autoptr(ClientConnection) self = stream != NULL ? connection_of(stream, address) : NULL;

	if (self == NULL || (tls != NULL && !start_tls(self, tls, address->host, limit, error)))
		return NULL;
	return g_steal_pointer(&self);
}

void client_connection_free(ClientConnection *self)
{
	if (self == NULL)
		return;
	if (self->tls != NULL)
		tls_stream_close(self->tls);
	tls_stream_free(self->tls);
	g_object_unref(self->stream);
	g_free(self);
}

gboolean client_connection_is_stale(ClientConnection *self)
{
	char byte;

	if (self->tls == NULL)
		return g_socket_condition_check(self->socket, G_IO_IN) != 0;
	/* what came may be TLS's own, as the tickets of a proxy */
	return tls_stream_receive(self->tls, &byte, sizeof(byte)) >= 0 || errno != EAGAIN;
}

/* As g_socket_send() and g_socket_receive(). */
static gssize send_some(ClientConnection *self, const char *bytes, gsize length, GError **error)
{
	gssize n;

	if (self->tls == NULL)
		return g_socket_send(self->socket, bytes, length, NULL, error);
	n = tls_stream_send(self->tls, bytes, length);
	if (n < 0)
		set_tls_error(self, error);
	return n;
}

static gssize receive_some(ClientConnection *self, char *out_bytes, gsize length, GError **error)
{
	gssize n;

	if (self->tls == NULL)
		return g_socket_receive(self->socket, out_bytes, length, NULL, error);
	n = tls_stream_receive(self->tls, out_bytes, length);
	if (n < 0)
		set_tls_error(self, error);
	return n;
}

static gboolean send_all(ClientConnection *self, const void *bytes, gsize length,
			 gint64 deadline_us, GError **error)
{
	for (gsize sent = 0; sent < length;) {
		gssize n = send_some(self, (const char *)bytes + sent, length - sent, error);

		if (n >= 0)
			sent += n;
		else if (!wait_if_it_would_block(self, G_IO_OUT, deadline_us, error))
			return FALSE;
	}
	return TRUE;
}

static gboolean receive_all(ClientConnection *self, void *out_bytes, gsize length,
			    gint64 deadline_us, GError **error)
{
	for (gsize received = 0; received < length;) {
		gssize n =
			receive_some(self, (char *)out_bytes + received, length - received, error);

		if (n == 0) {
			g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED,
					    "the server closed the connection");
			return FALSE;
		}
		if (n > 0)
			received += n;
		else if (!wait_if_it_would_block(self, G_IO_IN, deadline_us, error))
			return FALSE;
	}
	return TRUE;
}

static gboolean send_frame(ClientConnection *self, const GByteArray *message, gint64 deadline_us,
			   GError **error)
{
	guint32 length = GUINT32_TO_BE(message->len);
	g_autoptr(GByteArray) frame = g_byte_array_sized_new(sizeof(length) + message->len);

	g_byte_array_append(frame, (const guint8 *)&length, sizeof(length));
	g_byte_array_append(frame, message->data, message->len);
	return send_all(self, frame->data, frame->len, deadline_us, error);
}

static gboolean receive_frame(ClientConnection *self, guint max_bytes, gint64 deadline_us,
			      GByteArray *out_message, GError **error)
{
	guint32 length;

	if (!receive_all(self, &length, sizeof(length), deadline_us, error))
		return FALSE;
	length = GUINT32_FROM_BE(length);
	if (!client_call_check_frame(length, max_bytes, error))
		return FALSE;
	g_byte_array_set_size(out_message, length);
	return receive_all(self, out_message->data, length, deadline_us, error);
}

gboolean client_connection_exchange(ClientConnection *self, const GByteArray *request,
				    guint max_reply_bytes, ClientLimit limit, GByteArray *out_reply,
				    GError **error)
{
	gint64 deadline_us = end_us(limit);
	g_autoptr(GError) failure = NULL;

	if (send_frame(self, request, deadline_us, &failure) &&
	    receive_frame(self, max_reply_bytes, deadline_us, out_reply, &failure))
		return TRUE;

	if (g_error_matches(failure, G_IO_ERROR, G_IO_ERROR_TIMED_OUT))
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
			    "no answer within %u ms", limit.ms);
	else if (failure->domain == SNOWFLAKE_CLIENT_ERROR)
		g_propagate_error(error, g_steal_pointer(&failure));
	else
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, failure->message);
	return FALSE;
}
