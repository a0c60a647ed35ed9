/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "common/tls/context.h"

/*
 * TLS on a connected non-blocking socket. No function blocks: if one fails with EAGAIN,
 * tls_stream_events() returns the events to wait for before the next call. The caller owns the
 * socket, and closes it after the stream is freed. One thread at a time.
 */
typedef struct _TlsStream TlsStream;

/* The server's end, and the client's. (transfer full), or %NULL with errno set.
 * @context: kept as long as it is needed */
TlsStream *tls_stream_new_server(TlsContext *context, int fd);

/* @name: the host name that the other end's certificate must have, or its IP address without
 * brackets; %NULL: any. A host name is sent to the server too (SNI). A dot at the end of a name is
 * for the resolver only, and is dropped */
TlsStream *tls_stream_new_client(TlsContext *context, int fd, const char *name);

/* Sends nothing to the other end; see tls_stream_close(). */
void tls_stream_free(TlsStream *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsStream, tls_stream_free)

/* Begins or continues the handshake. Returns 0 when it is complete, or -1 with errno set: EAGAIN;
 * EPROTO, with the reason in tls_stream_failure(); or an error of the socket. ECONNRESET also means
 * that the other end closed it. */
int tls_stream_shake_hands(TlsStream *self);

/* Whether the handshake was completed, even if the connection has failed since. */
gboolean tls_stream_is_shaken(const TlsStream *self);

/* Like recv(2) and send(2): bytes, 0 at the end, or -1 with errno set as above. Both continue the
 * handshake first. A server receives a few records at once. Either end closes a connection that
 * sends too many TLS messages, such as new keys (RFC 8446, 4.6.3). */
gssize tls_stream_receive(TlsStream *self, void *bytes, gsize length);
gssize tls_stream_send(TlsStream *self, const void *bytes, gsize length);

/* After a receive: whether to receive again without waiting for the socket, because bytes, the end
 * or an error are already read from it. */
gboolean tls_stream_has_more(const TlsStream *self);

/* After a receive without more: whether part of a record was read, and the rest is missing. */
gboolean tls_stream_has_part(const TlsStream *self);

/* After EAGAIN: POLLIN, POLLOUT, for poll(2). */
short tls_stream_events(const TlsStream *self);

/* Sends the close alert, if the socket accepts it at once. */
void tls_stream_close(TlsStream *self);

/* After EPROTO: the reason, for an operator. Borrowed. */
const char *tls_stream_failure(const TlsStream *self);

/* (transfer full) (nullable): the name in the other end's certificate, for people: its first
 * alternative name (DNS), or its subject if it has none; %NULL: no certificate. Bytes that are not
 * printable ASCII are \xNN. */
char *tls_stream_peer(const TlsStream *self);

/* Whether @name is an alternative name, or the common name, of the other end's certificate. */
gboolean tls_stream_peer_is(const TlsStream *self, const char *name);

/* (transfer full) (nullable): a name for which tls_stream_peer_is() holds: the first of its
 * alternative names (DNS), or its common name. */
char *tls_stream_peer_name(const TlsStream *self);
