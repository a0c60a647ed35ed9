/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/resolver.h"
#include "common/address.h"
#include "common/tls/client.h"

/* A connection to one server, by TCP with or without TLS, or by a local socket. It transports
 * frames: four bytes of length, then a message. There is at most one call at a time, and only one
 * thread at a time may use a connection.
 *
 * Use either the functions that never wait, or the functions that wait within a time limit. */

typedef enum {
	CLIENT_CONNECTION_CONNECTING, /* including the TLS handshake */
	CLIENT_CONNECTION_IDLE,
	CLIENT_CONNECTION_CALLING,
} ClientConnectionState;

typedef enum {
	CLIENT_CONNECTION_NOTHING, /* no event: the connection continues */
	CLIENT_CONNECTION_READY,   /* the connection was just established */
	CLIENT_CONNECTION_REPLIED,
	CLIENT_CONNECTION_FAILED, /* the connection is unusable */
} ClientConnectionEvent;

/* Code outside this module may only read the members, except fd. */
typedef struct {
	int fd;         /* -1 after the owner has closed it, and in a forked child */
	TlsStream *tls; /* NULL for no TLS */
	ClientConnectionState state;
	/* CONNECTING: TCP is connected, and the TLS handshake is in progress */
	gboolean is_in_handshake;
	guint max_reply_bytes;
	GByteArray *out; /* frame to send */
	gsize out_sent;
	GByteArray *in;    /* bytes received after the last reply */
	GByteArray *reply; /* last frame received */
} ClientConnection;

/* Closes the connection, and frees it. Sends nothing to the server if fd is -1. */
void client_connection_free(ClientConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClientConnection, client_connection_free)

/* Returns: the first byte of the last reply, which is valid until the next call */
const guint8 *client_connection_get_reply(const ClientConnection *self, gsize *out_length);

/* Functions that never wait. The owner calls poll(2) with client_connection_events(), and then
 * client_connection_advance(). */

/* Begins to connect. @tls: (nullable): borrowed; required for an address with TLS. Returns:
 * (transfer full): a connection, or %NULL with UNREACHABLE set, or with TIMEOUT set if the queue of
 * a local socket is currently full */
ClientConnection *client_connection_begin(const SocketAddress *address, TlsClient *tls,
					  GError **error);

/* Begins a call. The connection must be idle. @request: copied */
void client_connection_call(ClientConnection *self, const GByteArray *request,
			    guint max_reply_bytes);

/* Returns: the poll(2) events to wait for */
short client_connection_events(const ClientConnection *self);

/* Sends and receives as much as possible without waiting. Returns: the event; with FAILED, the
 * error UNREACHABLE or PROTOCOL is set */
ClientConnectionEvent client_connection_advance(ClientConnection *self, GError **error);

/* Functions that wait within a time limit. */

/* A time limit with its start. All steps of an operation share it. */
typedef struct {
	gint64 start_us; /* g_get_monotonic_time() */
	guint ms;
} ClientLimit;

static inline gint64 client_limit_end_us(ClientLimit limit)
{
	return limit.start_us + limit.ms * G_TIME_SPAN_MILLISECOND;
}

/* Tries the addresses of the name one after the other. Each attempt can take half of the remaining
 * time, the last attempt all of it. If the time limit expires during the DNS lookup, the lookup
 * continues in its thread until the resolver gives up. @tls: (nullable): borrowed; %NULL for plain
 * TCP. Returns: (transfer full): a connection, or %NULL with UNREACHABLE or TIMEOUT set */
ClientConnection *client_connection_new(const Address *address, TlsClient *tls, ClientLimit limit,
					GError **error);

/* Waits until a connection from client_connection_begin() is established. Returns: %FALSE with
 * UNREACHABLE or TIMEOUT set; the connection is then unusable */
gboolean client_connection_wait_ready(ClientConnection *self, ClientLimit limit, GError **error);

/* Returns whether an idle connection is unusable because the server has closed it, or has sent
 * bytes although no call is in progress. Never waits. */
gboolean client_connection_is_stale(ClientConnection *self);

/* Sends a message, and sets @out_reply to the reply; undefined on failure, after which the
 * connection is unusable. Returns: %TRUE, or %FALSE with UNREACHABLE, TIMEOUT or PROTOCOL set */
gboolean client_connection_exchange(ClientConnection *self, const GByteArray *request,
				    guint max_reply_bytes, ClientLimit limit, GByteArray *out_reply,
				    GError **error) G_GNUC_WARN_UNUSED_RESULT;
