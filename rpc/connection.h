/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"
#include "rpc/stream.h"

/*
 * One client's socket. It reads what is there, has the complete calls in it
 * answered, as many as a turn has time for, and writes the replies at once.
 * Between two calls it holds no buffers: those that a pass needs belong to the
 * loop.
 *
 * Its loop's thread only.
 */
typedef enum {
	CONNECTION_READING, /* waits for the client */
	CONNECTION_WRITING, /* replies wait for the client to take them */
	CONNECTION_CUT_OFF, /* its turn is over, calls are left: run it again, after others */
	CONNECTION_PARKED,  /* a call waits: RpcPass.wait tells for what */
	CONNECTION_ENDED,   /* nothing more to come: free it */
} ConnectionState;

/* What the connections of one loop share. */
typedef struct {
	StreamShared stream;
	Counters *counters;
	guint8 *in; /* what was read just now */
	gsize in_bytes;
	GByteArray *out;         /* replies of the pass in hand; between passes it is empty */
	gsize max_pending_bytes; /* of replies that a client does not take: then it is not read */
} ConnectionShared;

/* What every pass needs stands last, so that what else a pass needs can follow: see
 * LoopConnection. */
typedef struct {
	TlsStream *tls;  /* NULL: plain */
	const char *bad; /* what was wrong with its bytes; NULL: nothing */
	guint out_sent;  /* of @out */
	int fd;
	guint more : 1;   /* there may be more to read: it is to be asked for, and of TLS the socket
			     may not tell */
	guint full : 1;   /* complete calls may be left in @in: it is not read on before they are
			     answered */
	guint eof : 1;    /* the client sends no more */
	guint ending : 1; /* close when the replies are sent */
	guint is_tls : 1;
	guint in_record : 1; /* of TLS: one has begun, and its rest is yet to come */
	/* in the last pass: */
	guint sent : 1;     /* the client took bytes of replies */
	guint consumed : 1; /* a message was finished, or what is left of one begins */
	GByteArray *in;     /* bytes that are not consumed yet; NULL: none */
	GByteArray *out;    /* replies that are not sent yet; NULL: none */
	Stream stream;
} Connection;

/* Takes @fd, a connected non-blocking socket, and @tls on it, with which hands were shaken; %NULL:
 * plain. */
void connection_init(Connection *self, int fd, TlsStream *tls);

/* Closes the socket. */
void connection_clear(Connection *self);

/* Sends what waits to be sent, and no more. %FALSE: the connection is broken. */
gboolean connection_send(Connection *self, ConnectionShared *shared) G_GNUC_WARN_UNUSED_RESULT;

/* Likewise, for one that is WRITING. CUT_OFF: all is sent, and calls are left. */
ConnectionState connection_flush(Connection *self, ConnectionShared *shared);

/* What epoll is to watch for after a pass. One that is parked or cut off is not read from before
 * its turn comes. */
guint32 connection_events(const Connection *self, const ConnectionShared *shared,
			  ConnectionState state);

/**
 * connection_run:
 * @pass: (inout): with the loop's rules; the results are for the loop
 * @read: whether to read from the socket first
 *
 * Makes a pass: sends the replies that wait, and answers the calls that one turn has time for. No
 * bytes of the pass stay in @shared, so they cannot reach another connection.
 */
ConnectionState connection_run(Connection *self, ConnectionShared *shared, RpcPass *pass,
			       gboolean read);

/* Says that no reply comes any more, and drops what it holds of calls and replies. The client may
 * not have heard that yet, and bytes that were not read when a socket is closed make the kernel
 * reset the connection: so connection_discard() is for what it still sends. */
void connection_half_close(Connection *self);

/* Reads away some of what has come. %FALSE: no more will come. */
gboolean connection_discard(Connection *self, ConnectionShared *shared) G_GNUC_WARN_UNUSED_RESULT;
