/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "client/connection.h"
#include "common/address.h"
#include "common/tls/client.h"
#include "load/wire.h"

/*
 * A server that is loaded, and its resolved addresses. Its name is resolved once, before the load,
 * because threads of the load do not block. Immutable while they run; all threads share it.
 */
typedef struct {
	const Address *address; /* borrowed */
	TlsClient *tls;         /* borrowed; NULL: plain */
	GPtrArray *names;       /* ResolvedName; NULL: the name has no address */
	GError *error;          /* (nullable): why it cannot be connected to */
} LoadServer;

/* (transfer full): resolves the name, which blocks; a failure becomes the server's error.
 * @address: borrowed
 * @tls: (nullable): borrowed, for one with TLS */
LoadServer *load_server_new(const Address *address, TlsClient *tls);
void load_server_free(LoadServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadServer, load_server_free)

/*
 * One connection and its calls in flight. Calls are answered in the order in which they were sent,
 * so their slots form a ring: the oldest is the one whose reply comes next. A reply to any other
 * is not taken. Never waits once it is open.
 *
 * Members are for reading.
 */
typedef struct {
	ClientConnection *link; /* used until it is connected, and then for its socket and TLS */
	const LoadServer *server;
	const LoadWire *wire;
	/* The calls in flight: a ring of wire->slots. */
	gint64 *since_ns;
	guint oldest;
	guint in_flight;
	guint32 oldest_call; /* number of the oldest call, among all of the connection */
	gsize unsent_bytes;  /* at the end of the calls in flight */
	gboolean has_more; /* after its replies were taken: receive again at once, since the socket
			    * does not show what TLS has read */
	guint8 *rest;      /* the beginning of a reply; NULL until there was one */
	gsize rest_bytes;  /* 0: no part of a reply has come */
	gint64 last_id;    /* the driver's: of the last reply */
} LoadConnection;

/*
 * The buffers of a thread, which all of its connections share. So they stay in the processor's
 * cache, and a connection needs memory of its own only for a part of a reply.
 */
typedef struct {
	guint8 *requests; /* as many as there are slots */
	guint8 *bytes;
	gsize size;
	/* What was received and not yet taken: bytes[taken] to bytes[filled - 1]. */
	gsize taken;
	gsize filled;
} LoadConnectionBuffer;

void load_connection_buffer_init(LoadConnectionBuffer *self, const LoadWire *wire);
void load_connection_buffer_clear(LoadConnectionBuffer *self);

/**
 * load_connection_open:
 * @server: borrowed; gets its error if there is no connection; otherwise keeps only the address of
 *   the connection
 * @wire: borrowed
 * @timeout_ms: the limit for each address
 *
 * Connects, and waits until it is connected.
 *
 * Returns: (transfer full) (nullable): %NULL if @server has an error
 */
LoadConnection *load_connection_open(LoadServer *server, const LoadWire *wire, guint64 timeout_ms);

/**
 * load_connection_begin:
 * @server: borrowed
 * @attempt: its number: attempts use the server's addresses in turn
 *
 * Begins to connect. When the socket can be written to, load_connection_finish() completes it.
 *
 * Returns: (transfer full): or %NULL with an error of the client, which names the server
 */
LoadConnection *load_connection_begin(const LoadServer *server, guint attempt, const LoadWire *wire,
				      GError **error);

/* Returns: %FALSE with an error of the client, which names the server, if it is not connected. The
 * first call makes the TLS handshake. */
gboolean load_connection_finish(LoadConnection *self, GError **error);

void load_connection_free(LoadConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadConnection, load_connection_free)

/* Adds a call to what load_connection_flush() sends. There must be a free slot.
 * @since_ns: what load_connection_next_reply() returns */
void load_connection_add_call(LoadConnection *self, gint64 since_ns);

/**
 * load_connection_flush:
 * @buffer: its requests are used; what was received stays
 *
 * Writes once, if there are unsent bytes. Bytes that the socket does not take remain unsent.
 *
 * Returns: %FALSE with an error of GIO if the connection is lost. If the other side has ended it,
 *   load_connection_receive() fails instead, after the replies that arrived before
 */
gboolean load_connection_flush(LoadConnection *self, LoadConnectionBuffer *buffer, GError **error);

/* Whether there are unsent bytes, and it is this side's turn to send. */
gboolean load_connection_wants_write(const LoadConnection *self);

/**
 * load_connection_receive:
 * @buffer: is filled; its replies are to be taken with load_connection_next_reply() before it is
 *   used for another connection
 *
 * Reads once.
 *
 * Returns: %FALSE with an error of GIO if the connection is lost: G_IO_ERROR_CONNECTION_CLOSED if
 *   the other side has closed or reset it
 */
gboolean load_connection_receive(LoadConnection *self, LoadConnectionBuffer *buffer,
				 GError **error);

/**
 * load_connection_next_reply:
 * @out_reply: (out): VALUES and ERROR only; valid until the buffer is used again
 * @out_since_ns: (out): VALUES and ERROR only: of the call
 *
 * Takes the next reply that was received. If it is INCOMPLETE, its bytes are kept for the next
 * read. A reply is BROKEN, too, if no call waits for it that was sent completely. After FOREIGN and
 * BROKEN, the connection is unusable.
 */
LoadWireStatus load_connection_next_reply(LoadConnection *self, LoadConnectionBuffer *buffer,
					  LoadWireReply *out_reply, gint64 *out_since_ns);

/* Removes the oldest call in flight. There must be one. Returns: the @since_ns of
 * load_connection_add_call() */
gint64 load_connection_take_call(LoadConnection *self);
