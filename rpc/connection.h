/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"
#include "rpc/stream.h"

/* One client's socket. A pass reads the bytes that have arrived, answers complete calls within the
 * length of a turn, and writes the replies immediately. Passes use the loop's buffers, so a
 * connection has no buffers between two calls.
 *
 * Only the loop's thread may use it.
 */
typedef enum {
	CONNECTION_READING, /* waits for calls */
	CONNECTION_WRITING, /* waits for the client to read its replies */
	/* its turn is over, and calls are left: run another pass after the turns of other
	 * connections */
	CONNECTION_CUT_OFF,
	CONNECTION_PARKED, /* a call waits for the event in RpcPass.wait */
	CONNECTION_ENDED,  /* free it */
} ConnectionState;

/* The data that the connections of one loop share. */
typedef struct {
	StreamShared stream;
	Counters *counters;
	guint8 *in; /* the bytes of the last read */
	gsize in_bytes;
	GByteArray *out; /* replies of the current pass; empty between passes */
	/* while more bytes of replies than this are unsent, the client's calls are not read */
	gsize max_pending_bytes;
} ConnectionShared;

/* A new connection has only the members fd, tls and is_tls. The socket is connected and
 * non-blocking, and the handshake of @tls is complete. The connection takes over both. The members
 * that every pass needs are last, so that they are next to LoopConnection's members. */
typedef struct {
	TlsStream *tls;  /* NULL for no TLS */
	const char *bad; /* why the client's bytes were rejected; NULL if they were not */
	guint out_sent;  /* number of sent bytes of @out */
	int fd;
	guint more : 1; /* more bytes may be readable; with TLS, epoll does not report them */
	/* @in may contain complete calls, which are answered before more is read */
	guint full : 1;
	guint eof : 1;    /* the client has closed its sending side */
	guint ending : 1; /* close the connection as soon as the replies are sent */
	guint is_tls : 1;
	guint in_record : 1; /* an incomplete TLS record was received */
	/* results of the last pass: */
	guint sent : 1;     /* the client accepted bytes of replies */
	guint consumed : 1; /* a message was completed, or a new one has begun */
	GByteArray *in;     /* received bytes that were not consumed; NULL if none */
	GByteArray *out;    /* unsent bytes of replies; NULL if none */
	Stream stream;
} Connection;

/* Closes the socket. */
void connection_clear(Connection *self);

/* Sends unsent replies, without a pass. Returns %FALSE if the connection is broken. */
gboolean connection_send(Connection *self, ConnectionShared *shared) G_GNUC_WARN_UNUSED_RESULT;

/* Sends unsent replies of a connection that is WRITING. Returns CUT_OFF if all are sent and calls
 * are left. */
ConnectionState connection_flush(Connection *self, ConnectionShared *shared);

/* Returns the events for epoll after a pass. A connection that is parked or cut off is not read
 * before its next pass. */
guint32 connection_events(const Connection *self, const ConnectionShared *shared,
			  ConnectionState state);

/* Runs a pass: sends unsent replies, and answers calls within the length of a turn. No bytes of
 * the pass stay in @shared, so they cannot reach another connection.
 * @pass: (inout): contains the loop's rules, and receives the results for the loop
 * @read: whether to read from the socket first */
ConnectionState connection_run(Connection *self, ConnectionShared *shared, RpcPass *pass,
			       gboolean read);

/* Shuts down the sending side of the socket, and drops all bytes of calls and replies. The client
 * can still send. If a socket is closed while it has unread bytes, the kernel resets the
 * connection; connection_discard() prevents this. */
void connection_half_close(Connection *self);

/* Reads and drops bytes that have arrived. Returns %FALSE if no more can arrive. */
gboolean connection_discard(Connection *self, ConnectionShared *shared) G_GNUC_WARN_UNUSED_RESULT;
