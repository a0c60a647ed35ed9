/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "client/connection.h"
#include "common/address.h"
#include "common/tls/client.h"
#include "load/wire.h"

/* A server under load, and its resolved addresses. Its name is resolved once, before the load
 * starts, because the load's threads must not block. Immutable while the threads run; all of them
 * share it. */
typedef struct {
	const Address *address; /* borrowed: the server's address */
	TlsClient *tls;         /* borrowed; NULL for no TLS */
	GPtrArray *names;       /* (element-type ResolvedName); NULL if the name has no address */
	GError *error;          /* (nullable): why no connection is possible */
} LoadServer;

/* Resolves the name; blocks. Stores a failure as the server's error.
 * @address: borrowed, as is @tls
 * @tls: (nullable); required for a server with TLS */
LoadServer *load_server_new(const Address *address, TlsClient *tls);
void load_server_free(LoadServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadServer, load_server_free)

/* One connection and its calls in flight. Calls are answered in the order in which they were sent,
 * so their slots form a ring, and the next reply must be for the oldest call. Functions never wait
 * once the connection is open.
 *
 * Code outside this module may only read the members. */
typedef struct {
	/* opens the connection, and then holds its socket and its TLS state */
	ClientConnection *link;
	const LoadServer *server;
	const LoadWire *wire;
	/* The calls in flight: a ring of wire->slots. */
	gint64 *since_ns;
	guint oldest;
	guint in_flight;
	/* number of the oldest call in flight, counted from the connection's first call */
	guint32 oldest_call;
	gsize unsent_bytes; /* unsent part of the calls in flight */
	/* receive again immediately after the replies are taken, because TLS has read bytes that
	 * the socket no longer reports */
	gboolean has_more;
	guint8 *rest;     /* the received part of a reply; NULL until needed */
	gsize rest_bytes; /* 0 if there is no part of a reply */
	gint64 last_id;   /* ID of the last reply, for the driver */
} LoadConnection;

/* The buffers of a thread, which all of its connections share. Sharing keeps them in the
 * processor's cache, and a connection needs memory only for an incomplete reply. */
typedef struct {
	guint8 *requests; /* has room for a request per slot */
	guint8 *bytes;
	gsize size;
	/* Bytes that were received and not yet taken: bytes[taken] to bytes[filled - 1]. */
	gsize taken;
	gsize filled;
} LoadConnectionBuffer;

void load_connection_buffer_init(LoadConnectionBuffer *self, const LoadWire *wire);
void load_connection_buffer_clear(LoadConnectionBuffer *self);

/* Connects, and waits until it is connected. Returns: (transfer full) (nullable): %NULL if @server
 * has an error, which is set on failure; on success, only the address that was used remains.
 * @timeout_ms: the limit for each address */
LoadConnection *load_connection_open(LoadServer *server, const LoadWire *wire, guint64 timeout_ms);

/* Begins to connect. When the socket is writable, call load_connection_finish().
 * @attempt: number of the attempt; determines which of the server's addresses is used
 * Returns: (transfer full): a connection, or %NULL with a client error set, which names the server
 */
LoadConnection *load_connection_begin(const LoadServer *server, guint attempt, const LoadWire *wire,
				      GError **error);

/* Completes the connection, including the TLS handshake. Returns: %FALSE with a client error set,
 * which names the server, if this fails */
gboolean load_connection_finish(LoadConnection *self, GError **error);

void load_connection_free(LoadConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadConnection, load_connection_free)

/* Adds a call, which load_connection_flush() sends. There must be a free slot. @since_ns: returned
 * with the reply by load_connection_next_reply() */
void load_connection_add_call(LoadConnection *self, gint64 since_ns);

/* Writes once, if there are unsent bytes. Bytes that the socket does not accept remain unsent. Uses
 * the requests in @buffer; its received bytes are unchanged.
 * Returns: %FALSE with a GIOError set if the connection is lost. If the other side has closed it,
 * load_connection_receive() fails instead, after the last reply that had already arrived */
gboolean load_connection_flush(LoadConnection *self, LoadConnectionBuffer *buffer, GError **error);

/* Returns whether there are unsent bytes that can be sent, that is, the TLS handshake does not wait
 * for the other end. */
gboolean load_connection_wants_write(const LoadConnection *self);

/* Reads once into @buffer. Take its replies with load_connection_next_reply() before you use it for
 * another connection. Returns: %FALSE with a GIOError set if the connection is lost:
 * G_IO_ERROR_CONNECTION_CLOSED if the other side has closed or reset it */
gboolean load_connection_receive(LoadConnection *self, LoadConnectionBuffer *buffer,
				 GError **error);

/**
 * load_connection_next_reply:
 * @out_reply: (out): VALUES and ERROR only; valid until the buffer is used again
 * @out_since_ns: (out): VALUES and ERROR only: the call's @since_ns
 *
 * Takes the next reply that was received. If it is INCOMPLETE, its bytes are kept for the next
 * read. A reply that matches no completely sent call is also BROKEN. After FOREIGN and BROKEN, the
 * connection is unusable.
 */
LoadWireStatus load_connection_next_reply(LoadConnection *self, LoadConnectionBuffer *buffer,
					  LoadWireReply *out_reply, gint64 *out_since_ns);

/* Removes the oldest call in flight. There must be one. Returns: the @since_ns of
 * load_connection_add_call() */
gint64 load_connection_take_call(LoadConnection *self);
