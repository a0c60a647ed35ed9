/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"

/* The files that clients speak TLS with, in the PEM format, by name; and how strict they are. */
typedef struct {
	const char *ca;          /* who vouches for servers; NULL: whoever this machine believes */
	const char *certificate; /* its own; NULL: none */
	const char *key;         /* of that; NULL: there is none */
	gboolean any_name;       /* a server's certificate need not be of the host that it is
				  * reached by */
} TlsNames;

/* (transfer full): with copies of the names, and the end of those. */
TlsNames tls_names_copy(const TlsNames *self);
void tls_names_clear(TlsNames *self);

/* What a client brings to its connections with TLS. Never changed, so any thread may use it. */
typedef struct _TlsClient TlsClient;

/* Reads the files. Returns: (transfer full): or %NULL with a GIOError set */
TlsClient *tls_client_new(const TlsNames *names, GError **error);
void tls_client_free(TlsClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsClient, tls_client_free)

/* On @fd, a connected socket that does not block. Returns: (transfer full): or %NULL with errno set
 * @host: that was connected to */
TlsStream *tls_client_connect(const TlsClient *self, int fd, const char *host);

/* As send(2) and recv(2), on @stream, or if that is %NULL on @fd, without SIGPIPE; see stream.h. */
gssize tls_client_send(TlsStream *stream, int fd, const void *bytes, gsize length);
gssize tls_client_receive(TlsStream *stream, int fd, void *bytes, gsize length);

/* After one of these, or a stream's function, has failed with that errno: what to tell of it.
 * (transfer full) @stream: (nullable): likewise */
char *tls_client_describe(const TlsStream *stream, int number);
