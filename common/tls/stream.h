/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/types.h>

#include "common/tls/context.h"

/*
 * TLS on a connected socket that does not block. It has no thread and no buffer that another could
 * wait for: each function does what it can, and where it fails with EAGAIN,
 * tls_stream_events() says what to wait for before it is called again. Whoever has the socket keeps
 * it, and closes it after the stream was freed. One thread at a time.
 */
typedef struct _TlsStream TlsStream;

/* The server's end, and the client's. (transfer full), or %NULL with errno set.
 * @context: kept as long as it is needed */
TlsStream *tls_stream_new_server(TlsContext *context, int fd);

/* @name: the host name that the other end's certificate must have, or its IP address without
 * brackets; %NULL: any. A host name is sent to the server too (SNI). A dot at the end of a name is
 * for the resolver only, and is dropped */
TlsStream *tls_stream_new_client(TlsContext *context, int fd, const char *name);

/* Says nothing to the other end: see tls_stream_close(). */
void tls_stream_free(TlsStream *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsStream, tls_stream_free)

/* Begins, or goes on. Returns 0 when it is done, or -1 with errno set: EAGAIN, or EPROTO, and
 * tls_stream_failure() says what was wrong; or another, of the socket; ECONNRESET also stands for
 * an end without a word. */
int tls_stream_shake_hands(TlsStream *self);

/* Whether that was done, also on a connection that has broken since. */
gboolean tls_stream_is_shaken(const TlsStream *self);

/* As recv(2) and send(2) do: bytes, 0 at the end; or -1 with errno set as above. Both go on with
 * the handshake until that is done. A server's end receives a few records at once. Either end is
 * through with another that sends messages of TLS without end, as those for new keys (RFC 8446,
 * 4.6.3). */
gssize tls_stream_receive(TlsStream *self, void *bytes, gsize length);
gssize tls_stream_send(TlsStream *self, const void *bytes, gsize length);

/* After a receive: whether the next one may tell something that the socket does not, since it was
 * read by then: bytes, the end, or that what came is broken. */
gboolean tls_stream_has_more(const TlsStream *self);

/* After a receive that had no more: whether it has part of a record, which gives nothing before
 * the rest has come. */
gboolean tls_stream_has_part(const TlsStream *self);

/* After EAGAIN: POLLIN, POLLOUT, for poll(2). */
short tls_stream_events(const TlsStream *self);

/* Tells the other end that nothing more comes, if the socket takes it at once. */
void tls_stream_close(TlsStream *self);

/* After EPROTO: what was wrong, for an operator to read. Borrowed. */
const char *tls_stream_failure(const TlsStream *self);

/* (transfer full) (nullable): the name in the other end's certificate, for people: its first
 * alternative name (DNS), or its subject if it has none; %NULL: no certificate. Bytes that are not
 * printable ASCII are \xNN. */
char *tls_stream_peer(const TlsStream *self);

/* Whether the other end has shown a certificate that is of @name: of one of its alternative names,
 * or of its common name. */
gboolean tls_stream_peer_is(const TlsStream *self, const char *name);

/* (transfer full) (nullable): a name for which tls_stream_peer_is() holds: the first of its
 * alternative names (DNS), or its common name. */
char *tls_stream_peer_name(const TlsStream *self);
