/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/resolver.h"
#include "common/address.h"
#include "common/tls/client.h"

/*
 * A connection to one server, by TCP, with TLS or without, or by a local socket. It carries frames:
 * four bytes of length, then a message. One call at a time; one thread at a time.
 *
 * It can be used in two ways: by functions that never wait, or by functions that wait within a time
 * limit.
 */

typedef enum {
	CLIENT_CONNECTION_CONNECTING, /* including the TLS handshake */
	CLIENT_CONNECTION_IDLE,
	CLIENT_CONNECTION_CALLING,
} ClientConnectionState;

typedef enum {
	CLIENT_CONNECTION_NOTHING, /* no event: the connection continues */
	CLIENT_CONNECTION_READY,   /* it has just become connected */
	CLIENT_CONNECTION_REPLIED,
	CLIENT_CONNECTION_FAILED, /* the connection is unusable */
} ClientConnectionEvent;

/* Code outside this module may only read the members, except fd. */
typedef struct {
	int fd;         /* -1: closed by the owner, or in the child of a fork */
	TlsStream *tls; /* NULL for no TLS */
	ClientConnectionState state;
	gboolean is_in_handshake; /* CONNECTING: connected, and in the TLS handshake */
	guint max_reply_bytes;
	GByteArray *out; /* frame to send */
	gsize out_sent;
	GByteArray *in;    /* bytes received after the last reply */
	GByteArray *reply; /* last frame received */
} ClientConnection;

/* Sends nothing to the server if fd is -1. */
void client_connection_free(ClientConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClientConnection, client_connection_free)

/* The last reply, until the next call. Returns: its first byte */
const guint8 *client_connection_get_reply(const ClientConnection *self, gsize *out_length);

/*
 * Functions that never wait: the owner waits for client_connection_events() by poll(2), then calls
 * client_connection_advance().
 */

/* Begins to connect. @tls: (nullable): borrowed; needed for an address with TLS. Returns: (transfer
 * full): %NULL with UNREACHABLE set, or with TIMEOUT if the queue of a local socket is full for now
 */
ClientConnection *client_connection_begin(const SocketAddress *address, TlsClient *tls,
					  GError **error);

/* Begins a call. The connection is idle. @request: copied */
void client_connection_call(ClientConnection *self, const GByteArray *request,
			    guint max_reply_bytes);

/* Returns: the events of poll(2) to wait for */
short client_connection_events(const ClientConnection *self);

/* Sends and receives what it can without waiting. An error is set with FAILED: UNREACHABLE or
 * PROTOCOL. */
ClientConnectionEvent client_connection_advance(ClientConnection *self, GError **error);

/* Functions that wait within a time limit. */

/* A time limit and its start; later steps get the remaining time. */
typedef struct {
	gint64 start_us; /* g_get_monotonic_time() */
	guint ms;
} ClientLimit;

static inline gint64 client_limit_end_us(ClientLimit limit)
{
	return limit.start_us + limit.ms * G_TIME_SPAN_MILLISECOND;
}

/**
 * client_connection_new:
 * @tls: (nullable): borrowed; %NULL for plain TCP
 *
 * Tries the addresses of the name one after the other. Each attempt can take half of the remaining
 * time, and the last one all of it. If the time limit ends during the DNS lookup, the lookup
 * continues in its thread until the resolver gives up.
 *
 * Returns: (transfer full): a connection, or %NULL with UNREACHABLE or TIMEOUT set
 */
ClientConnection *client_connection_new(const Address *address, TlsClient *tls, ClientLimit limit,
					GError **error);

/* Waits until a connection that client_connection_begin() has started is connected. Returns: %FALSE
 * with UNREACHABLE or TIMEOUT set; then it is unusable */
gboolean client_connection_wait_ready(ClientConnection *self, ClientLimit limit, GError **error);

/* Returns whether an idle connection is unusable: the server has closed it, or has sent bytes
 * without a call. Never waits. */
gboolean client_connection_is_stale(ClientConnection *self);

/**
 * client_connection_exchange:
 * @request: a message
 * @max_reply_bytes: of the message that answers it
 * @out_reply: (out): set to the message that answers it; undefined on failure
 *
 * After a failure the connection is unusable.
 *
 * Returns: %TRUE, or %FALSE with UNREACHABLE, TIMEOUT or PROTOCOL set
 */
gboolean client_connection_exchange(ClientConnection *self, const GByteArray *request,
				    guint max_reply_bytes, ClientLimit limit, GByteArray *out_reply,
				    GError **error) G_GNUC_WARN_UNUSED_RESULT;
