/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "common/tls/context.h"

/* TLS on a connected non-blocking socket. No function blocks: if one fails with EAGAIN, the caller
 * waits for the member events before the next call. The caller owns the socket, and closes it after
 * the stream is freed. Only one thread at a time can use a stream. */
typedef struct {
	/* Code outside this module may only read these. */
	short events; /* after EAGAIN: the events to wait for, POLLIN or POLLOUT */
	/* after a receive: receive again without waiting for the socket, because bytes, the end or
	 * an error have already been read from it */
	gboolean has_more;
	/* after EPROTO: the reason, for display to an operator; "" if there was none */
	char failure[160];
	/* private */
	struct ssl_st *ssl;
	int fd;
	gboolean has_begun; /* server: the client's first byte has been checked */
	gboolean is_broken; /* nothing more can be sent */
	/* saved after each call, because OpenSSL forgets it if the connection breaks */
	gboolean is_shaken;
	/* errno of the first failed receive, and of all later ones; 0 if none has failed */
	int receive_failure;
	guint messages;   /* number of messages after the handshake */
	guint64 received; /* bytes of data */
} TlsStream;

/* Create the server's end or the client's end of a connection. Returns: (transfer full): a stream,
 * or %NULL with errno set.
 * @context: kept as long as it is needed */
TlsStream *tls_stream_new_server(TlsContext *context, int fd);

/* @name: the host name that the other end's certificate must have, or its IP address without
 * brackets; %NULL for any. A host name is also sent to the server (SNI). A dot at the end of a name
 * is dropped, because only the resolver uses it */
TlsStream *tls_stream_new_client(TlsContext *context, int fd, const char *name);

/* Frees the stream. Sends nothing to the other end; see tls_stream_close(). */
void tls_stream_free(TlsStream *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsStream, tls_stream_free)

/* Begins or continues the handshake. Returns 0 when it is complete, or -1 with errno set: EAGAIN;
 * EPROTO, with the reason in the member failure; or an error of the socket. ECONNRESET is also
 * set if the other end has closed the connection. */
int tls_stream_shake_hands(TlsStream *self);

/* Returns whether the handshake was completed, even if the connection has failed since. */
gboolean tls_stream_is_shaken(const TlsStream *self);

/* Like recv(2) and send(2), these functions return the number of bytes, 0 at the end, or -1 with
 * errno set as above. They complete the handshake first. A server receives a few records at a time.
 * Both ends close a connection on which too many TLS messages arrive, such as key updates (RFC
 * 8446, 4.6.3). */
gssize tls_stream_receive(TlsStream *self, void *bytes, gsize length);
gssize tls_stream_send(TlsStream *self, const void *bytes, gsize length);

/* After a receive, if has_more is FALSE: returns whether only part of a record was read. */
gboolean tls_stream_has_part(const TlsStream *self);

/* Sends the close alert, if the socket accepts it at once. */
void tls_stream_close(TlsStream *self);

/* How a failure begins if this end refuses the other end's certificate, and if the other end has
 * sent an alert. */
#define TLS_STREAM_REFUSES "the peer's certificate was rejected: "
#define TLS_STREAM_REPORTS "the peer reports: "

/* Returns: (transfer full) (nullable): the name in the other end's certificate, for display: the
 * first DNS subject alternative name, or the subject if there is none; %NULL if there is no
 * certificate. Bytes that are not printable ASCII are escaped as \xNN. */
char *tls_stream_peer(const TlsStream *self);

/* Returns whether @name is an alternative name, or the common name, of the other end's certificate.
 */
gboolean tls_stream_peer_is(const TlsStream *self, const char *name);

/* Returns: (transfer full) (nullable): a name for which tls_stream_peer_is() is true: the first
 * DNS subject alternative name, or the common name. */
char *tls_stream_peer_name(const TlsStream *self);
