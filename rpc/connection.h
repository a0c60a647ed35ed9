/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"
#include "rpc/stream.h"

/*
 * One client's socket. A pass reads what is there, has as many complete calls answered as a turn
 * has time for, and writes the replies at once. Between two calls a connection has no buffers:
 * those of a pass belong to the loop.
 *
 * The loop's thread only.
 */
typedef enum {
	CONNECTION_READING, /* waits for the client */
	CONNECTION_WRITING, /* replies wait for the client to take them */
	CONNECTION_CUT_OFF, /* its turn is over, and calls are left: run it again after others */
	CONNECTION_PARKED,  /* a call waits: RpcPass.wait tells for what */
	CONNECTION_ENDED,   /* free it */
} ConnectionState;

/* What the connections of one loop share. */
typedef struct {
	StreamShared stream;
	Counters *counters;
	guint8 *in; /* the bytes of the last read */
	gsize in_bytes;
	GByteArray *out;         /* replies of the pass; empty between passes */
	gsize max_pending_bytes; /* of replies that a client does not take: then it is not read */
} ConnectionShared;

/* The fields that every pass needs are last, before further ones in LoopConnection. */
typedef struct {
	TlsStream *tls;  /* NULL: plain */
	const char *bad; /* why its bytes were rejected; NULL: they were not */
	guint out_sent;  /* of @out */
	int fd;
	guint more : 1;   /* there can be more to read, which epoll does not report with TLS */
	guint full : 1;   /* complete calls can be left in @in: they are answered before more is
			     read */
	guint eof : 1;    /* the client sends no more */
	guint ending : 1; /* close when the replies are sent */
	guint is_tls : 1;
	guint in_record : 1; /* a record of TLS has begun and is incomplete */
	/* in the last pass: */
	guint sent : 1;     /* the client took bytes of replies */
	guint consumed : 1; /* a message was finished, or another one has begun */
	GByteArray *in;     /* bytes that are not consumed yet; NULL: none */
	GByteArray *out;    /* replies that are not sent yet; NULL: none */
	Stream stream;
} Connection;

/* Takes @fd, a connected non-blocking socket, and its @tls, whose handshake is done; %NULL: plain.
 */
void connection_init(Connection *self, int fd, TlsStream *tls);

/* Closes the socket. */
void connection_clear(Connection *self);

/* Sends replies that wait, without a pass. %FALSE: the connection is broken. */
gboolean connection_send(Connection *self, ConnectionShared *shared) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a connection that is WRITING. CUT_OFF: all is sent, and calls are left. */
ConnectionState connection_flush(Connection *self, ConnectionShared *shared);

/* Returns the events for epoll after a pass. A connection that is parked or cut off is not read
 * from before its next pass. */
guint32 connection_events(const Connection *self, const ConnectionShared *shared,
			  ConnectionState state);

/* Makes a pass: sends the replies that wait, and answers the calls that one turn has time for. No
 * bytes of the pass stay in @shared, so they cannot reach another connection.
 * @pass: (inout): with the loop's rules; the results are for the loop
 * @read: whether to read from the socket first */
ConnectionState connection_run(Connection *self, ConnectionShared *shared, RpcPass *pass,
			       gboolean read);

/* Half closes the socket, and drops all bytes of calls and replies. The client can still send, and
 * the kernel resets a connection that is closed with unread bytes: see connection_discard(). */
void connection_half_close(Connection *self);

/* Reads and drops bytes that have arrived. %FALSE: no more will. */
gboolean connection_discard(Connection *self, ConnectionShared *shared) G_GNUC_WARN_UNUSED_RESULT;
