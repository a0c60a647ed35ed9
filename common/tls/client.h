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

/*
 * What a client brings to its connections with TLS. Any thread may use it.
 *
 * Certificates are renewed, and programs run for longer: files that have changed are read again
 * with the next connection. If they cannot be used as they are, such as a certificate whose key is
 * not there yet, what was read before stays, until they have changed once more.
 */
typedef struct _TlsClient TlsClient;

/* Reads the files. Returns: (transfer full): or %NULL with a TlsError set */
TlsClient *tls_client_new(const TlsNames *names, GError **error);

/* (transfer full): @self again; %NULL is let through. */
TlsClient *tls_client_ref(TlsClient *self);
void tls_client_unref(TlsClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsClient, tls_client_unref)

/* As tls_context_expires_ms(), of what was read last. */
gint64 tls_client_expires_ms(TlsClient *self);

/* On @fd, a connected socket that does not block. Looks at the files, and may read them.
 * Returns: (transfer full): or %NULL with errno set
 * @host: that was connected to */
TlsStream *tls_client_connect(TlsClient *self, int fd, const char *host);

/* As send(2) and recv(2), on @stream, or if that is %NULL on @fd, without SIGPIPE; see stream.h. */
gssize tls_client_send(TlsStream *stream, int fd, const void *bytes, gsize length);
gssize tls_client_receive(TlsStream *stream, int fd, void *bytes, gsize length);

/* After one of these, or a stream's function, has failed with that errno: what to tell of it.
 * (transfer full) @stream: (nullable): likewise */
char *tls_client_describe(const TlsStream *stream, int number);
