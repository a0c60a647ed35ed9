/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"

/* The names of a client's TLS files, which are in PEM format, and whether the client checks host
 * names. */
typedef struct {
	/* file of CAs that sign servers' certificates; NULL for the system trust store */
	const char *ca;
	const char *certificate; /* the client's certificate; NULL if none */
	const char *key;         /* key of the certificate; NULL if none */
	gboolean any_name; /* do not check that a server's certificate contains its host name */
} TlsNames;

/* Copy or free the names. */
TlsNames tls_names_copy(const TlsNames *self);
void tls_names_clear(TlsNames *self);

/* The TLS settings of a client, for all its connections. Any thread can use it.
 *
 * Changed files are reread before the next connection, because certificates are renewed while
 * programs run. If they are unusable, for example because the key does not match, the previous
 * files stay in use until the files change again.
 */
typedef struct _TlsClient TlsClient;

/* Reads the files. Returns: (transfer full): the settings, or %NULL with a TlsError set */
TlsClient *tls_client_new(const TlsNames *names, GError **error);

/* Returns: (transfer full): @self, which can be %NULL. */
TlsClient *tls_client_ref(TlsClient *self);
void tls_client_unref(TlsClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsClient, tls_client_unref)

/* Returns TlsContext.expires_ms of the files as they were last read. */
gint64 tls_client_expires_ms(TlsClient *self);

/* Begins TLS on @fd, a connected non-blocking socket. Rereads the files if they have changed.
 * Returns: (transfer full): a stream, or %NULL with errno set
 * @host: the name of the server */
TlsStream *tls_client_connect(TlsClient *self, int fd, const char *host);

/* Call send(2) or recv(2) on @stream, or on @fd if @stream is %NULL, without SIGPIPE. See
 * stream.h. */
gssize tls_client_send(TlsStream *stream, int fd, const void *bytes, gsize length);
gssize tls_client_receive(TlsStream *stream, int fd, void *bytes, gsize length);

/* Returns: (transfer full): a message for @number, an errno of one of these functions or of a
 * stream's function. @stream: (nullable) */
char *tls_client_describe(const TlsStream *stream, int number);
